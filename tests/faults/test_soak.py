"""A few runs in one process leave nothing; `python -m benchmarks soak` does a hundred."""

import os
import sys
import threading
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("Windows has no /dev/fd", allow_module_level=True)

from benchmarks import soak
from benchmarks.fault_jobs import write_data


@pytest.fixture(autouse=True)
def _temporary_files_of_its_own(tmp_path, monkeypatch):
    """Other tests write to the system's folder of temporary files at the same time."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))


@pytest.mark.slow
def test_nothing_grows_from_run_to_run(tmp_path):
    job = soak.life_of_a_run(write_data(tmp_path), "ulc")
    growth = soak.soak([job], tmp_path / "work", runs=3, first=2)
    assert soak.too_much(growth) == []


def test_growth_of_every_kind_is_seen(tmp_path):
    kept, go = [], threading.Event()

    def leak(out):
        kept.append([[] for _ in range(2000)])
        kept.append(bytes(64 * 2**20).replace(b"\0", b"1"))
        kept.append(os.open(os.devnull, os.O_RDONLY))
        threading.Thread(target=go.wait, daemon=True).start()
        (Path("temporary") / str(len(kept))).write_bytes(b"")
        kept.append(os.posix_spawn("/bin/sleep", ["sleep", "60"], {}))

    growth = soak.soak([leak], tmp_path / "work", runs=2, first=1)
    go.set()
    for number, each in enumerate(kept):
        if number % 4 == 3:
            os.kill(each, 9)
            os.waitpid(each, 0)
        elif number % 4 == 2:
            os.close(each)
    assert soak.too_much(growth) == list(soak.BOUNDS)
