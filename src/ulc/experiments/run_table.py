"""A table of finished runs: methods as rows, data and noise as columns, best and last accuracy."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np

from ulc.algorithms import ALGORITHMS
from ulc.errors import InputError
from ulc.experiments.finished_runs import (
    FinishedRun,
    Method,
    check_seeds,
    described,
    differing,
    named_method,
)
from ulc.experiments.paper.grids import (
    CLASSES,
    TITLES,
    Column,
    PaperGrid,
    Row,
    Score,
    paper_grid,
)
from ulc.experiments.tables import nested_value

SCORES: tuple[Score, ...] = ("best", "last")
Prior = Literal["training", "balanced"]


@dataclass(frozen=True)
class Numbers:
    """Accuracies in % of one score of a cell, one for each seed, and the paper's.

    paper: None: the paper has none for this cell; remarks: numbers of remarks on it, from 0
    """

    values: tuple[float, ...] = ()
    paper: float | None = None
    remarks: tuple[int, ...] = ()

    @property
    def mean(self) -> float | None:
        """Mean over the seeds; None: there is no run."""
        return float(np.mean(self.values)) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Standard deviation over the seeds; None: fewer than two runs."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None


@dataclass(frozen=True)
class TableRow:
    """A row: for each score, the numbers of each column."""

    title: str
    numbers: Mapping[Score, Sequence[Numbers]]


@dataclass(frozen=True)
class RunTable:
    """A table of runs.

    heads: the lines of the heading of each column
    remarks: sentences on numbers of the paper
    settings: sentences that say with which data, network and epochs the runs were trained
    """

    title: str
    heads: Sequence[tuple[str, ...]]
    rows: Sequence[TableRow]
    prior: Prior = "training"
    remarks: Sequence[str] = ()
    settings: Sequence[str] = ()

    def highest(self, score: Score, column: int) -> float | None:
        """The highest mean of a column, rounded as it is shown; None: there is none."""
        means = [row.numbers[score][column].mean for row in self.rows]
        return max((round(each, 1) for each in means if each is not None), default=None)

    @property
    def count(self) -> int:
        """The most frequent number of seeds of a cell."""
        counts = [
            len(each.values) for row in self.rows for each in row.numbers["last"] if each.values
        ]
        return max(set(counts), key=lambda each: (counts.count(each), each), default=0)


def paper_table(
    grid: PaperGrid, runs: Sequence[FinishedRun], prior: Prior = "training"
) -> RunTable:
    """The runs in the rows and columns of a table of the paper, beside its numbers.

    Runs of other cells are left out; methods that the table has not are further rows. Raise an
    InputError if the runs of a cell differ in more than the seed.
    """
    cells: dict[tuple[Method, int], list[FinishedRun]] = defaultdict(list)
    for run in whole_trainings(runs):
        place = next((i for i, each in enumerate(grid.columns) if is_in_column(run, each)), None)
        if place is not None:
            cells[run.method, place].append(run)
    if not cells:
        raise InputError(f"none of the runs is a cell of {grid.name}; leave out --like")
    known = {named_method(row.method, row.options): row for row in grid.rows}
    further = sorted({each for each, _ in cells} - set(known), key=lambda each: each.name)
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
            numbers[score].append(numbers_of(own, score, prior, *paper))
        rows.append(TableRow(method.name if row is None else row.title, numbers))
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
    )


def is_in_column(run: FinishedRun, column: Column) -> bool:
    """Whether a run has the data set, noise and imbalance of a column.

    The data set of an npz file is known by its number of classes only.
    """
    spec = run.spec
    by_classes = spec.data.source == "npz" and run.classes == CLASSES[column.data]
    noises = [column.noise, *([] if column.cpu is None else [column.cpu.noise])]
    return (
        (spec.data.source == column.data or by_classes)
        and spec.noise in noises
        and spec.imbalance.tag == column.imbalance.tag
    )


def paper_number(
    grid: PaperGrid, row: Row | None, column: Column, score: Score
) -> tuple[float | None, list[int]]:
    """The paper's number of a cell, and the remarks on it."""
    if row is None:
        return None, []
    number = grid.number(row, column, score)
    return number, [] if number is None else grid.remarks(row, column, score)


def check_cell(runs: Sequence[FinishedRun], title: str) -> None:
    """Raise an InputError if runs of a cell differ in more than the seed, or seeds repeat."""
    others = differing(run.settings for run in runs)
    if others:
        name = others[0]
        values = " and ".join(sorted({str(run.settings.get(name)) for run in runs}))
        raise InputError(
            f"the runs of {title} differ in {name} ({values}); give the folders of one kind"
        )
    check_seeds(runs)


def numbers_of(
    runs: Sequence[FinishedRun],
    score: Score,
    prior: Prior,
    paper: float | None = None,
    remarks: Sequence[int] = (),
) -> Numbers:
    """The accuracies of the runs of a cell, in the order of their seeds."""
    keys = (prior, "best_on_test") if score == "best" else (prior, "last", "accuracy")
    ordered = sorted(runs, key=lambda run: run.spec.seed)
    found = [nested_value(run.summary, keys) for run in ordered]
    return Numbers(tuple(100 * each for each in found if each is not None), paper, tuple(remarks))


def describe(runs: Sequence[FinishedRun]) -> list[str]:
    """One sentence for each kind of data, network and epochs among the runs."""
    kinds: dict[tuple[str, str], set[int]] = defaultdict(set)
    for run in runs:
        kinds[data_title(run), run.spec.network.name].add(run.spec.epochs)
    return [
        f"{data}: network {network}, {' to '.join(map(str, sorted({min(epochs), max(epochs)})))} "
        "epochs."
        for (data, network), epochs in sorted(kinds.items())
    ]


def data_title(run: FinishedRun) -> str:
    """The name of the data of a run: of the data set, else of its file or folder."""
    data = run.spec.data
    return TITLES.get(data.source) or Path(data.path or data.source).name


def setting_of(run: FinishedRun) -> str:
    """Data, noise and imbalance of a run, in words."""
    return ", ".join(part for part in setting_parts(run) if part)


def setting_parts(run: FinishedRun) -> tuple[str, str, str]:
    """Data, noise and imbalance of a run in words; "": none is injected."""
    noise, uneven = run.spec.noise, run.spec.imbalance
    rate = f" {100 * noise.rate:g} %" if noise.kind not in ("none", "matrix", "file") else ""
    kind = noise.tag if noise.kind == "file" else noise.kind.replace("_", " ")
    ratio = f"1:{uneven.ratio:g}" + (" long tail" if uneven.kind == "long_tail" else "")
    return (
        data_title(run),
        "" if noise.kind == "none" else kind + rate,
        "" if uneven.kind == "none" else ratio,
    )


def whole_trainings(runs: Sequence[FinishedRun]) -> list[FinishedRun]:
    """The runs without those that end right after warm-up, if there are others of their kind."""
    longest: dict[tuple[str, str], int] = {}
    for run in runs:
        key = (setting_of(run), run.method.name)
        longest[key] = max(longest.get(key, 0), run.spec.epochs)
    return [
        run
        for run in runs
        if not run.ends_after_warm_up
        or longest[setting_of(run), run.method.name] == run.spec.epochs
    ]


def any_table(runs: Sequence[FinishedRun], prior: Prior = "training") -> RunTable:
    """Any runs: a row for each method, a column for each data, noise and imbalance.

    Where runs of a method and column differ in other settings, these are in the name of the row.
    Official CIFAR data have the paper's numbers beside them.
    """
    columns: dict[tuple[str, ...], list[FinishedRun]] = defaultdict(list)
    for run in whole_trainings(runs):
        columns[setting_parts(run)].append(run)
    cells: dict[tuple[str, int], list[FinishedRun]] = {}
    for place, several in enumerate(columns.values()):
        for title, group in split_by_settings(several).items():
            check_cell(group, title)
            cells[title, place] = group
    algorithms = {title: group[0].spec.algorithm for (title, _), group in cells.items()}
    order = {name: place for place, name in enumerate(ALGORITHMS)}
    titles = sorted(algorithms, key=lambda each: (order.get(algorithms[each], 99), each))
    rows = [
        TableRow(
            title,
            {
                score: [
                    numbers_of(cells.get((title, place), []), score, prior,
                               found_in_paper(cells.get((title, place), []), score))
                    for place in range(len(columns))
                ]
                for score in SCORES
            },
        )
        for title in titles
    ]  # fmt: skip
    heads = [tuple(part for part in key if part) for key in columns]
    width = max(map(len, heads))
    heads = [(*head, *[""] * (width - len(head))) for head in heads]
    return RunTable("", heads, rows, prior, (), describe(runs))


def split_by_settings(runs: Sequence[FinishedRun]) -> dict[str, list[FinishedRun]]:
    """The runs of a column by the name of their method and, where needed, other settings."""
    by_method: dict[Method, list[FinishedRun]] = defaultdict(list)
    for run in runs:
        by_method[run.method].append(run)
    groups: dict[str, list[FinishedRun]] = defaultdict(list)
    for method, several in by_method.items():
        names = differing(run.settings for run in several)
        for run in several:
            changes = [(name, run.settings.get(name)) for name in names]
            groups[method.name + described(changes)].append(run)
    return groups


def found_in_paper(runs: Sequence[FinishedRun], score: Score) -> float | None:
    """The paper's number for a cell of official CIFAR data; None: there is none."""
    if not runs or runs[0].spec.data.source not in CLASSES:
        return None
    cells = (
        (grid, row, column)
        for grid in map(paper_grid, ("table1", "table2", "table4"))
        for row in grid.rows
        for column in grid.columns
    )
    numbers = (
        grid.number(row, column, score)
        for grid, row, column in cells
        if named_method(row.method, row.options) == runs[0].method and is_in_column(runs[0], column)
    )
    return next(numbers, None)
