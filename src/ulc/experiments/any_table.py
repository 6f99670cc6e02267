"""A table of any finished runs: methods as rows, data and noise as columns."""

from collections import defaultdict
from collections.abc import Sequence

from ulc.algorithms import ALGORITHMS
from ulc.experiments.finished_runs import (
    FinishedRun,
    Method,
    described,
    differing,
    setting_parts,
    whole_trainings,
)
from ulc.experiments.paper_table import found_in_paper
from ulc.experiments.run_table import (
    SCORES,
    Prior,
    RunTable,
    TableRow,
    check_cell,
    describe,
    meaning_of_last,
    numbers_of,
)


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
    return RunTable("", heads, rows, prior, (), describe(runs), meaning_of_last(runs))


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
