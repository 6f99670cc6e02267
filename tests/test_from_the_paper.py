"""docs/from_the_paper.md: every command of the page runs, on small stand-in files and networks."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from stub_clothing import clothing1m
from stub_data import embeddings

PAGE = (Path(__file__).parents[1] / "docs" / "from_the_paper.md").read_text(encoding="utf-8")
SECTIONS = {
    part.splitlines()[0]: re.findall(r"^(ulc .+)$", part, re.M)
    for part in PAGE.split("\n## ")
    if re.search(r"^ulc ", part, re.M)
}
UNEVEN = "cifar10,symmetric:0.5,half:10"
ONE_COLUMN = {
    "table1": "cifar10,symmetric_inclusive:0.5",
    "table2": UNEVEN,
    "table3": "clothing1m",
    "table4": UNEVEN,
    "figure4": "symmetric:0.5",
}


@pytest.fixture
def stand_ins():
    """CIFAR's binary files with a few random images of every class, and a few features."""
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
    np.savez("FEATURES.npz", **embeddings(100, 10, 10))
    clothing1m("CLOTHING1M", sizes={"noisy_train": 28, "clean_val": 14, "clean_test": 14})


def shorten(command):
    """The arguments of a command: two epochs, a small network, one column and few methods."""
    words = shlex.split(command)[1:]
    if words[0] in ("table", "figure"):
        return words
    if words[0] == "train":
        return [*words, "--network", "small_cnn", "--epochs", "2"]
    methods = {"table3": "ce", "table4": "ulc,ulc-without-csm", "figure4": ""}
    column = ONE_COLUMN.get(words[1])
    for option in ("--jobs", "--seeds", "--only"):
        if option in words:
            place = words.index(option)
            del words[place : place + 2]
    seeds = ["--seeds", "1"] if words[0] == "sweep" else []
    named = filter(None, [methods.get(words[1], "ce,ulc"), column])
    only = [] if column is None else ["--only", ",".join(named)]
    network = [] if "cpu" in words else ["--network", "small_cnn"]
    return [*words, *seeds, *only, *network, "--epochs", "2", "--jobs", "1"]


def test_the_page_names_every_table_and_figure():
    titles = "\n".join(line for line in PAGE.splitlines() if line.startswith("## "))
    assert all(f"## Table {number}" in titles for number in range(1, 5))
    assert all(f"## Figure {number}" in titles for number in range(1, 5))
    commands = [command.split()[1] for several in SECTIONS.values() for command in several]
    counts = {name: commands.count(name) for name in ("sweep", "table", "figure", "train", "tune")}
    assert counts == {"sweep": 11, "table": 5, "figure": 4, "train": 3, "tune": 1}


@pytest.mark.slow
@pytest.mark.usefixtures("stand_ins")
@pytest.mark.parametrize("section", SECTIONS)
def test_the_commands_of_a_section_run_one_after_the_other(ulc, section):
    for command in SECTIONS[section]:
        words = shorten(command)
        quiet = ["--quiet"] if words[0] in ("train", "sweep", "tune") else []
        code, printed = ulc(*words, *quiet)
        assert code == 0, (words, printed.err)
