"""The guide `docs/add_a_network.md`, followed by the letter, in a folder of its own."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stub_data import embeddings
from ulc.networks import BACKBONES

GUIDE = (Path(__file__).parents[2] / "docs" / "add_a_network.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", GUIDE, re.DOTALL)
PYTHON = [code for language, code in BLOCKS if language == "python"]
COMMANDS = [line for language, code in BLOCKS if not language for line in code.splitlines()]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "deep_network.py").write_text(PYTHON[0], encoding="utf-8")
    np.savez(tmp_path / "embeddings.npz", **embeddings())
    return tmp_path


def run(folder, *arguments):
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line_trains_with_it(folder, command):
    program, *arguments = shlex.split(command)
    assert program == "ulc"
    assert "deep_network" not in run(folder, "-m", "ulc", *arguments, "--quiet")
    assert len(list(folder.glob("runs/*/done"))) == 1


@pytest.mark.slow
def test_python_trains_with_it(folder):
    printed = run(folder, "-c", PYTHON[1])
    assert printed.count("Linear(") == 3  # depth = 3


@pytest.mark.slow
def test_the_estimator_trains_with_it(folder):
    assert 0 <= float(run(folder, "-c", PYTHON[2])) <= 1


def first_column(heading):
    """The first column of the table below a heading."""
    section = GUIDE.partition(heading)[2].partition("\n## ")[0]
    return re.findall(r"^\| `(.*?)` \|", section, re.MULTILINE)


def test_the_guide_lists_the_built_in_networks():
    assert first_column("## The built-in networks") == list(BACKBONES)


def test_the_messages_that_the_guide_explains_are_those_of_the_code():
    source = Path(__file__).parents[2] / "src" / "ulc"
    texts = " ".join(path.read_text(encoding="utf-8") for path in source.rglob("*.py"))
    joined = re.sub(r'"\s*\n\s*f?"', "", texts).replace("`", "")
    listed = first_column("## 3. What can go wrong")
    assert len(listed) == 7
    for message in listed:
        assert message in joined, message
