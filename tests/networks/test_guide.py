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
def folder(tmp_path, monkeypatch):
    """A user's folder: the file from the guide, and some data; Python runs there."""
    (tmp_path / "deep_network.py").write_text(PYTHON[0], encoding="utf-8")
    np.savez(tmp_path / "embeddings.npz", **embeddings())
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("deep_network", None)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line_trains_with_it(folder, command):
    """In a new process: the file is found because it lies in the folder."""
    program, *arguments = shlex.split(command)
    assert program == "ulc"
    done = subprocess.run(
        [sys.executable, "-m", "ulc", *arguments, "--quiet"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "deep_network" not in done.stdout
    assert len(list(folder.glob("runs/*/done"))) == 1


@pytest.mark.usefixtures("folder")
def test_python_trains_with_it(capsys):
    exec(compile(PYTHON[1], "guide", "exec"), {})
    assert capsys.readouterr().out.count("Linear(") == 3  # depth = 3


@pytest.mark.usefixtures("folder")
def test_the_estimator_trains_with_it(capsys):
    exec(compile(PYTHON[2], "guide", "exec"), {})
    assert 0 <= float(capsys.readouterr().out) <= 1


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
