"""Trainings at once in processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from ulc.config import DataSpec, NoiseSpec, RunSpec
from ulc.errors import InputError
from ulc.experiments import side_by_side
from ulc.experiments.side_by_side import (
    exit_at_sigterm,
    run_side_by_side,
    train_side_by_side,
)
from ulc.storage.run_folder import RunFolder
from ulc.training.environment import usable_cores, use_threads
from ulc.training.loop import TrainingProgress
from ulc.training.run import run


class Listening(TrainingProgress):
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


@pytest.mark.slow
def test_two_at_a_time_end_as_if_each_had_been_trained_alone(data, tmp_path, monkeypatch):
    """To the bit, given as many threads; and each progress hears of its own training.

    Never three processes with two jobs; each run is reported as it ends.
    """
    alive, most = set(), [0]
    start = side_by_side.start_training

    def counted(*arguments):
        pipe, process = start(*arguments)
        alive.add(process)
        most[0] = max(most[0], sum(each.is_alive() for each in alive))
        return pipe, process

    monkeypatch.setattr(side_by_side, "start_training", counted)
    three = [*specs(data), specs(data)[0].model_copy(update={"seed": 1})]
    progresses = [Listening() for _ in three]
    finished = dict(train_side_by_side(three, tmp_path / "both", progresses, jobs=2, device="cpu"))
    found = [finished[place] for place in range(3)]
    assert most[0] == 2
    cores = max(1, torch.get_num_threads() // 2)
    with use_threads(cores):
        alone = [run(spec, tmp_path / "alone", device="cpu") for spec in three]
    for one, other in zip(found, alone, strict=True):
        assert one.path.name == other.path.name
        assert one.read("model.safetensors") == other.read("model.safetensors")
        assert one.read("labels.csv") == other.read("labels.csv")
        assert one.read_json("environment.json")["threads"] == cores
    assert [progress.epochs for progress in progresses] == [[0, 1, 2]] * 3
    assert all(set(means) == {"loss"} for progress in progresses for _, means in progress.steps)


@pytest.mark.slow
def test_what_is_done_is_not_repeated_and_what_is_the_same_is_trained_once(data, tmp_path):
    """Without noise, the ceiling is cross entropy: equal specs have one folder."""
    first, second = specs(data)
    before = run(first, tmp_path, device="cpu").read("records.jsonl")
    progresses = [Listening() for _ in range(3)]
    folders = run_side_by_side([first, second, second], tmp_path, progresses, device="cpu")
    assert folders[0].read("records.jsonl") == before
    assert folders[1].path == folders[2].path
    assert [progress.epochs for progress in progresses] == [[], [0, 1, 2], []]
    assert all(folder.done for folder in folders)


@pytest.mark.slow
def test_a_mistake_of_the_user_is_told_in_one_sentence_and_the_others_go_on(data, tmp_path, capfd):
    (wrong, _), (_, right) = specs(data, options={"sgd": {"lr": 1e30}}), specs(data)
    both = [wrong, right], tmp_path, [TrainingProgress(), TrainingProgress()]
    results = dict(train_side_by_side(*both, device="cpu"))
    assert "lower the learning rate" in str(results[0])
    assert results[1].done
    with pytest.raises(InputError, match="lower the learning rate"):
        run_side_by_side(*both, device="cpu")
    assert capfd.readouterr() == ("", "")


def kill_oneself(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def stumble(*_):
    raise RuntimeError("a network of one's own")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
def test_a_training_that_is_killed_is_named(data, tmp_path, monkeypatch):
    monkeypatch.setattr("ulc.experiments.side_by_side.train", kill_oneself)
    with pytest.raises(InputError, match=r"ce-s0-.* was killed"):
        run_side_by_side(specs(data)[:1], tmp_path, [TrainingProgress()], device="cpu")


@pytest.mark.slow
def test_a_training_that_fails_says_why_itself(data, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("ulc.experiments.side_by_side.train", stumble)
    with pytest.raises(RuntimeError, match="failed; see above"):
        run_side_by_side(specs(data)[:1], tmp_path, [TrainingProgress()], device="cpu")
    assert "a network of one's own" in capfd.readouterr().err


@pytest.mark.skipif(usable_cores() < 2, reason="one core")
def test_a_run_goes_on_with_the_threads_it_began_with(data, tmp_path):
    spec, _ = specs(data)
    with use_threads(2):
        folder = run(spec, tmp_path, device="cpu")
    (folder.path / "done").unlink()
    with use_threads(1):
        again = run(spec, tmp_path, device="cpu")
        assert torch.get_num_threads() == 1
    assert again.read_json("environment.json")["threads"] == 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_at_ctrl_c_all_stop_and_go_on_another_time(data, tmp_path):
    """Nothing is said; no process stays behind, and no lock."""
    endless = specs(data, epochs=100_000)
    script = (
        "import signal, sys\n"
        "from pathlib import Path\n"
        "from ulc.config import RunSpec\n"
        "from ulc.experiments.side_by_side import run_side_by_side\n"
        "from ulc.training.loop import TrainingProgress\n"
        "specs = [RunSpec.model_validate_json(each) for each in sys.argv[2:]]\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)  # else ignored\n"
        "    quiet = [TrainingProgress(), TrainingProgress()]\n"
        "    try: run_side_by_side(specs, Path(sys.argv[1]), quiet)\n"
        "    except KeyboardInterrupt: print('stopped')\n"
    )
    (tmp_path / "script.py").write_text(script)
    running = subprocess.Popen(
        [sys.executable, tmp_path / "script.py", tmp_path / "runs"]
        + [spec.model_dump_json() for spec in endless],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until(lambda: len(list(tmp_path.glob("runs/*/environment.json"))) == 2)
    os.killpg(running.pid, signal.SIGINT)
    printed, said = running.communicate(timeout=60)
    assert (printed, said) == ("stopped\n", "")
    until(lambda: gone(running.pid))
    for path in (tmp_path / "runs").iterdir():
        with RunFolder.open(path).locked():
            pass


def until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def gone(group):
    """Whether no process of a process group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_a_handler_of_sigterm_that_the_program_set_stays():
    def handle(number, frame):
        raise AssertionError

    before = signal.signal(signal.SIGTERM, handle)
    try:
        with exit_at_sigterm():
            assert signal.getsignal(signal.SIGTERM) is handle
    finally:
        signal.signal(signal.SIGTERM, before)
    with exit_at_sigterm():
        assert signal.getsignal(signal.SIGTERM) not in (handle, signal.SIG_DFL)
    assert signal.getsignal(signal.SIGTERM) is before


LIMITED = """
import os, sys
from ulc.cli import main

if __name__ == "__main__":
    if sys.argv.pop(1) == "affinity":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    command = sys.argv[:]
    for jobs in "12":
        sys.argv = [*command, "--jobs", jobs, "--out", f"runs{jobs}"]
        try: main()
        except SystemExit as end: assert not end.code, end
"""


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["OMP_NUM_THREADS", "affinity"])
def test_a_sweep_uses_no_more_threads_than_the_process_may(data, tmp_path, limit):
    """With one thread, or on one core, a run has one thread, whatever the machine has.

    With one job it is trained in the process itself, with two in a process of its own.
    """
    if limit == "affinity" and not hasattr(os, "sched_setaffinity"):
        pytest.skip("no such limit on this system")
    (tmp_path / "limited.py").write_text(LIMITED)
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, tmp_path / "limited.py", limit, "sweep", data.path, "--algorithms", "ce",
         "--seeds", "0", "--epochs", "1"],
        env=environment | ({"OMP_NUM_THREADS": "1"} if limit == "OMP_NUM_THREADS" else {}),
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for out in ("runs1", "runs2"):
        (path,) = Path(out).glob("*/environment.json")
        assert json.loads(path.read_text())["threads"] == 1
