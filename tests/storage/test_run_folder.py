"""Laws of a run folder's files: what may be written, and what an unfinished run tells."""

from pathlib import Path

import numpy as np
import pytest

from ulc.config import DataSpec, RunSpec
from ulc.errors import InputError
from ulc.storage.run_folder import RunFolder, UnwrittenFolder, check_epochs


def make_folder(**options):
    spec = RunSpec(data=DataSpec(source="npz", path="a.npz"), algorithm="ce", options=options)
    return RunFolder.create(Path("run"), spec)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_does_not_have_are_not_written(number):
    folder = make_folder()
    with pytest.raises(ValueError, match="JSON"):
        folder.write_json("summary.json", {"accuracy": number})
    with pytest.raises(ValueError, match="JSON"):
        folder.write_records([{"epoch": 0, "loss": number}])
    assert not folder.has("summary.json")
    assert not folder.has("records.jsonl")


@pytest.mark.parametrize(
    ("options", "threshold"), [({}, 0.5), ({"threshold": 0.3}, 0.3), ({"threshold": "high"}, 0.5)]
)
def test_the_threshold_of_an_unfinished_run_is_that_of_its_spec(options, threshold):
    assert make_folder(**options).threshold == threshold


def test_verified_rows_are_a_mask_of_all_rows():
    folder = make_folder()
    folder.write_json("data.json", {"examples": 4, "class_names": ["a", "b"], "name": "a"})
    np.testing.assert_array_equal(folder.verified, [False] * 4)
    folder.write_json("verified.json", [2, 0])
    np.testing.assert_array_equal(folder.verified, [True, False, True, False])
    folder.write_json("verified.json", [4])
    with pytest.raises(InputError, match="is damaged"):
        _ = folder.verified


def test_epochs_follow_one_another_from_zero():
    check_epochs([])
    check_epochs([0, 1, 2])
    for epochs, missing in (([1], 0), ([0, 2], 1), ([0, 1, 1], 2)):
        with pytest.raises(ValueError, match=f"epoch {missing} is missing"):
            check_epochs(epochs)


def test_a_folder_that_another_process_writes_has_no_files_for_this_one():
    made = make_folder()
    other = UnwrittenFolder(made.path)
    other.write("done", b"")
    assert made.has("spec.toml")
    assert (other.has("spec.toml"), other.done, other.records) == (False, False, [])
    assert not made.done
