"""Finished runs in the rows and columns of a table of the paper, beside its numbers."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from ulc.errors import InputError
from ulc.experiments.finished_runs import FinishedRun, Method, named_method, whole_trainings
from ulc.experiments.paper.grids import CLASSES, Column, PaperGrid, Row, Score, paper_grid
from ulc.experiments.run_table import (
    SCORES,
    Numbers,
    PaperNumber,
    Prior,
    RunTable,
    TableRow,
    check_cell,
    describe,
    meaning_of_last,
    numbers_of,
)

OURS = "ulc_plus"  # a row of every table that has runs of it


def paper_table(
    grid: PaperGrid,
    runs: Sequence[FinishedRun],
    prior: Prior = "training",
    also: Sequence[str] = (),
) -> RunTable:
    """The runs in the rows and columns of a table of the paper, beside its numbers.

    Further rows are ULC+, if there are runs of it, and the methods that `also` names. Other runs
    are left out. Raise an InputError if the runs of a cell differ in more than the seed.
    """
    cells: dict[tuple[Method, int], list[FinishedRun]] = defaultdict(list)
    for run in whole_trainings(runs):
        place = next((i for i, each in enumerate(grid.columns) if is_in_column(run, each)), None)
        if place is not None:
            cells[run.method, place].append(run)
    known = {named_method(row.method, row.options): row for row in grid.rows}
    others = sorted({each for each, _ in cells} - set(known), key=lambda each: each.name)
    check_also(grid, also, [each.name for each in (*known, *others)])
    further = [each for each in others if each.name in {OURS, *also}]
    cells = {key: group for key, group in cells.items() if key[0] in {*known, *further}}
    if not cells:
        raise InputError(
            f"none of the runs is a cell of {grid.name}; leave out --like, or name with --also the "
            "methods that shall be rows"
        )
    used_places = {place for _, place in cells}
    shown = {place: each for place, each in enumerate(grid.columns) if place in used_places}
    for (method, place), several in cells.items():
        check_cell(several, f"{method.name}, {grid.columns[place].title}")
    rows = []
    for method in (*known, *further):
        row = known.get(method)
        numbers: dict[Score, list[Numbers]] = {score: [] for score in SCORES}
        for score, (place, column) in product(SCORES, shown.items()):
            paper = paper_number(grid, row, column, score)
            own = cells.get((method, place), [])
            numbers[score].append(numbers_of(own, score, prior, paper))
        rows.append(TableRow(title_of(method) if row is None else row.title, numbers))
    used = [run for several in cells.values() for run in several]
    vectors = "Vectors (npz) stand in for the images."
    return RunTable(
        grid.title,
        [each.head for each in shown.values()],
        rows,
        prior,
        [each.text for each in grid.oddities],
        [
            *([vectors] if any(run.spec.data.source == "npz" for run in used) else []),
            *describe(used),
        ],
        meaning_of_last(used),
        [each.name for each in others if each not in further],
    )


def check_also(grid: PaperGrid, also: Sequence[str], known: Sequence[str]) -> None:
    """Raise an InputError if a further row is asked for that no run has.

    known: names of the methods of the table and of the runs in its columns
    """
    unknown = next((each for each in also if each not in known), None)
    if unknown is not None:
        raise InputError(
            f"--also {unknown}: no run in a column of {grid.name} is of this method; known: "
            f"{', '.join(known)}"
        )


def title_of(method: Method) -> str:
    """The title that a table of the paper has for a method, ULC+, or else the method's name."""
    if method.name == OURS:
        return "ULC+"
    rows = (row for name in ("table1", "table3", "table4") for row in paper_grid(name).rows)
    return next((row.title for row in rows if named_method(row.method, {}) == method), method.name)


def is_in_column(run: FinishedRun, column: Column) -> bool:
    """Whether a run has the data set, noise and imbalance of a column.

    The data set of an npz file is known by its number of classes only.
    """
    spec = run.spec
    by_classes = spec.data.source == "npz" and run.classes == CLASSES[column.data]
    return (
        (spec.data.source == column.data or by_classes)
        and spec.noise in (column.noise, column.feature_noise)
        and spec.imbalance.tag == column.imbalance.tag
    )


def paper_number(
    grid: PaperGrid, row: Row | None, column: Column, score: Score
) -> PaperNumber | None:
    """The paper's number of a cell, with the remarks on it; None: there is none."""
    number = None if row is None else grid.number(row, column, score)
    if row is None or number is None:
        return None
    remarks = tuple(grid.remarks(row, column, score))
    return PaperNumber(number, grid.deviation(row, column, score), remarks)


def found_in_paper(runs: Sequence[FinishedRun], score: Score) -> PaperNumber | None:
    """The paper's number for a cell of official data; None: there is none."""
    if not runs or runs[0].spec.data.source not in CLASSES:
        return None
    cells = (
        (grid, row, column)
        for grid in map(paper_grid, ("table1", "table2", "table3", "table4"))
        for row in grid.rows
        for column in grid.columns
    )
    numbers = (
        paper_number(grid, row, column, score)
        for grid, row, column in cells
        if named_method(row.method, row.options) == runs[0].method and is_in_column(runs[0], column)
    )
    found = next((each for each in numbers if each is not None), None)
    return None if found is None else replace(found, remarks=())
