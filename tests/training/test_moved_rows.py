"""Rows that changed on the disk after the run: no decision and no example is given to them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ulc.applying.apply import apply
from ulc.config import DataSpec, RunSpec
from ulc.errors import InputError
from ulc.report.page import make_report, note_of_change
from ulc.training.run import run

COUNT = 24


@pytest.fixture
def table_run():
    """A finished run of a table whose rows have no ids."""
    write_table(np.arange(COUNT))
    data = DataSpec(source="table", path=str(Path("table.csv").absolute()))
    return run(RunSpec(data=data, algorithm="ce", epochs=1), Path("runs"))


def write_table(order):
    """Rows of two classes in turn; `order` has the row whose numbers stand at each position."""
    labels = np.arange(COUNT) % 2
    numbers = np.random.default_rng(0).normal(size=(COUNT, 3)) + 3 * labels[:, None]
    table = pd.DataFrame(numbers[order], columns=["a", "b", "c"])
    table.assign(label=np.array(["cat", "dog"])[labels]).to_csv("table.csv", index=False)


SWAPPED = np.r_[2, 1, 0, 3:COUNT]  # two rows of the same class, so no label changes


def test_rows_without_ids_that_have_moved_get_no_decision(table_run):
    decisions = pd.DataFrame({"id": ["0"], "decision": ["relabel"], "label": ["dog"]})
    write_table(SWAPPED)
    with pytest.raises(InputError, match="rows have changed or moved since the run"):
        apply(table_run, decisions, Path("copy.csv"))
    assert not Path("copy.csv").exists()
    write_table(np.arange(COUNT))
    assert apply(table_run, decisions, Path("table.csv"), force=True).changed == 1
    later = decisions.assign(id="1", label="cat")  # labels and verified marks do not move rows
    assert apply(table_run, later, Path("table.csv"), force=True).changed == 2


def test_a_report_shows_no_rows_that_have_moved(table_run):
    assert note_of_change(table_run) is None
    assert 'href="#map"' in make_report(table_run).html
    write_table(SWAPPED)
    assert "has changed since the run" in str(note_of_change(table_run))
    assert 'href="#map"' not in make_report(table_run).html


def test_a_report_says_when_rows_with_ids_have_other_values():
    """Only the content decides: a file that was written again is the same."""
    arrays = {"X": np.eye(COUNT, 3), "y": np.arange(COUNT) % 2, "ids": np.arange(COUNT).astype(str)}
    np.savez("data.npz", **arrays)
    data = DataSpec(source="npz", path=str(Path("data.npz").absolute()))
    folder = run(RunSpec(data=data, algorithm="ce", epochs=1), Path("runs"))
    np.savez("data.npz", **arrays)
    assert note_of_change(folder) is None
    np.savez("data.npz", **(arrays | {"X": np.eye(COUNT, 3)[::-1]}))
    assert note_of_change(folder) is not None
