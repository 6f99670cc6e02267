"""The decisions unsure and delete, in the copy of each kind of data."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_apply import KINDS, TABLE, prepared, read_rows, write_decisions, write_images

from stub_runs import judged_run
from ulc.config import DataSpec


@pytest.fixture
def table_run():
    """Rows r0 … r8 of cat, dog, чай in turn; r0 should be a dog, r4 a cat."""
    Path("data.csv").write_text(TABLE, encoding="utf-8")
    return judged_run(DataSpec(source="table", path="data.csv"), {0: "dog", 4: "cat"})


def test_a_deleted_row_is_not_in_the_table_and_an_unsure_one_stays_unverified(ulc, table_run):
    write_decisions("r0,delete,", "r4,unsure,dog", "r7,delete,", "r8,relabel,tea")
    code, printed = ulc("apply", table_run.path, "decisions.csv")
    assert code == 0
    assert printed.out.splitlines()[0] == (
        "data.corrected.csv: 1 of 9 labels changed (0 accepted, 0 rejected, 1 relabelled, "
        "1 unsure, 2 rows deleted); 1 verified"
    )
    lines = [f"{line},0" for line in TABLE.splitlines()]
    lines[0] = "id,kind,label,note,verified"
    lines[9] = "r8,0,tea, x,1"
    expected = [line for place, line in enumerate(lines) if place not in (1, 8)]
    assert Path("data.corrected.csv").read_text(encoding="utf-8").splitlines() == expected
    assert len(prepared("data.corrected.csv").training.given) == 7


def test_unsure_alone_changes_no_byte_and_is_not_accepted_with_all_others(ulc, table_run):
    write_decisions("r0,unsure,")
    assert ulc("apply", table_run.path, "decisions.csv", "-q")[0] == 0
    assert Path("data.corrected.csv").read_bytes() == Path("data.csv").read_bytes()
    code, printed = ulc("apply", table_run.path, "decisions.csv", "--accept-all", "--json")
    assert code == 0
    done = json.loads(printed.out)
    assert (done["unsure"], done["accepted_unseen"], done["verified"]) == (1, 1, 0)
    labels = [row["label"] for row in read_rows("data.corrected.csv")]
    assert (labels[0], labels[4]) == ("cat", "cat")


def test_a_parquet_table_loses_the_deleted_rows_and_keeps_its_types(ulc):
    frame = pd.DataFrame(
        {"id": [f"r{i}" for i in range(6)], "x": np.arange(6.0), "label": [3, 5] * 3}
    )
    frame.to_parquet("data.parquet")
    run = judged_run(DataSpec(source="table", path="data.parquet"), {1: "3"})
    write_decisions("r1,delete,", "r2,accept,", "r5,unsure,")
    assert ulc("apply", run.path, "decisions.csv", "-q")[0] == 0
    after = pd.read_parquet("data.corrected.parquet")
    assert list(after.id) == ["r0", "r2", "r3", "r4", "r5"]
    assert list(after.label) == [3, 3, 5, 3, 5]
    assert list(after.verified) == [False, True, False, False, False]
    assert after.label.dtype == frame.label.dtype


def test_every_array_of_rows_in_an_npz_loses_the_deleted_rows(ulc):
    arrays = {
        "X": np.arange(8.0).reshape(4, 2),
        "y": np.array([0, 1, 0, 1]),
        "weights": np.arange(4),  # the user's own, one for each row
        "mine": np.arange(3),
        "class_names": np.array(["a", "b", "c", "d"]),  # as many as rows, by chance
        "X_test": np.ones((4, 2)),
        "y_test": np.array([0, 1, 2, 3]),
    }
    np.savez("toy.npz", **arrays)
    run = judged_run(DataSpec(source="npz", path="toy.npz"), {0: "b"})
    write_decisions("0,delete,", "2,reject,")
    assert ulc("apply", run.path, "decisions.csv", "-q")[0] == 0
    after = dict(np.load("toy.corrected.npz"))
    for name in ("X", "y", "weights"):
        assert np.array_equal(after[name], arrays[name][1:])
    for name in ("mine", "class_names", "X_test", "y_test"):
        assert np.array_equal(after[name], arrays[name])
    assert after["verified"].tolist() == [False, True, False]


def test_deleted_images_are_not_in_the_table_of_a_folder(ulc):
    write_images()
    run = judged_run(DataSpec(source="folder", path="photos"), {0: "dog"})
    write_decisions(f"{run.ids[0]},delete,", f"{run.ids[3]},unsure,")
    assert ulc("apply", run.path, "decisions.csv", "-q")[0] == 0
    again = prepared("photos.corrected.csv", image="image", label="label", verified="verified")
    assert list(again.ids) == run.ids[1:]
    assert not again.verified.any()
    assert all(Path(each).is_file() for each in run.ids)  # no image is deleted


def test_a_list_of_labels_leaves_deleted_rows_out(ulc):
    run = judged_run(DataSpec(), {0: "bag"})
    write_decisions("0,delete,")
    assert ulc("apply", run.path, "decisions.csv", "-q")[0] == 0
    assert read_rows("fashion.corrected.csv")[0]["id"] == "1"


def test_deleting_every_row_is_refused(ulc, table_run):
    write_decisions(*[f"r{row},delete,{KINDS[row % 3]}" for row in range(9)])
    code, printed = ulc("apply", table_run.path, "decisions.csv")
    assert code == 2
    assert "deletes all 9 rows; keep some of them" in printed.err
    assert not Path("data.corrected.csv").exists()
