"""Files that do not fit on the disk: one sentence, nothing half written, and the run goes on."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

if sys.platform == "win32":
    pytest.skip("Windows has no bound of the size of files", allow_module_level=True)
import resource

TRAIN = ("train", "d.npz", "--algorithm", "ce", "--epochs", 2)


@contextmanager
def largest_file(size):
    """No file of this process can grow above so many bytes, as with `ulimit -f`."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def run(ulc):
    """A finished run of 600 rows, and its folder."""
    vectors = np.random.default_rng(0).normal(size=(600, 4))
    np.savez("d.npz", X=vectors, y=np.arange(600) % 2, ids=np.arange(600).astype(str))
    assert ulc(*TRAIN, "--out", "whole")[0] == 0
    return next(Path("whole").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("size", [100, 2000, 10_000])
def test_a_training_that_cannot_write_goes_on_to_the_same_bits(ulc, run, size):
    with largest_file(size):
        code, printed = ulc(*TRAIN, "--out", "again")
    assert code == 2
    assert "cannot be written (File too large)" in printed.err.splitlines()[-1]
    assert not list(Path("again").rglob("*.part"))
    assert ulc(*TRAIN, "--out", "again")[0] == 0
    for name in ("model.safetensors", "labels.csv", "health.json"):
        assert (Path("again") / run.name / name).read_bytes() == (run / name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("report", "RUN", "--out", "r.html"),
        ("predict", "RUN", "d.npz", "--out", "p.csv"),
        ("export", "RUN", "--safetensors", "m.safetensors"),
        ("apply", "RUN", "decisions.csv", "--out", "c.npz"),
    ],
    ids=lambda command: command[0],
)
def test_a_command_that_cannot_write_leaves_nothing(ulc, run, command):
    Path("decisions.csv").write_text("id,decision,label\n0,reject,\n")
    command = [run if each == "RUN" else each for each in command]
    with largest_file(2000):
        code, printed = ulc(*command)
    assert code == 2
    assert "cannot be written (File too large)" in printed.err.splitlines()[-1]
    left = {path.name for path in Path().iterdir()} - {"image-cache"}
    assert left == {"d.npz", "decisions.csv", "whole"}
    assert ulc(*command)[0] == 0


NO_ROOM = "ulc: the output is not whole: its disk is full; make room and repeat"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_output_that_cannot_be_written_is_one_sentence():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ulc", "algorithms"], stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == [NO_ROOM]


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_of_which_a_part_can_be_written_is_one_sentence(unbuffered):
    """Without a buffer Python writes the part that fits, and says nothing of the rest."""
    command = [sys.executable, "-m", "ulc", "algorithms"]
    no_cache = {"PYTHONDONTWRITEBYTECODE": "1"}  # its files would be cut short, too
    variables = os.environ | no_cache | {"PYTHONUNBUFFERED": unbuffered}
    with Path("output").open("wb") as output, largest_file(100):
        done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, env=variables)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == [NO_ROOM]
    assert Path("output").stat().st_size == 100


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error():
    command = f"{sys.executable} -m ulc algorithms ulc | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
