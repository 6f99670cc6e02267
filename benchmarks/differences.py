"""Measures of methods over settings and seeds: means, and paired differences with a test."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import ttest_1samp

from benchmarks.grid_records import RESULTS, Record, name_of, read_records
from benchmarks.grid_settings import METHODS, SETTINGS
from benchmarks.grid_table import format_table, title_of
from benchmarks.measures import find_measure
from ulc.config import read_toml
from ulc.errors import InputError
from ulc.experiments.tables import mean_and_deviation

Pair = tuple[Record, Record]  # of the same seed


def difference_table(
    method: str, reference: str, measures: Sequence[str], results: Path = RESULTS
) -> str:
    """Return a table: `method` minus `reference` in points, for each setting and for all of them.

    Each cell is the mean difference over common seeds ± its standard error. The last row has all
    settings and seeds together, and the two-sided p of a paired t-test. Without records of both
    the table is a sentence that says so.

    method, reference: name, and changes behind slashes, as in ulc-without-csm/zero_losses=22500
    """
    heads = [find_measure(name)[0] for name in measures]
    titles = read_toml(SETTINGS)
    found = {name: pairs_of(results / f"{name}.jsonl", method, reference) for name in titles}
    found = {name: pairs for name, pairs in found.items() if pairs}
    if not found:
        return no_records(method, reference)
    rows = [
        [titles[name]["title"], str(len(pairs)), *(cell(pairs, each) for each in measures)]
        for name, pairs in found.items()
    ]
    every = [pair for pairs in found.values() for pair in pairs]
    rows.append(["**all**", str(len(every)), *(cell(every, each, test=True) for each in measures)])
    return "\n".join(format_table(["", "n", *heads], rows))


def level_table(methods: Sequence[str], measures: Sequence[str], results: Path = RESULTS) -> str:
    """Return a table: mean ± standard deviation in %, for each setting and method."""
    heads = [find_measure(name)[0] for name in measures]
    rows = []
    for name, setting in read_toml(SETTINGS).items():
        for method in methods:
            known = records_of(results / f"{name}.jsonl", method)
            values = [[find_measure(each)[1](record) for record in known] for each in measures]
            if any(number is not None for column in values for number in column):
                title = f"{title_of(known[0])}: {setting['title']}"
                rows.append([title, str(len(known)), *map(mean_and_deviation, values)])
    return "\n".join(format_table(["", "n", *heads], rows)) if rows else no_records(*methods)


def no_records(*methods: str) -> str:
    """Return the sentence in place of a table."""
    return f"*There are no records of {' and '.join(f'`{each}`' for each in methods)} yet.*"


def pairs_of(path: Path, method: str, reference: str) -> list[Pair]:
    """Return the records of both methods in a file, seed by seed."""
    first, second = ({each["seed"]: each for each in records_of(path, name)}
                     for name in (method, reference))  # fmt: skip
    return [(first[seed], second[seed]) for seed in sorted(first.keys() & second.keys())]


def records_of(path: Path, method: str) -> list[Record]:
    """Return the records of a method in a file, one for each seed: searched, else the preset."""
    if method.partition("/")[0] not in METHODS:
        raise InputError(f"no method is called '{method}'; known: {', '.join(METHODS)}")
    known = [each for each in read_records(path) if name_of(each) == method]
    by_seed = {each["seed"]: each for each in sorted(known, key=lambda each: len(each["changes"]))}
    return [by_seed[seed] for seed in sorted(by_seed)]


def cell(pairs: Sequence[Pair], measure: str, *, test: bool = False) -> str:
    """Return the mean difference ± its standard error in points, and p if `test`; or a dash."""
    _, read = find_measure(measure)
    numbers = [(read(first), read(second)) for first, second in pairs]
    return show_mean([100 * (a - b) for a, b in numbers if a is not None and b is not None],
                     test=test)  # fmt: skip


def show_mean(numbers: Sequence[float], *, test: bool) -> str:
    """Return mean ± standard error, and the p of a t-test against 0 if `test`; or a dash."""
    if not numbers:
        return "–"
    if len(numbers) == 1:
        return f"{numbers[0]:+.1f}"
    shown = f"{np.mean(numbers):+.1f} ± {np.std(numbers, ddof=1) / len(numbers) ** 0.5:.1f}"
    if not test or not np.std(numbers):
        return shown
    chance = float(ttest_1samp(numbers, 0).pvalue)
    return f"{shown} (p {'< 0.001' if chance < 0.001 else f'= {chance:.3f}'})"
