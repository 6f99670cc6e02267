"""How `ulc audit` compares with cleanlab at finding wrong labels and at training in spite of them.

    python -m benchmarks.cleanlab_comparison cifar10_features.npz --human cifar10n.npz --jobs 2

prints every table of docs/comparison.md. Each cell (setting, seed, method) is a JSON file in --out,
so a run that was stopped goes on where it was; remove a file to measure that cell again.
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
from benchmarks.comparison.settings import SETTINGS, Rows, cut
from benchmarks.comparison.tables import Cell, all_tables
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
        """One cell, one name."""
        return f"{self.setting}-s{self.seed}-{self.method}"

    @property
    def file(self) -> Path:
        """Where its measures are."""
        return self.out / f"{self.name}.json"


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    try:
        tasks = planned(options)
        failed = [] if options.show else measure(tasks, options.jobs)
        cells = [json.loads(task.file.read_text()) for task in tasks if task.file.is_file()]
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(cells, indent=1) if options.json else all_tables(cells))
    for name, reason in failed:
        print(f"{name} failed: {reason}", file=sys.stderr)
    return 1 if failed else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("features", type=Path, help="npz with X, y, X_test, y_test of CIFAR-10, original order")
    add("--human", type=Path, help="npz or pt with the labels of CIFAR-10N")
    add("--out", type=Path, default=Path("comparison"), help="folder of the cells (comparison)")
    add("--rows", type=int, default=10_000, help="training rows before classes are cut (10000)")
    add("--offset", type=int, default=0, help="the first of them (0)")
    add("--test-rows", type=span, metavar="A:B", help="test on these training rows instead")
    add("--settings", type=names, default=("*",), help=f"of {', '.join(SETTINGS)}; * is any text")
    add("--seeds", type=seeds, default=(0, 1, 2), help="0,1,2")
    add("--methods", type=names, default=tuple(METHODS), help=f"of {', '.join(METHODS)}")
    add("--jobs", type=int, default=1, help="processes of one thread each (1)")
    add("--keep", action="store_true", help="keep what the methods write, in --out")
    add("--show", action="store_true", help="print what is measured already, and measure nothing")
    add("--json", action="store_true", help="print all cells as JSON instead of tables")
    return parser.parse_args(arguments)


def names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def seeds(text: str) -> tuple[int, ...]:
    return tuple(map(int, names(text)))


def span(text: str) -> tuple[int, int]:
    first, last = map(int, text.split(":"))
    return first, last


def planned(options: argparse.Namespace) -> list[Task]:
    """The cells asked for, a seed after the other; all that can be wrong with them is said here."""
    rows = Rows(options.features, options.human, options.offset, options.rows, options.test_rows)
    settings = matching(options.settings, SETTINGS, "setting")
    methods = matching(options.methods, tuple(METHODS), "method")
    tasks = [
        Task(rows, setting, seed, method, options.out, options.keep)
        for seed, setting, method in product(options.seeds, settings, methods)
    ]
    if not options.show:
        check(rows, settings, methods)
        claim(rows, options.out)
    return tasks


def matching(wanted: Sequence[str], known: Sequence[str], what: str) -> list[str]:
    """The names that any pattern fits, in their own order."""
    for pattern in wanted:
        if not any(fnmatch(name, pattern) for name in known):
            raise InputError(f"no {what} is called '{pattern}'; known: {', '.join(known)}")
    return [name for name in known if any(fnmatch(name, pattern) for pattern in wanted)]


def check(rows: Rows, settings: Sequence[str], methods: Sequence[str]) -> None:
    """Raise now what would fail after an hour."""
    for method in methods:
        check_installed(method)
    for setting in {setting.split("-")[1]: setting for setting in settings}.values():
        cut(rows, setting, 0)


def claim(rows: Rows, out: Path) -> None:
    """Write down which rows the cells in `out` are of, or refuse to mix them with others."""
    out.mkdir(parents=True, exist_ok=True)
    place = out / "rows.json"
    content = json.loads(json.dumps(asdict(rows) | {"features": rows.features.name}, default=str))
    del content["human"]
    if not place.is_file():
        write_whole(place, (json.dumps(content, indent=1) + "\n").encode())
    elif json.loads(place.read_text()) != content:
        raise InputError(f"{out}: holds cells of other rows; choose another folder with --out")


def measure(tasks: Sequence[Task], jobs: int) -> list[tuple[str, str]]:
    """Measure the cells that are not there yet; the names of those that failed, and why."""
    left = [task for task in tasks if not task.file.is_file()]
    # Read when a process loads its libraries, so before it starts. Always a process of its own:
    # times of one job and of several are of one thread alike.
    os.environ |= dict.fromkeys(THREADS, "1")
    failed = []
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=fresh, initializer=one_thread) as pool:
        running = {pool.submit(measure_cell, task): task for task in left}
        for number, done in enumerate(as_completed(running), 1):
            task, error = running[done], done.exception()
            if error is not None:
                failed.append((task.name, f"{type(error).__name__}: {error}"))
            state = "failed" if error else f"{done.result():.0f} s"
            print(f"{number}/{len(left)} {task.name}: {state}", file=sys.stderr, flush=True)
    return failed


def one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def measure_cell(task: Task) -> float:
    """Measure one cell and write its file; the seconds that the method took."""
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
