"""What is left of a sweep: finished, stopped and unknown trainings."""

from pathlib import Path

import numpy as np
import pytest
import torch

from stub_data import embeddings
from ulc.config import RunSpec
from ulc.data import identity
from ulc.experiments import measuring
from ulc.experiments.grid import Cell
from ulc.experiments.planning import (
    Planned,
    epochs_done,
    find_finished,
    plan_sweep,
    total_seconds,
)
from ulc.storage.run_folder import RunFolder
from ulc.training.run import resolved, run

OUT = Path("runs")


@pytest.fixture
def cell(monkeypatch):
    monkeypatch.setattr(identity, "SETTLED", -60.0)  # else files of this second are read again
    np.savez("tiny.npz", **embeddings())
    data = {"source": "npz", "path": str(Path("tiny.npz").absolute())}
    return Cell("row", "column", RunSpec(data=data, algorithm="ce", epochs=3))


def test_a_finished_run_counts_as_long_as_its_data_stay(cell):
    assert find_finished(cell, OUT) is None
    done = run(cell.spec, OUT, device="cpu")
    assert find_finished(cell, OUT).path == done.path
    assert plan_sweep([cell], OUT, jobs=1, device="cpu") == [Planned(cell, 0)]
    np.savez("tiny.npz", **embeddings(count=60))
    assert find_finished(cell, OUT) is None


def test_the_epochs_of_a_stopped_run_are_not_trained_again(cell):
    spec = resolved(cell.spec)
    folder = RunFolder.create(OUT / spec.folder_name, spec)
    assert epochs_done(cell, OUT) == 0
    folder.write_records([{"epoch": number, "train": {}} for number in range(2)])
    assert epochs_done(cell, OUT) == 2
    folder.write_records([{"epoch": number, "train": {}} for number in range(3)])
    assert epochs_done(cell, OUT) == 2  # the results are still to be written
    (folder.path / "records.jsonl").write_text("{")
    assert epochs_done(cell, OUT) == 0


def test_the_time_is_unknown_where_the_data_cannot_be_read(cell):
    Path("tiny.npz").unlink()
    planned = plan_sweep([cell], OUT, jobs=1, device="cpu")
    (found,) = planned
    assert found == Planned(cell, 3, None, "nothing", found.why_not)
    assert "tiny.npz" in found.why_not
    assert total_seconds(planned, 1) is None


def test_the_start_of_a_first_training_and_parts_of_batches_are_not_measured(cell, monkeypatch):
    """Three seconds of start-up, 0.01 seconds a row in the warm-up and 0.02 later."""
    trained, slow = [], 1

    def train_part(spec, labelled, rows, device):
        trained.append(rows)
        start = 3 if len(trained) == 1 else 0
        return [start + slow * 0.01 * rows, slow * 0.01 * rows, slow * 0.02 * rows]

    monkeypatch.setattr(measuring, "train_part", train_part)
    spec = resolved(cell.spec.model_copy(update={"options": {"batch_size": 30}}))
    pace, rows = measuring.measure_pace(spec, torch.device("cpu"))
    assert (pace.warm_up, pace.later, rows) == (pytest.approx(0.01), pytest.approx(0.02), 90)
    assert trained == [32, 60]
    trained.clear()
    measuring.measure_pace(resolved(cell.spec), torch.device("cpu"))
    assert trained == [32, 74]  # of 90 rows those that take ten seconds, with the start
    trained.clear()
    slow = 10
    assert measuring.measure_pace(spec, torch.device("cpu"))[0].later == pytest.approx(0.2)
    assert trained == [32]


@pytest.mark.parametrize(
    ("seconds", "jobs", "total"),
    [([], 2, 0), ([4.0, 6.0, 2.0], 1, 12), ([4.0, 6.0, 2.0], 2, 6), ([4.0, None], 2, None)],
)
def test_trainings_share_the_time_but_the_longest_takes_its_own(cell, seconds, jobs, total):
    finished = Planned(cell, 0)
    assert total_seconds([finished, *(Planned(cell, 1, each) for each in seconds)], jobs) == total
