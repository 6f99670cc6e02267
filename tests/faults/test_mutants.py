"""Laws of the mutants that `python -m benchmarks mutants` runs the tests against."""

import ast
import importlib
import os
import sys
from pathlib import Path

import pytest

from benchmarks import covering_tests, mutant_runs, mutants
from benchmarks.covering_tests import CoveringTests, statement_lines
from benchmarks.mutations import Mutant, list_mutants, mutated

SOURCE = '''
from typing import Literal

Kind = Literal[1, 2]
FEWEST = 5

def choose(values: "list[int] | None", *, most: int = 3) -> "int | None":
    """Text with 1 and a < b."""
    if values is None or len(values) < FEWEST and not most:
        raise ValueError(f"{1 + 1} values")
    return values[-1] * 2
'''


@pytest.fixture
def changes():
    Path("m.py").write_text(SOURCE)
    return {each.change: each for each in list_mutants(Path(), "m.py")}


def test_comparisons_arithmetic_numbers_truth_and_returns_are_changed(changes):
    assert {
        "values is None → values is not None",
        "len(values) < FEWEST → len(values) <= FEWEST",
        "values[-1] * 2 → values[-1] / 2",
        "5 → 6",
        "3 → 4",
        "2 → 3",
        "-1 → 1",
        "not most → most",
        "return values[-1] * 2 → return None",
    } < set(changes)
    assert sum(" or " in change or " and " in change for change in changes) == 2


def test_types_texts_and_messages_are_not_changed(changes):
    lines = {mutant.line for mutant in changes.values()}
    assert lines == {5, 7, 9, 11}


def test_each_mutant_differs_from_the_source_and_from_all_others(changes):
    sources = [ast.unparse(mutated(Path(), mutant)) for mutant in changes.values()]
    assert len({ast.unparse(ast.parse(SOURCE)), *sources}) == 1 + len(changes)


def test_the_same_seed_draws_the_same_mutants(monkeypatch):
    monkeypatch.setattr(mutants, "PACKAGES", ("storage",))
    draw_mutants = mutants.draw_mutants
    first = draw_mutants(20, seed=3)
    assert first == draw_mutants(20, seed=3)
    assert first != draw_mutants(20, seed=4)
    assert len(set(first)) == 20


FUNCTIONS = """
from contextlib import contextmanager
from functools import lru_cache

FACTOR = 2

def double(value, factor=3):
    def inner():
        return value * 2
    return inner()

class Box:
    def value(self):
        return 10 - 1

@contextmanager
def opened():
    yield 1 + 1

@lru_cache
def stored(value):
    return value - 1
"""


@pytest.fixture
def loaded(monkeypatch):
    """The functions above as a loaded module, and what another module imported of it."""
    monkeypatch.setattr(mutant_runs, "SOURCE", Path.cwd())
    monkeypatch.syspath_prepend(str(Path.cwd()))
    Path("functions_to_change.py").write_text(FUNCTIONS)
    Path("importer.py").write_text("from functions_to_change import double, opened, stored")
    yield importlib.import_module("functions_to_change"), importlib.import_module("importer")
    del sys.modules["functions_to_change"], sys.modules["importer"]


def find_change(change):
    every = list_mutants(Path(), "functions_to_change.py")
    return next(each for each in every if each.change == change)


def results(module, importer):
    with importer.opened() as value:
        return importer.double(5), module.Box().value(), value, importer.stored(5)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("value * 2 → value / 2", (2.5, 9, 2, 4)),
        ("10 - 1 → 10 + 1", (10, 11, 2, 4)),
        ("1 + 1 → 1 - 1", (10, 9, 0, 4)),
        ("value - 1 → value + 1", (10, 9, 2, 6)),
    ],
)
def test_a_changed_function_is_changed_for_all_who_imported_it(loaded, change, expected):
    mutant = find_change(change)
    mutant_runs.replace_functions(
        str(Path.cwd() / mutant.path), mutant_runs.changed_functions(mutant)
    )
    assert results(*loaded) == expected


@pytest.mark.parametrize("change", ["2 → 3", "3 → 4"])
def test_a_change_of_a_constant_or_a_default_is_in_no_function(loaded, change):
    assert mutant_runs.changed_functions(find_change(change)) == {}


def test_a_change_that_reaches_no_function_is_an_error(loaded):
    with pytest.raises(RuntimeError, match="no function to change"):
        mutant_runs.replace_functions("elsewhere.py", {})


@pytest.mark.parametrize(
    ("line", "lines"),
    [(5, None), (7, None), (9, range(9, 10)), (10, range(10, 11)), (14, range(14, 15))],
)
def test_the_lines_of_a_change_are_those_of_its_statement(line, lines):
    assert statement_lines(ast.parse(FUNCTIONS), line) == lines


def test_a_mutant_runs_against_the_tests_of_its_statement_fast_ones_first(loaded, monkeypatch):
    monkeypatch.setattr(covering_tests, "SOURCE", Path.cwd())
    name = "functions_to_change.py"
    covering = CoveringTests(
        [
            {"seconds": {"a": 2.0, "b": 1.0}, "lines": {name: {"9": ["a", "b"], "14": ["a"]}}},
            {"seconds": {"c": 0.5}, "lines": {name: {"18": ["c"]}}},
        ]
    )
    assert covering.of(find_change("value * 2 → value / 2")) == ["b", "a"]
    assert covering.of(find_change("10 - 1 → 10 + 1")) == ["a"]
    assert covering.of(find_change("2 → 3")) == ["c", "b", "a"]  # a constant of the module
    assert covering.of(Mutant(name, line=22, place=0, change="")) == []


def spin():
    while True:
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
@pytest.mark.parametrize(
    ("run", "outcome"),
    [
        (lambda: 0, "survived"),
        (lambda: 1, "killed"),
        (lambda: os.kill(os.getpid(), 15), "killed"),
        (spin, "too slow"),
    ],
)
def test_how_a_run_of_tests_ends_is_told(run, outcome):
    assert mutant_runs.in_fork(run, bound=1) == outcome


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_a_run_that_cannot_begin_is_not_taken_for_a_killed_mutant(capfd):
    with pytest.raises(RuntimeError, match="could not be run"):
        mutant_runs.in_fork(lambda: [][0], bound=1)
