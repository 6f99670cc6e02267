"""Laws of the mutants that `python -m benchmarks mutants` runs the tests against."""

import ast
from pathlib import Path

import pytest

from benchmarks import mutants
from benchmarks.mutations import list_mutants, mutated

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
