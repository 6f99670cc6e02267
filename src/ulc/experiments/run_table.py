"""A table of finished runs: its rows, columns and numbers."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ulc.errors import InputError
from ulc.experiments.finished_runs import FinishedRun, check_seeds, data_title, differing
from ulc.experiments.paper.grids import Score
from ulc.experiments.tables import nested_value

SCORES: tuple[Score, ...] = ("best", "last")
Prior = Literal["training", "balanced"]


@dataclass(frozen=True)
class PaperNumber:
    """The paper's accuracy in % for a cell.

    deviation: its standard deviation; None: the paper has none
    remarks: numbers of remarks on it, from 0
    """

    value: float
    deviation: float | None = None
    remarks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Numbers:
    """Accuracies in % of one score of a cell, one for each seed, and the paper's.

    paper: None: the paper has none for this cell
    """

    values: tuple[float, ...] = ()
    paper: PaperNumber | None = None

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
    last: what the accuracies `last` are
    settings: sentences that say with which data, network and epochs the runs were trained
    left_out: names of the methods whose runs are in none of the rows
    """

    title: str
    heads: Sequence[tuple[str, ...]]
    rows: Sequence[TableRow]
    prior: Prior = "training"
    remarks: Sequence[str] = ()
    settings: Sequence[str] = ()
    last: str = "the mean of the last epochs"
    left_out: Sequence[str] = ()

    @property
    def scores(self) -> list[Score]:
        """The scores for which the runs or the paper have a number."""
        return [
            score
            for score in SCORES
            if any(each.values or each.paper for row in self.rows for each in row.numbers[score])
        ]

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


def check_cell(runs: Sequence[FinishedRun], title: str) -> None:
    """Raise an InputError if runs of a cell differ in more than the seed, or seeds repeat."""
    others = differing(run.settings for run in runs)
    if others:
        name = others[0]
        values = " and ".join(sorted({str(run.settings.get(name)) for run in runs}))
        raise InputError(
            f"the runs of {title} differ in {name} ({values}); give the folders of one kind, or "
            "train each kind in a folder of its own (`ulc sweep --out`)"
        )
    check_seeds(runs)


def numbers_of(
    runs: Sequence[FinishedRun],
    score: Score,
    prior: Prior,
    paper: PaperNumber | None = None,
) -> Numbers:
    """The accuracies of the runs of a cell, in the order of their seeds."""
    keys = (prior, "best_on_test") if score == "best" else (prior, "last", "accuracy")
    ordered = sorted(runs, key=lambda run: run.spec.seed)
    found = [nested_value(run.summary, keys) for run in ordered]
    return Numbers(tuple(100 * each for each in found if each is not None), paper)


def meaning_of_last(runs: Sequence[FinishedRun]) -> str:
    """What the accuracies `last` of runs are: where a validation set chooses, not the last ones."""
    chosen = {"chosen" in run.summary for run in runs}
    mean, networks = "the mean of the last epochs", "the networks chosen on the validation list"
    if chosen == {True}:
        return networks
    return f"{mean}, with a validation list {networks}" if True in chosen else mean


def describe(runs: Sequence[FinishedRun]) -> list[str]:
    """One sentence for each kind of data, network and epochs among the runs."""
    kinds: dict[tuple[str, str], set[int]] = defaultdict(set)
    for run in runs:
        kinds[data_title(run), run.network].add(run.spec.epochs)
    return [
        f"{data}: network {network}, {' to '.join(map(str, sorted({min(epochs), max(epochs)})))} "
        "epochs."
        for (data, network), epochs in sorted(kinds.items())
    ]
