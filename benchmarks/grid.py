"""Train methods with several seeds in named settings, and keep a small record of each training.

    python -m benchmarks grid demonstration,features-1to10-50 --methods ce,ulc --jobs 2 --runs DIR

Each cell (setting, method, seed) is an ordinary run folder in --runs, and a line in
benchmarks/results/grid/SETTING.jsonl. A command that was stopped goes on; cells with a record of
the same spec are not repeated. `python -m benchmarks grid_table` prints the records. Settings are
in benchmarks/grid.toml; methods are the algorithms, the variants of `ulc sweep`, and `ceiling`,
cross entropy on the true labels. Records of trainings with --set stand beside the others. With
--searched each method has the options that `search_settings` chose for it, with --paper those of
the paper's tables at the scale `cpu` (paper_cells.py).
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from benchmarks.grid_processes import Job, train_jobs
from benchmarks.grid_records import (
    RESULTS,
    SEARCHES,
    Record,
    add_record,
    cell_key,
    drop_records,
    is_recorded,
    make_record,
    read_records,
)
from benchmarks.grid_settings import (
    METHODS,
    Cell,
    Setting,
    add_setting_options,
    algorithm_of,
    find_settings,
    make_cell,
)
from benchmarks.paper_cells import paper_cell
from ulc.cli import parse
from ulc.errors import InputError
from ulc.storage.run_folder import RunFolder
from ulc.training.placing import folders_at
from ulc.training.run import resolved


def main(argv: list[str]) -> None:
    options = parse_options(argv)
    try:
        cells = plan_cells(options)
        if options.again:
            forget_cells(cells, options)
        failed = train_cells(cells, options)
    except InputError as error:
        sys.exit(str(error))
    exit_if_failed(failed)


def parse_options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks grid",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add_setting_options(parser)
    add("--methods", default="ce,ulc,ulc_plus", help=f"of {', '.join(METHODS)}")
    add("--seeds", default="0,1,2,3,4", help="0,1,2,3,4")
    add("--set", action="append", default=[], metavar="KEY=VALUE",
        help="an option of all methods, as in `ulc train`; epochs=N, too")  # fmt: skip
    add("--searched", action="store_true", help="options that `search_settings` chose")
    add("--paper", action="store_true", help="options of `ulc sweep TABLE --scale cpu`")
    add_run_options(parser, RESULTS)
    return parser.parse_args(argv)


def add_run_options(parser: argparse.ArgumentParser, results: Path) -> None:
    """Add options for where and how cells are trained; results: default folder of the records."""
    add = parser.add_argument
    add("--jobs", type=int, default=1, help="trainings at once, of one thread each (1)")
    add("--runs", type=Path, default=Path("runs"), help="folder of the run folders (runs)")
    add("--results", type=Path, default=results, help="folder of the records")
    add("--discard", action="store_true", help="remove each run folder after it is recorded")
    add("--again", action="store_true", help="remove records and run folders of these cells first")


def plan_cells(options: argparse.Namespace) -> list[Cell]:
    """List the cells seed by seed; raise for every mistake in the options."""
    settings = find_settings(options)
    methods = parse.names(options.methods, "--methods") or []
    if options.paper and (options.set or options.searched):
        raise InputError("--paper has options of its own; leave out --set and --searched")
    seeds = parse.whole_numbers(options.seeds, "--seeds")
    return [
        plan_cell(setting, method, seed, options)
        for seed, setting, method in product(seeds, settings, methods)
    ]


def plan_cell(setting: Setting, method: str, seed: int, options: argparse.Namespace) -> Cell:
    """Return the cell with the options of --set and, with --searched, of the search.

    With both, the record has the name of all its changes: it is no training of the method itself.
    """
    if options.paper:
        return paper_cell(setting, method, seed)
    if not options.searched:
        return make_cell(setting, method, seed, sorted(options.set))
    changes = {*options.set, *chosen_changes(setting, method)}
    return replace(make_cell(setting, method, seed, sorted(changes)), searched=not options.set)


def chosen_changes(setting: Setting, method: str) -> list[str]:
    """Return the changes that the search chose for the algorithm of a method; raise if none."""
    algorithm = algorithm_of(method)
    path = SEARCHES / f"{setting.searched}.jsonl"
    for record in read_records(path):
        if record["method"] == algorithm and record.get("chosen"):
            return record["changes"]
    raise InputError(f"{path}: no settings of {algorithm}; search them with `search_settings`")


def file_of(cell: Cell, results: Path) -> Path:
    """Return the file of the cell's record."""
    return results / f"{cell.setting}.jsonl"


def forget_cells(cells: Sequence[Cell], options: argparse.Namespace) -> None:
    """Remove records and run folders, so that the next command goes on if this one is stopped."""
    for cell in cells:
        drop_records(file_of(cell, options.results), {cell_key(cell)})
        for folder in folders_at(options.runs / resolved(cell.spec).folder_name):
            folder.remove()


def train_cells(
    cells: Sequence[Cell],
    options: argparse.Namespace,
    record: Callable[[Cell, RunFolder], Record] = make_record,
    *,
    validation: bool = False,
) -> list[tuple[Cell, str]]:
    """Train the cells without a record, and record each; return the failed ones with reasons.

    record: function that makes the record of a finished training
    validation: as in `Job`
    """
    left = [
        cell
        for cell in cells
        if not is_recorded(cell, read_records(file_of(cell, options.results)))
    ]
    print(f"{len(cells)} cells, {len(cells) - len(left)} of them recorded before", flush=True)
    jobs = [Job(cell.spec, options.runs, validation) for cell in left]
    began, failed = time.monotonic(), []
    for number, (place, result) in enumerate(train_jobs(jobs, options.jobs), 1):
        cell = left[place]
        if isinstance(result, str):
            failed.append((cell, result))
        else:
            add_record(file_of(cell, options.results), record(cell, result))
            if options.discard:
                result.remove()
        state = "failed" if isinstance(result, str) else "recorded"
        print(f"{number}/{len(left)} {cell.name}: {state}; {tell_time(began, number, len(left))}",
              flush=True)  # fmt: skip
    return failed


def exit_if_failed(failed: Sequence[tuple[Cell, str]]) -> None:
    """List the failed cells with their reasons and exit with code 1, if there are any."""
    for cell, reason in failed:
        print(f"failed: {cell.name}: {reason}", file=sys.stderr)
    if failed:
        sys.exit(1)


def tell_time(began: float, done: int, total: int) -> str:
    """Tell the minutes since `began`, and how many the rest may take at the same pace."""
    minutes = (time.monotonic() - began) / 60
    rest = minutes / done * (total - done)
    return f"{time.strftime('%H:%M')}, {minutes:.1f} minutes, about {rest:.0f} to go"


if __name__ == "__main__":
    main(sys.argv[1:])
