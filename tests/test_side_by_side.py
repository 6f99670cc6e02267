"""Trainings at once in processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from ulc.config import DataSpec, NoiseSpec, RunSpec
from ulc.errors import InputError
from ulc.experiments.side_by_side import run_side_by_side
from ulc.training.run import run, threads
from ulc.training.trainer import Watcher


class Listening(Watcher):
    def __init__(self):
        self.epochs = []
        self.steps = []

    def on_step(self, epoch, seen):
        self.steps.append((epoch, seen.record()))

    def on_epoch(self, record):
        self.epochs.append(record["epoch"])


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.tile(np.arange(3), 20)
    features = rng.normal(size=(60, 4)) + 3 * np.eye(3, 4)[labels]
    np.savez(tmp_path / "toy.npz", X=features, y=labels)
    return DataSpec(source="npz", path=str(tmp_path / "toy.npz"))


def specs(data, epochs=3, options=None):
    plain = RunSpec(data=data, algorithm="ce", epochs=epochs, options=options or {})
    noisy = plain.model_copy(update={"noise": NoiseSpec(kind="symmetric", rate=0.5)})
    return [plain, noisy]


def test_they_end_as_if_each_had_been_trained_alone(data, tmp_path):
    """To the bit, given as many threads; and each watcher hears of its own training."""
    watchers = [Listening(), Listening()]
    found = run_side_by_side(specs(data), tmp_path / "both", watchers, device="cpu")
    cores = max(1, (os.cpu_count() or 1) // 2)
    with threads(cores):
        alone = [run(spec, tmp_path / "alone", device="cpu") for spec in specs(data)]
    for one, other in zip(found, alone, strict=True):
        assert one.path.name == other.path.name
        assert one.read("model.safetensors") == other.read("model.safetensors")
        assert one.read("labels.csv") == other.read("labels.csv")
        assert one.read_json("environment.json")["threads"] == cores
    assert [watcher.epochs for watcher in watchers] == [[0, 1, 2]] * 2
    assert all(set(means) == {"loss"} for watcher in watchers for _, means in watcher.steps)


def test_what_is_done_is_not_repeated(data, tmp_path):
    first, second = specs(data)
    before = run(first, tmp_path, device="cpu").read("records.jsonl")
    watchers = [Listening(), Listening()]
    folders = run_side_by_side([first, second], tmp_path, watchers, device="cpu")
    assert folders[0].read("records.jsonl") == before
    assert [watcher.epochs for watcher in watchers] == [[], [0, 1, 2]]
    assert all(folder.done for folder in folders)


def test_a_mistake_of_the_user_is_told_in_one_sentence(data, tmp_path):
    wrong = specs(data, options={"sgd": {"lr": 1e30}})
    with pytest.raises(InputError, match="lower the learning rate"):
        run_side_by_side(wrong, tmp_path, [Watcher(), Watcher()], device="cpu")


def test_a_training_that_is_killed_is_named(data, tmp_path, monkeypatch):
    monkeypatch.setattr("ulc.experiments.side_by_side.train", os.abort)
    with pytest.raises(InputError, match="was killed"):
        run_side_by_side(specs(data), tmp_path, [Watcher(), Watcher()], device="cpu")


def test_a_run_goes_on_with_the_threads_it_began_with(data, tmp_path):
    (tmp_path / "r").mkdir()
    spec, _ = specs(data)
    with threads(1):
        folder = run(spec, tmp_path / "r", device="cpu")
    (folder.path / "done").unlink()
    before = torch.get_num_threads()
    again = run(spec, tmp_path / "r", device="cpu")
    assert again.read_json("environment.json")["threads"] == 1
    assert torch.get_num_threads() == before


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_at_ctrl_c_all_stop_and_the_same_command_goes_on(data, tmp_path):
    """Nothing but one sentence is said, no process stays behind, and no lock."""
    arguments = [
        "train", data.path, "--noise", "symmetric:0.5", "--compare", "--epochs", "3000",
        "--out", str(tmp_path / "runs"), "--device", "cpu",
        "--set", "batch_size=16", "--set", "warmup_batch_size=16",
    ]  # fmt: skip
    command = [sys.executable, "-m", "ulc", *arguments]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    until(lambda: len(list(tmp_path.glob("runs/*/environment.json"))) == 2)
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert "ulc: stopped; the same command" in said
    assert "Traceback" not in said
    until(lambda: not members(running.pid))
    shorter = [*arguments, "--epochs", "2", "--quiet", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "ulc", *shorter], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert all(row["done"] for row in json.loads(done.stdout))


def until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def members(group):
    """Processes of a process group that are still there."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
