"""Compare `ulc audit` with cleanlab: finding wrong labels, and accuracy of the trained model.

    python -m benchmarks.cleanlab_comparison cifar10_features.npz --human cifar10n.npz --page

writes docs/comparison.md, its chart, and all tables as CSV in benchmarks/results. Each cell
(setting, seed, method) is a JSON file in --out: a command that was stopped continues, and a removed
file is measured again.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from itertools import product
from pathlib import Path

from benchmarks.comparison.methods import METHODS, check_installed
from benchmarks.comparison.page import PAGE, RESULTS, write_page
from benchmarks.comparison.settings import SETTINGS, Rows, cut
from benchmarks.comparison.tables import Cell, format_tables, make_tables
from ulc.errors import InputError
from ulc.storage.files import write_whole

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Task:
    """One cell to measure."""

    rows: Rows
    setting: str
    seed: int
    method: str
    out: Path
    keep: bool = False

    @property
    def name(self) -> str:
        """Return the name of the cell."""
        return f"{self.setting}-s{self.seed}-{self.method}"

    @property
    def file(self) -> Path:
        """Return the JSON file of the cell."""
        return self.out / f"{self.name}.json"


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_options(arguments)
    try:
        tasks = plan_tasks(options)
        failed = [] if options.show else measure(tasks, options.jobs)
        cells = [json.loads(task.file.read_text()) for task in tasks if task.file.is_file()]
        tables = make_tables(cells)
        if options.page is not None:
            write_page(tables, options.page, options.results)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(cells, indent=1) if options.json else format_tables(tables))
    for name, reason in failed:
        print(f"{name} failed: {reason}", file=sys.stderr)
    return 1 if failed else 0


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("features", type=Path, help="npz with X, y, X_test, y_test of CIFAR-10, original order")
    add("--human", type=Path, help="npz or pt with the labels of CIFAR-10N")
    add("--out", type=Path, default=Path("comparison"), help="folder of the cells (comparison)")
    add("--rows", type=int, default=10_000, help="training rows before classes are cut (10000)")
    add("--offset", type=int, default=0, help="the first of them (0)")
    add("--test-rows", type=parse_range, metavar="A:B", help="test on these training rows instead")
    add(
        "--settings",
        type=parse_names,
        default=("*",),
        help=f"of {', '.join(SETTINGS)}; * is any text",
    )
    add("--seeds", type=parse_seeds, default=(0, 1, 2), help="0,1,2")
    add("--methods", type=parse_names, default=tuple(METHODS), help=f"of {', '.join(METHODS)}")
    add("--jobs", type=int, default=1, help="processes of one thread each (1)")
    add("--keep", action="store_true", help="keep what the methods write, in --out")
    add("--show", action="store_true", help="use the cells measured before, measure nothing")
    add("--json", action="store_true", help="print all cells as JSON instead of tables")
    add("--page", type=Path, nargs="?", const=PAGE, help="write this page (docs/comparison.md)")
    add("--results", type=Path, default=RESULTS, help="folder of the page's CSV files")
    return parser.parse_args(arguments)


def parse_names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def parse_seeds(text: str) -> tuple[int, ...]:
    return tuple(map(int, parse_names(text)))


def parse_range(text: str) -> tuple[int, int]:
    first, last = map(int, text.split(":"))
    return first, last


def plan_tasks(options: argparse.Namespace) -> list[Task]:
    """List the chosen cells, seed by seed; raise for every mistake in the options."""
    rows = Rows(options.features, options.human, options.offset, options.rows, options.test_rows)
    settings = match_names(options.settings, SETTINGS, "setting")
    methods = match_names(options.methods, tuple(METHODS), "method")
    tasks = [
        Task(rows, setting, seed, method, options.out, options.keep)
        for seed, setting, method in product(options.seeds, settings, methods)
    ]
    if not options.show:
        check_tasks(rows, settings, methods)
        record_rows(rows, options.out)
    return tasks


def match_names(wanted: Sequence[str], known: Sequence[str], what: str) -> list[str]:
    """Return the known names that match any pattern, in their own order."""
    for pattern in wanted:
        if not any(fnmatch(name, pattern) for name in known):
            raise InputError(f"no {what} is called '{pattern}'; known: {', '.join(known)}")
    return [name for name in known if any(fnmatch(name, pattern) for pattern in wanted)]


def check_tasks(rows: Rows, settings: Sequence[str], methods: Sequence[str]) -> None:
    """Raise before the measurement if a package or a setting's data are missing."""
    for method in methods:
        check_installed(method)
    for setting in {setting.split("-")[1]: setting for setting in settings}.values():
        cut(rows, setting, 0)


def record_rows(rows: Rows, out: Path) -> None:
    """Record the rows of the cells in `out`; raise if it holds cells of other rows."""
    out.mkdir(parents=True, exist_ok=True)
    place = out / "rows.json"
    content = json.loads(json.dumps(asdict(rows) | {"features": rows.features.name}, default=str))
    del content["human"]
    if not place.is_file():
        write_whole(place, (json.dumps(content, indent=1) + "\n").encode())
    elif json.loads(place.read_text()) != content:
        raise InputError(f"{out}: holds cells of other rows; choose another folder with --out")


def measure(tasks: Sequence[Task], jobs: int) -> list[tuple[str, str]]:
    """Measure the missing cells; return name and reason of each failure."""
    left = [task for task in tasks if not task.file.is_file()]
    # Libraries read these variables when a process starts. Every cell runs in a subprocess with one
    # thread, whatever --jobs is.
    os.environ |= dict.fromkeys(THREADS, "1")
    failed = []
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=fresh, initializer=use_one_thread) as pool:
        running = {pool.submit(measure_cell, task): task for task in left}
        for number, done in enumerate(as_completed(running), 1):
            task, error = running[done], done.exception()
            if error is not None:
                failed.append((task.name, f"{type(error).__name__}: {error}"))
            state = "failed" if error else f"{done.result():.0f} s"
            print(f"{number}/{len(left)} {task.name}: {state}", file=sys.stderr, flush=True)
    return failed


def use_one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def measure_cell(task: Task) -> float:
    """Measure one cell and write its file; return the seconds of the method."""
    data = cut(task.rows, task.setting, task.seed)
    work = Path(tempfile.mkdtemp(prefix=f"{task.name}.", dir=task.out))
    try:
        measured = METHODS[task.method](data, task.seed, work)
        cell: Cell = {
            "setting": task.setting,
            "seed": task.seed,
            "method": task.method,
            "rows": len(data.given),
            **measured,
        }
        write_whole(task.file, (json.dumps(cell, indent=1, allow_nan=False) + "\n").encode())
    finally:
        if not task.keep:
            shutil.rmtree(work, ignore_errors=True)
    return float(cell["wall_seconds"])


if __name__ == "__main__":
    sys.exit(main())
