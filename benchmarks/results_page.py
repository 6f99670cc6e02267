"""Write the tables of the documentation from the records in benchmarks/results.

    python -m benchmarks results_page [--check]

A table stands in a page between two comments, and the first one says which table it is:

    <!-- records: means features-1to10-50 -->
    …
    <!-- end of records -->

Tables: `summary SETTING METHODS`, few columns for the README; `means SETTING [METHODS]` and `paired
SETTING METHOD [METHODS]` as grid_table prints them; `search SETTING`; `paper TABLE [PRIOR]`, one
of the paper with frozen features; `difference METHOD REFERENCE MEASURES`, over all settings that
have both; `levels METHODS MEASURES`; `overview PRIOR SETTINGS METHODS`, many settings by the
training, the balanced or, for each method, the better prior; `claims`, the paper's claims with
verdicts (claims.py). Changes of --set stand behind a method, as in ulc/doubt_weight=0.2. With
--check nothing is written; pages that would change are named, and the exit code is 1.
"""

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from benchmarks.claims import claim_table
from benchmarks.differences import difference_table, level_table
from benchmarks.grid_records import RESULTS, SEARCHES, Record, read_records
from benchmarks.grid_settings import SETTINGS, find_setting
from benchmarks.grid_table import (
    TITLES,
    format_records,
    format_table,
    group_records,
    parse_options,
    values_of,
)
from benchmarks.overview_table import overview_table
from benchmarks.paper_cells import paper_cell
from benchmarks.recorded_runs import FILES, RecordedRun, read_runs
from ulc.config import read_toml
from ulc.errors import InputError
from ulc.experiments.paper.grids import paper_grid
from ulc.experiments.paper_table import paper_table
from ulc.experiments.table_formats import as_markdown
from ulc.experiments.tables import mean_and_deviation
from ulc.labels.prior import check_prior_name
from ulc.storage.files import write_whole

README = Path(__file__).parents[1] / "README.md"
DOCS = README.with_name("docs")
SUMMARY = {  # heading: column of grid_table
    "all classes": "balanced prior",
    "small classes": "small (balanced prior)",
    "large classes": "large (balanced prior)",
    "wrong labels: AUC": "AUC",
    "precision": "precision",
    "recall": "recall",
}
BLOCK = re.compile(r"(<!-- records: ([^\n]+) -->\n).*?(<!-- end of records -->)", re.DOTALL)


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks results_page",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--check", action="store_true", help="write nothing, name what differs")
    check = parser.parse_args(argv).check
    try:
        pages = [README, *sorted(DOCS.rglob("*.md"))]
        changed = [page for page in pages if fill_page(page, write=not check)]
    except InputError as error:
        sys.exit(str(error))
    for page in changed:
        print(f"{page.relative_to(README.parent)}: {'differs' if check else 'written'}")
    if check and changed:
        sys.exit(1)


def fill_page(page: Path, *, write: bool) -> bool:
    """Fill the tables of a page, and return whether it changes."""
    before = page.read_text(encoding="utf-8")
    after = fill(before)
    if write and after != before:
        write_whole(page, after.encode())
    return after != before


def fill(text: str) -> str:
    """Return the text with today's tables between its comments."""

    def table(match: re.Match[str]) -> str:
        begin, words, end = match.groups()
        return f"{begin}\n{make_table(words.split())}\n\n{end}"

    return BLOCK.sub(table, text)


def make_table(words: Sequence[str]) -> str:
    """Return the table that the words of a comment name."""
    name, *arguments = words
    if name not in TABLES:
        raise InputError(f"no table is called '{name}'; known: {', '.join(TABLES)}")
    return TABLES[name](*arguments)


def summary(setting: str, methods: str) -> str:
    """Return few columns of a setting, with shorter headings."""
    groups = group_records(read_records(RESULTS / f"{setting}.jsonl"), methods.split(","))
    rows = [
        [title, *(mean_and_deviation(values_of(group, each)) for each in SUMMARY.values())]
        for title, group in groups.items()
    ]
    return "\n".join(format_table(["", *SUMMARY], rows))


def means(setting: str, methods: str | None = None) -> str:
    """Return means and standard deviations of a setting."""
    return grid_table(setting, methods, [])


def paired(setting: str, reference: str, methods: str | None = None) -> str:
    """Return differences to a method, seed by seed."""
    return grid_table(setting, methods, ["--paired", reference.replace("/searched", " (searched)")])


def grid_table(setting: str, methods: str | None, options: list[str]) -> str:
    """Return the table that `grid_table` prints for a setting."""
    only = [] if methods is None else ["--methods", methods]
    return "\n".join(format_records(setting, parse_options([setting, *options, *only])))


def search(setting: str) -> str:
    """Return what the search found for each method."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in read_records(SEARCHES / f"{setting}.jsonl"):
        groups[record["method"]].append(record)
    head = ["", "candidates", "preset", "best candidate", "chosen"]
    return "\n".join(format_table(head, [search_row(groups[each]) for each in TITLES
                                         if each in groups]))  # fmt: skip


def search_row(group: Sequence[Record]) -> list[str]:
    """Return the row of a method: agreement with validation labels in %, in the mean of classes."""
    preset = min(group, key=lambda record: len(record["changes"]))
    best = max(group, key=lambda record: record["score"])
    chosen = [each for each in group if each.get("chosen")]
    return [
        TITLES[preset["method"]],
        str(len(group)),
        f"{100 * preset['score']:.1f}",
        f"{100 * best['score']:.1f} ({changes_of(best)})",
        changes_of(chosen[0]) if chosen else "–",
    ]


def changes_of(record: Record) -> str:
    """Return the options of a candidate that differ from the preset."""
    return ", ".join(record["changes"]) or "preset"


def paper(table: str, prior: str = "training") -> str:
    """Return a table of the paper with our numbers from frozen features: its rows and ULC+."""
    settings = sorted(path.stem for path in RESULTS.glob("features*.jsonl"))
    runs = paper_runs(read_runs(settings))
    return as_markdown(paper_table(paper_grid(table), runs, check_prior_name(prior)))


def paper_runs(runs: Sequence[RecordedRun]) -> list[RecordedRun]:
    """Return the trainings that have the options of the paper's tables at the scale `cpu`."""
    return [
        run
        for run in runs
        if tuple(run.record["changes"])
        == paper_changes(run.record["setting"], run.record["method"])
    ]


@cache
def paper_changes(setting: str, method: str) -> tuple[str, ...] | None:
    """Return the options of a method in the paper's tables; None: no table has the setting."""
    try:
        found = find_setting(setting, FILES, read_toml(SETTINGS), must_exist=False)
        return paper_cell(found, method, seed=0).changes
    except InputError:
        return None


def difference(method: str, reference: str, measures: str) -> str:
    """Return paired differences of two methods in every setting that has both."""
    return difference_table(method, reference, measures.split(","))


def levels(methods: str, measures: str) -> str:
    """Return means of measures in every setting that has records of the methods."""
    return level_table(methods.split(","), measures.split(","))


def overview(prior: str, settings: str, methods: str) -> str:
    """Return the accuracy of methods in many settings, under a prior."""
    return overview_table(f"{prior} prior", settings.split(","), methods.split(","))


TABLES: dict[str, Callable[..., str]] = {
    "summary": summary,
    "means": means,
    "paired": paired,
    "search": search,
    "paper": paper,
    "difference": difference,
    "levels": levels,
    "overview": overview,
    "claims": claim_table,
}


if __name__ == "__main__":
    main(sys.argv[1:])
