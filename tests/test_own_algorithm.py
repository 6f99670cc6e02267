"""The guide `docs/add_an_algorithm.md`, followed by the letter, in a folder of its own."""

import json
import re
import shlex
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
import torch

import ulc as package
from stub_data import embeddings
from ulc import algorithms
from ulc.algorithms.cross_entropy import CrossEntropy
from ulc.errors import InputError
from ulc.testing import Case, check_algorithm, toy_data

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "generalised_cross_entropy.py"
GUIDE = (ROOT / "docs" / "add_an_algorithm.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", GUIDE, re.DOTALL)
PYTHON = [code for language, code in BLOCKS if language == "python"]
COMMANDS = [line for language, code in BLOCKS if not language for line in code.splitlines()]
MODULE = "generalised_cross_entropy"
NAME = f"{MODULE}:GeneralisedCrossEntropy"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A user's folder: the file from the guide, and some data; Python runs there."""
    (tmp_path / "generalised_cross_entropy.py").write_text(PYTHON[0])
    np.savez(tmp_path / "embeddings.npz", **embeddings())
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    yield tmp_path
    sys.modules.pop(MODULE, None)


@pytest.fixture
def gce(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    return algorithms.find_algorithm(NAME)


def test_the_file_in_the_guide_is_the_example_that_is_tested():
    assert PYTHON[0] == EXAMPLE.read_text()


@pytest.mark.slow
def test_it_passes_the_laws_as_the_guide_says(folder):
    exec(compile(PYTHON[1], "guide", "exec"), {})


def test_it_trains_from_python_as_the_guide_says(folder, capsys):
    exec(compile(PYTHON[2], "guide", "exec"), {})
    assert 0 <= float(capsys.readouterr().out.split()[0]) <= 1
    (run,) = (folder / "runs").iterdir()
    assert package.load_run(run).spec.options["q"] == 0.5


def words_of(command):
    """The words of a command behind the program's name."""
    program, *words = shlex.split(command)
    assert program == "ulc"
    return words


@pytest.mark.usefixtures("folder")
def test_the_command_line_takes_it_as_the_guide_says_and_its_run_shows_its_name(ulc):
    train, show, _ = map(words_of, COMMANDS)
    code, printed = ulc(*train, "--json")
    assert code == 0, printed.err
    (row,) = json.loads(printed.out)
    assert row["spec"]["algorithm"] == NAME
    assert row["done"]
    code, printed = ulc(*show)
    assert code == 0, printed.err
    assert "towards 0: cross entropy" in printed.out


@pytest.mark.slow
def test_a_sweep_finds_it_in_all_its_processes_as_the_guide_says(folder):
    """In new processes: the file is found because it lies in the folder."""
    *_, sweep = map(words_of, COMMANDS)
    assert sweep[0] == "sweep"
    done = subprocess.run(
        [sys.executable, "-m", "ulc", *sweep, "--seeds", "0"],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(list(folder.glob("runs/*/done"))) == 2


def test_it_is_generalised_cross_entropy(gce):
    """The gradient of (1 − p^q)/q is p^q times that of −log p; as q goes to 0 it is the same."""
    data = toy_data("vector")
    tiny, _ = Case(gce, "vector", {"q": 1e-4}).trained(data)
    plain, _ = Case(CrossEntropy, "vector").trained(data)
    torch.testing.assert_close(
        tiny.learner.network.head.weight, plain.learner.network.head.weight, rtol=0, atol=1e-3
    )


def test_an_installed_package_s_algorithm_is_found_by_its_entry_point(gce, monkeypatch):
    entry = EntryPoint(name="gce", value=NAME, group="ulc.algorithms")
    broken = EntryPoint(name="broken", value="no_such_module:Thing", group="ulc.algorithms")
    monkeypatch.setattr(algorithms, "entry_points", lambda group: [entry, broken])
    assert algorithms.find_algorithm("gce") is gce
    known = algorithms.known_algorithms()
    assert known["gce"] is gce
    assert "broken" not in known
    assert set(algorithms.ALGORITHMS) < set(known)
    with pytest.raises(InputError, match="no_such_module"):
        algorithms.find_algorithm("broken")


UNFINISHED = """
from ulc.algorithms.base import Algorithm
from ulc.config import Spec

class Unconfigured(Algorithm):
    def train_epoch(self, epoch):
        return {}

class Demanding(Spec):
    needed: int

class Idle(Algorithm):
    config_class = Demanding

class Complete(Idle):
    def train_epoch(self, epoch):
        return {}
"""


@pytest.fixture
def unfinished(tmp_path, monkeypatch):
    (tmp_path / "unfinished.py").write_text(UNFINISHED)
    (tmp_path / "unfinished_quits.py").write_text("raise SystemExit(0)")
    (tmp_path / "unfinished_chatters.py").write_text("raise ValueError('first line\\nsecond')")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("unfinished")
def test_an_option_without_a_default_is_named():
    with pytest.raises(InputError, match=r"each needs a default: 'needed'"):
        algorithms.configure("unfinished:Complete", {})


def test_of_the_settings_of_ours_only_the_schedule_reaches_an_algorithm_of_yours(gce):
    """Its `sgd` is an SGD, which means the same; its `threshold` or `memory` need not."""
    asymmetric = package.RunSpec(
        data={"source": "cifar10"}, noise={"kind": "asymmetric", "rate": 0.4}, algorithm=NAME
    )
    assert package.with_preset(asymmetric).options == {"sgd": {"milestones": [150]}}


@pytest.mark.usefixtures("gce", "unfinished")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "unknown algorithm 'nothing'; known: ce, .*or your own module:Class"),
        ("no_such_module:Class", "algorithm 'no_such_module:Class' cannot be imported"),
        ("generalised_cross_entropy:Missing", "cannot be imported .*Missing"),
        ("generalised_cross_entropy:Config", "'.*:Config' is no algorithm; name a class derived"),
        ("ulc.algorithms.base:Algorithm", "'.*:Algorithm' is no algorithm"),
        ("ulc.algorithms.base:seeded", "'.*:seeded' is no algorithm"),
        ("unfinished:Unconfigured", "'unfinished:Unconfigured' has no config_class; set it to"),
        ("unfinished:Idle", "'unfinished:Idle' has no train_epoch; define this method"),
        ("unfinished_quits:Anything", "cannot be imported"),
        ("unfinished_chatters:Anything", r"cannot be imported \(first line\); check"),
    ],
)
def test_what_is_no_algorithm_is_refused_in_one_sentence(name, message):
    with pytest.raises(InputError, match=message):
        algorithms.find_algorithm(name)


def test_a_module_that_fails_is_named(ulc, folder):
    (folder / "broken.py").write_text("1 / 0\n")
    code, printed = ulc("train", "embeddings.npz", "-a", "broken:Thing")
    assert code == 2
    assert printed.err.count("\n") == 1
    assert "broken:Thing" in printed.err
    assert not (folder / "runs").exists()


@pytest.mark.slow
def test_check_algorithm_takes_options(gce):
    check_algorithm(gce, {"q": 0.5})
