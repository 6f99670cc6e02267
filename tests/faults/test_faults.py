"""Random kills and random flips of bits, few of them; `python -m benchmarks faults` does many."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import fault_kills
from benchmarks.fault_jobs import NAMES, write_data
from benchmarks.faults import flip_finished
from ulc.storage.files import write_whole

ROOT = Path(__file__).parents[2]
forks = pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be forked")


@pytest.mark.slow
@forks
def test_killed_trainings_and_commands_end_in_the_same_bits_and_flips_are_noticed():
    """In a process of its own, because it forks. It exits with 1 if anything is broken.

    Without `sweep` and `tune`, whose workers take long to start; tests/test_stopping.py kills them.
    """
    killed = [name for name in NAMES if name not in ("sweep", "tune")]
    jobs = [f"--job={name}" for name in killed]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "faults", "--kills=30", "--flips=100", *jobs],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "30 kills, 0 broken" in done.stdout
    assert all(f"'{name}'" in done.stdout for name in killed)


def write_two(out):
    write_whole(out / "a", b"1")
    write_whole(out / "b", b"2")


def forget_after_a_kill(out):
    """A job that is not repeatable: what it writes depends on what is there."""
    again = (out / "a").exists()
    write_two(out)
    (out / "c").write_bytes(b"again" if again else b"first")


@forks
@pytest.mark.parametrize(
    ("job", "write", "faults"),
    [
        (write_two, 0, []),
        (write_two, 1, []),
        (forget_after_a_kill, 1, ["other bits in c"]),
    ],
)
def test_a_killed_job_is_compared_with_an_unbroken_one(job, write, faults):
    """The benchmark can fail: it sees other bits."""
    assert kill_in_write(job, write) == (1, faults)


@forks
def test_a_temporary_file_that_stays_is_seen(monkeypatch):
    monkeypatch.setattr("ulc.storage.files.remove_temporaries", lambda *_: None)
    kills, (fault,) = kill_in_write(write_two, 1)
    assert kills == 1
    assert fault.startswith("left .b.")


@forks
def test_a_process_that_stays_is_seen(monkeypatch):
    monkeypatch.setattr(fault_kills, "PATIENCE", 0)
    child = fault_kills.start(lambda: subprocess.Popen(["sleep", "60"]), write=None)
    os.waitpid(child, 0)
    assert fault_kills.left_processes(child) == ["left the process sleep 60"]
    os.killpg(child, signal.SIGKILL)
    monkeypatch.undo()
    assert fault_kills.left_processes(child) == []


def kill_in_write(job, write):
    """Kill the job once, in its write with this number; return the kills and the faults."""
    unbroken = fault_kills.run_unbroken(job, Path("work"))

    class Chosen:
        """Chance that chooses this write."""

        def random(self):
            return 0

        def integers(self, _):
            return write

        def uniform(self, *_):
            return 0

    return fault_kills.kill_often(job, Path("work"), unbroken, 1, Chosen())


@pytest.mark.slow
def test_without_checksums_flips_would_change_what_comes_out(tmp_path):
    """The benchmark sees silent damage: here the file that reveals it is removed."""
    rng = np.random.default_rng(0)
    found = flip_finished(write_data(tmp_path), tmp_path, 60, rng, remove="checksums.json")
    assert any(outcome.startswith("wrong") for outcome in found)
