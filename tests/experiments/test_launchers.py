"""Sweeps by Ray and by SLURM's jobs: the runs and the table of a local sweep, whatever dies."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import ulc as package
from stub_data import embeddings
from ulc.config import RunSpec
from ulc.errors import InputError
from ulc.experiments.grid import SweepProgress
from ulc.experiments.launchers import find_launcher
from ulc.experiments.slurm_launcher import SlurmLauncher
from ulc.experiments.sweep import sweep
from ulc.storage.run_folder import RunFolder
from ulc.training.run import resolved

ALGORITHMS = ["ce", "elr_plus", "dividemix", "ulc"]

OWN = """
from ulc.algorithms.cross_entropy import CrossEntropy

class Fails(CrossEntropy):
    def train_epoch(self, epoch):
        raise KeyError("a bug")

class Dies(CrossEntropy):
    def train_epoch(self, epoch):
        import os
        os._exit(1)
"""


class Heard(SweepProgress):
    """Collects the epochs of each cell."""

    def __init__(self):
        self.epochs = {}

    def on_plan(self, cells):
        self.epochs = {cell.title: [] for cell in cells}

    def on_epoch(self, cell, record):
        self.epochs[cell.title].append(record["epoch"])


@pytest.fixture
def spec():
    """Data by a relative path: it must be found from a process that starts elsewhere."""
    np.savez("tiny.npz", **embeddings())
    noise = {"kind": "symmetric", "rate": 0.3}
    return RunSpec(data={"source": "npz", "path": "tiny.npz"}, noise=noise, epochs=2)


@pytest.fixture
def own(monkeypatch):
    Path("own_launched.py").write_text(OWN)
    monkeypatch.syspath_prepend(Path.cwd())


def files_of(result):
    """What each run has learned, by the name of its folder."""
    folders = [run.folder for runs in result.runs.values() for run in runs]
    names = ("model.safetensors", "labels.csv", "summary.json")
    return {folder.path.name: [folder.read(name) for name in names] for folder in folders}


@pytest.mark.slow
def test_jobs_of_submitit_give_the_runs_and_the_table_of_a_local_sweep(spec):
    """To the last digit; all epochs are reported; finished runs are not trained again."""
    pytest.importorskip("submitit")
    heard, again = Heard(), Heard()
    launcher = SlurmLauncher(cluster="local")
    options = {"seeds": [0, 1], "device": "cpu"}
    found = sweep(spec, ALGORITHMS, "jobs", launcher=launcher, progress=heard, **options)
    local = sweep(spec, ALGORITHMS, "local", jobs=1, **options)
    assert found.table == local.table
    assert files_of(found) == files_of(local)
    assert found.failures == ()
    assert list(heard.epochs.values()) == [[0, 1]] * 8
    sweep(spec, ALGORITHMS, "jobs", launcher=launcher, progress=again, **options)
    assert list(again.epochs.values()) == [[]] * 8
