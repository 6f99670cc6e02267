"""docs/from_the_paper.md: every command of the page runs, on small stand-in files and networks."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "from_the_paper.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^(ulc .+)$", PAGE, re.M)
TRAININGS = [command for command in COMMANDS if command.startswith("ulc train")]
SWEEPS = [command for command in COMMANDS if command.startswith("ulc sweep")]


def columns():
    """`ulc train` for every column of the tables: a cell's first value, then its others."""
    for cell in re.findall(r"^\|[^|]+\| (`cifar.+) \|$", PAGE, re.M):
        first, *others = re.findall(r"`([^`]+)`", cell)
        yield f"ulc train {first} --algorithm ce"
        for other in others:
            head = first.rpartition(":")[0] if other[0] == ":" else first.rpartition(" ")[0] + " "
            yield f"ulc train {head}{other} --algorithm ce"


@pytest.fixture
def stand_ins():
    """CIFAR's binary files with a few random images of every class."""
    rng = np.random.default_rng(0)

    def write(path, classes, each, label_bytes):
        labels = np.repeat(np.arange(classes, dtype=np.uint8), each)
        pixels = rng.integers(0, 256, (len(labels), 3072), dtype=np.uint8)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(np.hstack([*[labels[:, None]] * label_bytes, pixels]).tobytes())

    for name in [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]:
        write(Path("CIFAR10", f"{name}.bin"), 10, 2, 1)
    write(Path("CIFAR100", "train.bin"), 100, 5, 2)
    write(Path("CIFAR100", "test.bin"), 100, 1, 2)


def shorten(command):
    """The arguments of a command, with a small network, two epochs and at most four algorithms."""
    short = command.replace("preact_resnet18", "small_cnn").replace(" all ", " ce,ulc-fixmatch ")
    words = shlex.split(short)[1:]
    if "--epochs" in words:
        words[words.index("--epochs") + 1] = "2"
    else:
        words += ["--epochs", "2"]
    return words


def test_the_page_names_every_table_and_figure():
    assert all(f"## Table {number}" in PAGE for number in range(1, 5))
    assert all(f"## Figure {number}" in PAGE for number in range(1, 5))
    assert (len(TRAININGS), len(SWEEPS), len(list(columns()))) == (9, 3, 17)


@pytest.mark.slow
@pytest.mark.usefixtures("stand_ins")
@pytest.mark.parametrize("command", [*TRAININGS, *columns()])
def test_a_training_runs(ulc, command):
    code, printed = ulc(*shorten(command), "--quiet")
    assert code == 0, printed.err


@pytest.mark.slow
@pytest.mark.usefixtures("stand_ins")
@pytest.mark.parametrize("command", SWEEPS)
def test_a_sweep_runs(ulc, command):
    code, printed = ulc(*shorten(command), "--quiet")
    assert code == 0, printed.err
