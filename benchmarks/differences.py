"""Paired differences of two methods over settings and seeds, with a test of each."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import ttest_1samp

from benchmarks.grid_records import RESULTS, Record, read_records
from benchmarks.grid_settings import SETTINGS
from benchmarks.grid_table import format_table
from ulc.config import read_toml
from ulc.errors import InputError
from ulc.experiments.tables import nested_value

Measure = Callable[[Record], float | None]


def value(*keys: str) -> Measure:
    """Return a measure that reads the number under nested keys."""
    return lambda record: nested_value(record, keys)


def fall(record: Record) -> float | None:
    """Return how far the accuracy falls from the best epoch to the last ones, as trained."""
    best = nested_value(record, ("training", "best_on_test"))
    last = nested_value(record, ("training", "last", "accuracy"))
    return None if best is None or last is None else best - last


MEASURES: dict[str, tuple[str, Measure]] = {  # name on a page: title, and where it is
    "accuracy": ("accuracy, as trained", value("training", "last", "accuracy")),
    "small": ("small classes, as trained", value("training", "last", "small_accuracy")),
    "large": ("large classes, as trained", value("training", "last", "large_accuracy")),
    "balanced": ("accuracy, balanced prior", value("balanced", "last", "accuracy")),
    "small-balanced": ("small, balanced prior", value("balanced", "last", "small_accuracy")),
    "auc": ("AUC", value("labels", "auc")),
    "auc-small": ("AUC, small", value("labels", "small", "auc")),
    "auc-large": ("AUC, large", value("labels", "large", "auc")),
    "fall": ("best minus last", fall),
}


def difference_table(
    method: str, reference: str, measures: Sequence[str], results: Path = RESULTS
) -> str:
    """Return a table: `method` minus `reference` in points, for each setting and for all of them.

    Each cell is the mean difference over common seeds ± its standard error. The last row has all
    settings and seeds together, and the two-sided p of a paired t-test.

    method, reference: name, and changes behind slashes, as in ulc-without-csm/zero_losses=22500
    """
    unknown = next((name for name in measures if name not in MEASURES), None)
    if unknown is not None:
        raise InputError(f"no measure is called '{unknown}'; known: {', '.join(MEASURES)}")
    titles = read_toml(SETTINGS)
    found = {name: pairs_of(results / f"{name}.jsonl", method, reference) for name in titles}
    found = {name: pairs for name, pairs in found.items() if pairs}
    if not found:
        raise InputError(f"no setting has records of {method} and {reference}; train them first")
    rows = [
        [titles[name]["title"], str(len(pairs)), *(cell(pairs, each) for each in measures)]
        for name, pairs in found.items()
    ]
    every = [pair for pairs in found.values() for pair in pairs]
    rows.append(["**all**", str(len(every)), *(cell(every, each, test=True) for each in measures)])
    return "\n".join(format_table(["", "n", *(MEASURES[each][0] for each in measures)], rows))


def pairs_of(path: Path, method: str, reference: str) -> list[tuple[Record, Record]]:
    """Return the records of both methods in a file, seed by seed."""
    records = read_records(path)
    first, second = ({each["seed"]: each for each in records if name_of(each) == wanted}
                     for wanted in (method, reference))  # fmt: skip
    return [(first[seed], second[seed]) for seed in sorted(first.keys() & second.keys())]


def name_of(record: Record) -> str:
    """Return the name of a record's method; options that a search chose do not belong to it."""
    changes = [] if record.get("searched") else record["changes"]
    return "/".join([record["method"], *changes])


def cell(pairs: Sequence[tuple[Record, Record]], measure: str, *, test: bool = False) -> str:
    """Return the mean difference ± its standard error in points, and p if `test`; or a dash."""
    _, read = MEASURES[measure]
    numbers = [(read(first), read(second)) for first, second in pairs]
    known = np.array([100 * (a - b) for a, b in numbers if a is not None and b is not None])
    if not len(known):
        return "–"
    if len(known) == 1:
        return f"{known[0]:+.1f}"
    shown = f"{known.mean():+.1f} ± {known.std(ddof=1) / len(known) ** 0.5:.1f}"
    if not test or not known.std():
        return shown
    chance = float(ttest_1samp(known, 0).pvalue)
    return f"{shown} (p {'< 0.001' if chance < 0.001 else f'= {chance:.3f}'})"
