"""Many tiny runs in one process: memory, objects, open files, threads and processes do not grow.

python -m benchmarks soak [--runs 100] [--json]

Each run trains one of the algorithms in turn in a new folder, and is shown, reported, predicted
with, applied and exported as the commands do; then its folder is removed. The first two rounds over
all algorithms are not counted: modules are imported and buffers are filled there. POSIX only.
"""

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import torch

from benchmarks.fault_jobs import Job, new_spec, ulc, write_data
from benchmarks.fault_kills import emptied
from ulc.algorithms import ALGORITHMS
from ulc.training.run import run

Usage = dict[str, float]
# The most that each count may grow from the first counted run to the last.
BOUNDS = {"memory in MB": 30.0, "objects": 3000.0, "files": 0.0, "threads": 0.0, "processes": 0.0,
          "temporary files": 0.0}  # fmt: skip
STATM = Path("/proc/self/statm")


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100, help="that are counted")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        data = write_data(Path(scratch))
        tempfile.tempdir = scratch  # other processes write to the system's
        jobs = [life_of_a_run(data, name) for name in ALGORITHMS]
        growth = soak(jobs, Path(scratch) / "work", options.runs, first=2 * len(jobs))
    print(json.dumps(growth) if options.json else format_growth(growth, options.runs))
    if too_much(growth):
        sys.exit(1)


def life_of_a_run(data: Path, algorithm: str) -> Job:
    """Return a job that trains a run and uses it in every way."""

    def job(out: Path) -> None:
        path = run(new_spec(data, algorithm), out, device="cpu").path
        ulc("show", path, option="--spreadsheet", out="table.csv")(out)
        ulc("report", path, out="page.html")(out)
        ulc("predict", path, data, "--quiet", out="predicted.csv")(out)
        ulc("apply", path, "--accept-all", out="corrected.npz")(out)
        ulc("export", path, option="--safetensors", out="model.safetensors")(out)

    return job


def soak(jobs: list[Job], out: Path, runs: int, first: int) -> Usage:
    """Run the jobs in turn, each in a new folder; return by how much each count grew.

    first: number of runs before the `runs` that are counted
    """
    before: Usage = {}
    for number in range(first + runs):
        if number == first:
            before = count_usage()
        with emptied(out):
            jobs[number % len(jobs)](out)
    after = count_usage()
    return {name: after[name] - before[name] for name in before}


def count_usage() -> Usage:
    """Count what this process holds now."""
    gc.collect()
    return {
        "memory in MB": memory(),
        "objects": len(gc.get_objects()),
        "files": len(list(Path("/dev/fd").iterdir())),
        "threads": threading.active_count(),
        "processes": count_children(),
        "temporary files": len(list(Path(tempfile.gettempdir()).iterdir())),
    }


def memory() -> float:
    """Memory of this process in MB: now, or at most so far where the system does not tell."""
    if STATM.exists():
        return int(STATM.read_text().split()[1]) * resource.getpagesize() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def count_children() -> int:
    """Number of processes that this process has started and that have not ended."""
    command = ["ps", "-A", "-o", "ppid=,comm="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=1) for line in listed.splitlines()]
    return sum(parent == str(os.getpid()) and name != "ps" for parent, name in rows)


def too_much(growth: Usage) -> list[str]:
    """Return the names of the counts that grew above their bounds."""
    return [name for name, bound in BOUNDS.items() if growth[name] > bound]


def format_growth(growth: Usage, runs: int) -> str:
    lines = [f"| growth in {runs} runs | | bound |", "|---|---|---|"]
    lines += [f"| {name} | {growth[name]:+.1f} | {bound:g} |" for name, bound in BOUNDS.items()]
    return "\n".join([*lines, *(f"too much: {name}" for name in too_much(growth))])


if __name__ == "__main__":
    main(sys.argv[1:])
