"""Random kills and random flips of bits, few of them; `python -m benchmarks faults` does many."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be forked")
def test_killed_trainings_and_audits_end_in_the_same_bits_and_flips_are_noticed():
    """In a process of its own, because it forks. It exits with 1 if anything is broken."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "faults", "--kills", "30", "--flips", "100"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "30 kills" in done.stdout
    assert "0 broken" in done.stdout


@pytest.mark.slow
def test_without_checksums_flips_would_change_what_comes_out(tmp_path):
    """The benchmark sees silent damage: here the file that reveals it is removed."""
    from benchmarks.faults import flip_finished, write_data

    rng = np.random.default_rng(0)
    found = flip_finished(write_data(tmp_path), tmp_path, 60, rng, remove="checksums.json")
    assert any(outcome.startswith("wrong") for outcome in found)
