"""examples/, each run as a script in a folder of the user's own."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
ALGORITHM = "generalised_cross_entropy"  # imported by own_algorithm; tested in test_own_algorithm
SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != ALGORITHM)


@pytest.fixture
def run_example(monkeypatch, capsys):
    """Run a script in this process, which saves importing torch; return what it prints."""
    monkeypatch.syspath_prepend(EXAMPLES)

    def call(name, *arguments):
        path = str(EXAMPLES / f"{name}.py")
        monkeypatch.setattr(sys, "argv", [path, *arguments])
        runpy.run_path(path, run_name="__main__")
        return capsys.readouterr().out

    return call


def read_count(printed, text):
    """(found, all) of the line `text: found of all`."""
    return tuple(map(int, re.search(rf"{text}: +(\d+) of (\d+)", printed).groups()))


def test_every_example_has_a_test_below():
    tested = {name.removeprefix("test_example_") for name in globals() if "test_example_" in name}
    assert tested == set(SCRIPTS)
    assert len(SCRIPTS) >= 6


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_is_short_and_says_how_to_run_it(name):
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    docstring = text.split('"""')[1]
    assert f"    python {name}.py\n" in docstring
    assert f"({name}.py)" in (EXAMPLES / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_example_own_photographs(run_example):
    printed = run_example("own_photographs", "--epochs", "2", "--out", "here")
    labels = pd.read_csv(next(Path("here", "audits").glob("*")) / "labels.csv")
    assert printed.count(" lies in ") == 10
    assert f"{labels['is_label_issue'].sum()} of 180 labels look wrong" in printed
    assert labels["label_score"].is_monotonic_increasing


@pytest.mark.slow
def test_example_own_table(run_example):
    printed = run_example("own_table", "--epochs", "4", "--out", "here")
    before, rows = read_count(printed, "wrong labels before")
    after, _ = read_count(printed, "wrong labels after")
    assert (before, rows) == (18, 178)
    assert after < before
    assert "predicted_label" in printed


@pytest.mark.slow
def test_example_own_text(run_example):
    printed = run_example("own_text", "--rows", "400", "--out", "here")
    before, rows = read_count(printed, "wrong labels before")
    after, _ = read_count(printed, "wrong labels after")
    assert rows == 400
    assert after < before / 2
    assert "['payment', 'account']" in printed


@pytest.mark.slow
def test_example_estimator_pipeline(run_example):
    printed = run_example("estimator_pipeline", "--epochs", "3", "--rows", "200")
    assert "best options: {'ulcclassifier__options__sgd__lr': 0.0" in printed
    found, wrong = read_count(printed, "wrong labels found")
    doubted, right = read_count(printed, "right labels doubted")
    assert wrong + right == 200
    assert found / wrong > doubted / right


@pytest.mark.slow
def test_example_own_network():
    """In a process of its own, as a user runs it: its class is one of `__main__`."""
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / "own_network.py", "--epochs", "1", "--rows=90"],
        capture_output=True, check=False, encoding="utf-8",
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "network: TinyNetwork" in done.stdout
    assert read_count(done.stdout, "labels that look wrong")[1] == 90


@pytest.mark.slow
def test_example_own_algorithm(run_example, monkeypatch):
    """Whether the laws hold is tested in test_own_algorithm."""
    checked = []
    monkeypatch.setattr("ulc.testing.check_algorithm", checked.append)
    printed = run_example("own_algorithm", "--epochs", "1", "--out", "here")
    assert "every law holds" in printed
    assert [each.__module__ for each in checked] == [ALGORITHM]
    assert len(re.findall(r"test accuracy [01]\.\d+ after 1 epoch", printed)) == 2
    assert len(list(Path("here").glob("*/summary.json"))) == 2


@pytest.mark.slow
def test_example_own_model_outputs(run_example):
    printed = run_example("own_model_outputs", "--rows", "400")
    found, wrong = read_count(printed, "wrong labels found")
    doubted, right = read_count(printed, "right labels doubted")
    assert wrong + right == 400
    assert found > wrong / 2
    assert doubted < right / 10
