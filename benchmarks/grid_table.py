"""Tables of the grid's records: mean ± standard deviation over seeds.

    python -m benchmarks grid_table [SETTING ...] [--methods A,B] [--paired METHOD]

prints a table in Markdown for each setting; without a name for all settings that have records. With
--paired it prints, for every other method, the mean difference to METHOD over common seeds ± its
standard error. All numbers are in %, except n and the processor time.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.grid_records import RESULTS, Record, name_of, read_records
from benchmarks.grid_settings import CEILING, SETTINGS
from ulc.cli import parse
from ulc.config import read_toml
from ulc.errors import InputError
from ulc.experiments.tables import mean_and_deviation, nested_value
from ulc.settings.variants import VARIANTS

TITLES = {
    "ce": "cross entropy",
    "coteaching_plus": "Co-teaching+",
    "pencil": "PENCIL",
    "meta_learning": "Meta-Learning",
    "m_correction": "M-correction",
    "dividemix": "DivideMix",
    "elr_plus": "ELR+",
    "ulc": "ULC",
    "ulc_plus": "ULC+",
    CEILING: "ceiling: cross entropy, true labels",
}
BETTER = "better prior"
WORDS = {"csm": "CSM", "eum": "EUM", "aul": "AUL"}
PRIORS = ("training", "balanced")
COLUMNS: dict[str, tuple[str, ...]] = {  # keys in a record
    "training prior": ("training", "last", "accuracy"),
    "balanced prior": ("balanced", "last", "accuracy"),
    "small (balanced prior)": ("balanced", "last", "small_accuracy"),
    "large (balanced prior)": ("balanced", "last", "large_accuracy"),
    "AUC": ("labels", "auc"),
    "precision": ("labels", "precision"),
    "recall": ("labels", "recall"),
    "calibration error": ("labels", "calibration_error"),
}
SEARCHED = "(searched)"  # with the options that the search chose
TIME = "processor time (ULC = 1)"

Group = list[Record]  # records of a method, one for each seed


def main(argv: list[str]) -> None:
    options = parse_options(argv)
    try:
        for name in options.settings or recorded_settings(options.results):
            print("\n".join(format_setting(name, options)), end="\n\n")
    except InputError as error:
        sys.exit(str(error))


def parse_options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks grid_table",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("settings", nargs="*", metavar="SETTING", help="names of settings; default: all")
    add(
        "--paired",
        metavar="METHOD",
        help="print differences to this method",
    )
    add("--methods", help="only these methods, as ulc or ulc/doubt_weight=0.2; default: all")
    add("--results", type=Path, default=RESULTS, help="folder of the records")
    return parser.parse_args(argv)


def recorded_settings(results: Path) -> list[str]:
    """Return the settings that have records, in the order of grid.toml, others behind them."""
    order = list(read_toml(SETTINGS))
    found = sorted(path.stem for path in results.glob("*.jsonl"))
    return sorted(found, key=lambda name: order.index(name) if name in order else len(order))


def format_setting(name: str, options: argparse.Namespace) -> list[str]:
    """Return the lines of a setting: title, table and warnings."""
    title = read_toml(SETTINGS).get(name, {}).get("title", name)
    return [f"### {title}", "", *format_records(name, options)]


def format_records(name: str, options: argparse.Namespace) -> list[str]:
    """Return the lines of a setting without its title."""
    path = options.results / f"{name}.jsonl"
    if not path.is_file():
        raise InputError(f"{path}: no such file; train it with `python -m benchmarks grid`")
    groups = group_records(read_records(path), parse.names(options.methods, "--methods"))
    if options.paired is None:
        table = format_means(groups)
    else:
        table = format_differences(groups, options.paired)
    return [*table, *warn_of_mixtures(groups)]


def group_records(
    records: Sequence[Record], methods: Sequence[str] | None = None
) -> dict[str, Group]:
    """Return the records by the title of their method, in the order of TITLES.

    methods: names of the methods that count, with changes of --set behind slashes; None: all
    """
    groups: dict[str, Group] = defaultdict(list)
    for record in sorted(records, key=place_of):
        if methods is None or name_of(record) in methods:
            groups[title_of(record)].append(record)
    return groups


def title_of(record: Record) -> str:
    """Return the title of the record's method, with its changes; "(searched)": a search chose them.

    Where the search kept the preset, there are no changes, and the title is that of the preset.
    """
    method = record["method"]
    algorithm, _ = VARIANTS.get(method, (method, {}))
    part = method.removeprefix(algorithm).removeprefix("-").replace("-", " ")
    words = [TITLES.get(algorithm, algorithm), *(WORDS.get(each, each) for each in part.split())]
    if not record["changes"]:
        return " ".join(words)
    changes = SEARCHED if record.get("searched") else f"({', '.join(record['changes'])})"
    return " ".join([*words, changes])


def place_of(record: Record) -> tuple[int, str, list[str], int]:
    """Return the place of a record: the order of TITLES, variants after their algorithm."""
    method = record["method"]
    algorithm, _ = VARIANTS.get(method, (method, {}))
    known = list(TITLES)
    place = known.index(algorithm) if algorithm in known else len(known)
    return place, method, record["changes"], record["seed"]


def format_means(groups: dict[str, Group]) -> list[str]:
    """Return a table with a row for each method."""
    title = TITLES["ulc"]
    ours = mean_seconds(groups.get(title) or groups.get(f"{title} {SEARCHED}", []))
    rows = []
    for title, group in groups.items():
        cells = [mean_and_deviation(values_of(group, name)) for name in COLUMNS]
        seconds = mean_seconds(group)
        time = f"{seconds / ours:.2f}" if ours and seconds else "–"
        rows.append([title, str(len(group)), *cells, time])
    return format_table(["", "n", *COLUMNS, TIME], rows)


def format_differences(groups: dict[str, Group], method: str) -> list[str]:
    """Return a table of the differences of all other methods to `method`, seed by seed."""
    name, *changes = method.split()
    searched = changes == [SEARCHED]  # as in a title
    reference = title_of({"method": name, "changes": changes, "searched": searched})
    if reference not in groups:
        raise InputError(f"there are no records of '{method}'; run the grid with it first")
    rows = []
    for title, group in groups.items():
        seeds = {each["seed"] for each in group} & {each["seed"] for each in groups[reference]}
        if title == reference or not seeds:
            continue
        first, second = (
            [each for each in records if each["seed"] in seeds]
            for records in (group, groups[reference])
        )
        cells = [
            mean_and_error(values_of(first, name), values_of(second, name))
            for name in (BETTER, *COLUMNS)
        ]
        rows.append([title, str(len(seeds)), *cells])
    return format_table([f"minus {reference}", "n", BETTER, *COLUMNS], rows)


def values_of(group: Group, column: str) -> list[float | None]:
    """Return the numbers of a column, in the order of the seeds; None: not known."""
    if column != BETTER:
        return [nested_value(record, COLUMNS[column]) for record in group]
    by_prior = [[nested_value(each, (prior, "last", "accuracy")) for each in group]
                for prior in PRIORS]  # fmt: skip
    known = [values for values in by_prior if None not in values]
    # One prior for all seeds of a method.
    return max(known, key=np.mean, default=[None] * len(group))  # type: ignore[arg-type]


def mean_and_error(values: Sequence[float | None], others: Sequence[float | None]) -> str:
    """Mean difference ± its standard error in %, or a dash if none is known."""
    pairs = zip(values, others, strict=True)
    known = [100 * (a - b) for a, b in pairs if a is not None and b is not None]
    if not known:
        return "–"
    error = f" ± {np.std(known, ddof=1) / len(known) ** 0.5:.1f}" if len(known) > 1 else ""
    return f"{np.mean(known):+.1f}{error}"


def mean_seconds(group: Group) -> float | None:
    """Return the mean processor seconds of a training; None: there is none."""
    return float(np.mean([each["processor_seconds"] for each in group])) if group else None


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table in Markdown."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    return [line(head), "|---" * len(head) + "|", *map(line, rows)]


def warn_of_mixtures(groups: dict[str, Group]) -> list[str]:
    """Return a sentence for each method whose records were trained with different settings."""
    return [
        f"\nThe records of {title} have different options or epochs; run the grid again for them."
        for title, group in groups.items()
        if any((each["options"], each["epochs"]) != (group[0]["options"], group[0]["epochs"])
               for each in group)
    ]  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
