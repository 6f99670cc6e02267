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


def test_a_folder_is_made_with_those_above_it_but_not_below_a_file():
    spec = RunSpec(data=DataSpec(source="npz", path="a.npz"), algorithm="ce")
    assert RunFolder.create(Path("some/where/run"), spec).path.is_dir()
    Path("file").touch()
    with pytest.raises(InputError, match="cannot be made"):
        RunFolder.create(Path("file/run"), spec)


def test_a_folder_is_opened_by_its_own_spec_and_refused_to_another():
    made = make_folder(threshold=0.3)
    assert make_folder(threshold=0.3).spec == made.spec == RunFolder.open(made.path).spec
    with pytest.raises(InputError, match="holds another run; choose another place"):
        make_folder(threshold=0.4)
    assert made.spec.options == {"threshold": 0.3}


@pytest.mark.parametrize(
    ("name", "message"),
    [("audit.toml", "an unfinished audit"), ("other", "no spec.toml in it"), (None, "not exist")],
)
def test_a_folder_without_a_run_is_told_with_what_it_lacks(name, message):
    if name is not None:
        Path("empty").mkdir()
        Path("empty", name).touch()
    with pytest.raises(InputError, match=message):
        RunFolder.open(Path("empty"))


def test_a_file_that_is_missing_is_told_with_the_remedy_of_a_finished_or_stopped_run():
    folder = make_folder()
    with pytest.raises(InputError, match=r"data.json is not there yet.*ulc resume run"):
        folder.read_json("data.json")
    folder.finish()
    with pytest.raises(InputError, match=r"data.json is missing from the run; train it again"):
        folder.read_json("data.json")


def test_arrays_are_read_as_they_were_written():
    folder = make_folder()
    arrays = {"a": np.arange(6).reshape(2, 3), "b": np.array(["x", "yz"])}
    folder.write_arrays("some.npz", arrays)
    found = folder.read_arrays("some.npz")
    assert set(found) == {"a", "b"}
    assert all(np.array_equal(found[name], arrays[name]) for name in arrays)


def test_rows_have_the_ids_that_were_written_or_none():
    folder = make_folder()
    assert folder.ids is None
    folder.write_json("ids.json", ["b", "a"])
    assert folder.ids == ["b", "a"]


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
