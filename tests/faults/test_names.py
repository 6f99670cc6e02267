"""Names and paths that a stranger chose: on the screen, in tables, in files."""

import csv
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from stub_runs import judged_run
from ulc.cli.screen import cell, printable
from ulc.cli.tables import guard
from ulc.config import DataSpec, RunSpec
from ulc.training.model import Model
from ulc.training.run import run

CLEAR = "\x1b[2J\x1b]0;owned\x07"  # clears the screen and sets the window's title
NAMES = ["plain", "[/a]", "[bold]x", ":boom:", CLEAR, "a\nb", "\u202egpj.exe", "=1+1"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 猫", "plain ü 猫"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\nb", "a\\nb"),
        ("\x9b\x7f\x00", "\\x9b\\x7f\\x00"),
        ("\udc80", "\\udc80"),
        ("\u202e", "\\u202e"),
        ("\u2028", "\\u2028"),
    ],
)
def test_control_characters_are_shown_and_not_obeyed(text, shown):
    assert cell(text) == shown
    assert printable("a\tb\nc") == "a\tb\nc"


@pytest.fixture
def folder():
    """A run whose rows and classes have hostile names; every second label is doubted."""
    rows = [NAMES[i % len(NAMES)] + str(i) for i in range(16)]
    labels = [NAMES[i % len(NAMES)] for i in range(16)]
    vectors = np.random.default_rng(0).normal(size=(16, 3))
    np.savez("d.npz", X=vectors, y=np.array(labels), ids=np.array(rows))
    suspicious = {i: NAMES[(i + 1) % len(NAMES)] for i in range(16)}
    return judged_run(DataSpec(source="npz", path=str(Path("d.npz").absolute())), suspicious)


def no_controls(text):
    return not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_show_prints_hostile_names_as_text(ulc, folder):
    code, printed = ulc("show", folder.path, "--labels", 16)
    assert code == 0
    assert no_controls(printed.out)
    for part in ("[/a]", "[bold]x", ":boom:", "\\x1b"):
        assert part in printed.out


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")
@pytest.mark.parametrize("name", ["o[/a]", "o[bold]", "o:boom:", "o\x1b[2Jx", "o\nx"])
def test_a_path_with_markup_or_control_characters_is_printed_as_text(ulc, name):
    np.savez("d.npz", X=np.arange(24.0).reshape(12, 2), y=np.arange(12) % 2)
    options = ("-a", "ce", "--epochs", 1, "--set", "batch_size=8")
    code, printed = ulc("train", "d.npz", *options, "--out", name)
    assert code == 0
    assert no_controls(printed.out)
    assert cell(name) in printed.out
    code, printed = ulc("show", f"{name}/nothing")
    assert code == 2
    assert cell(name) in printed.err
    assert printed.err.count("\n") == 1
    assert no_controls(printed.err)


def test_apply_and_predict_print_hostile_names_as_text(ulc, folder):
    decisions = [{"id": f"{CLEAR}4", "decision": "relabel", "label": f"new{CLEAR}"}]
    with Path("decisions.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, ["id", "decision", "label"])
        writer.writeheader()
        writer.writerows(decisions)
    code, printed = ulc("apply", folder.path, "decisions.csv", "--out", "c.npz")
    assert code == 0, printed.err
    assert no_controls(printed.out)
    assert "new\\x1b" in printed.out
    with np.load("c.npz") as arrays:
        assert f"new{CLEAR}" in arrays["y"]  # the data keep the name as it is


def test_predictions_keep_their_names_in_a_pipe(ulc):
    vectors = np.random.default_rng(0).normal(size=(12, 2))
    names = np.array([f"{CLEAR}{i}" for i in range(12)])
    np.savez("d.npz", X=vectors, y=np.arange(12) % 2, ids=names)
    spec = ("train", "d.npz", "-a", "ce", "--epochs", 1, "--set", "batch_size=8", "--json", "-q")
    path = json.loads(ulc(*spec)[1].out)[0]["run"]
    assert CLEAR in ulc("predict", path, "d.npz", "-q")[1].out


def test_a_terminal_gets_no_control_characters_from_predictions(ulc, monkeypatch):
    pty = pytest.importorskip("pty")
    test_predictions_keep_their_names_in_a_pipe(ulc)
    (path,) = Path("runs").iterdir()
    outer, inner = pty.openpty()
    with os.fdopen(inner, "w") as screen:
        monkeypatch.setattr(sys, "stdout", screen)
        code, printed = ulc("predict", path, "d.npz", "-q")
        screen.flush()
        assert (code, printed.err) == (0, "")
        shown = os.read(outer, 100_000)
    os.close(outer)
    assert b"owned" in shown
    assert b"\x1b" not in shown


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd", "'+cmd"),
        ("-cmd", "'-cmd"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\tx", "'\tx"),
        ("-0.5", "-0.5"),
        ("+3", "+3"),
        ("a=1", "a=1"),
        ("", ""),
    ],
)
def test_a_cell_for_a_spreadsheet_is_no_formula(text, safe):
    assert guard(text) == safe


def test_the_table_for_spreadsheets_differs_only_in_formulas(ulc, folder):
    assert ulc("show", folder.path, "--spreadsheet", "look.csv")[0] == 0
    with Path("look.csv").open(newline="") as stream:
        safe = list(csv.reader(stream))
    with (folder.path / "labels.csv").open(newline="") as stream:
        true = list(csv.reader(stream))
    assert safe == [[guard(text) for text in row] for row in true]
    assert any(text.startswith("'=") for row in safe for text in row)
    assert any(text.startswith("=") for row in true for text in row)
    code, printed = ulc("show", folder.path, "--spreadsheet", "look.txt")
    assert code == 2
    assert "let the name end in .csv" in printed.err


def test_an_exported_model_has_the_same_bytes_each_time(tmp_path):
    np.savez("d.npz", X=np.arange(24.0).reshape(12, 2), y=np.arange(12) % 2)
    data = DataSpec(source="npz", path=str(Path("d.npz").absolute()))
    spec = RunSpec(data=data, algorithm="ce", epochs=1, options={"batch_size": 8})
    model = Model.load(run(spec, Path("runs")))
    contents = set()
    for i in range(20):
        model.save_file(Path(f"{i}.safetensors"))
        contents.add(Path(f"{i}.safetensors").read_bytes())
    assert len(contents) == 1
    assert Model.load_file(Path("0.safetensors")).spec == model.spec
