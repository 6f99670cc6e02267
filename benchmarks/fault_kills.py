"""Kill jobs, start them again, and compare what they leave with what an unbroken one leaves."""

import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.fault_jobs import Job
from ulc.storage.run_folder import RunFolder

# Files with times in them, or with the history of how often the run was started.
TIMED = ("records.jsonl", "environment.json", "summary.json", "checkpoint.pt", "identity.json",
         "checksums.json", "audit.json", "lock")  # fmt: skip
MOST = 7  # kills of one job before it may end
PATIENCE = 10  # seconds in which the workers of a killed process must end


@dataclass(frozen=True)
class Unbroken:
    """An unbroken job: the bits of all files that it left, its seconds, its number of writes."""

    files: dict[str, bytes]
    seconds: float
    writes: int


def kill_all(
    jobs: Mapping[str, Job], out: Path, kills: int, rng: np.random.Generator
) -> tuple[Counter[str], list[str]]:
    """Kill the jobs in turn until there were `kills` kills; return them by job, and the faults.

    out: the folder in which each job works; it is removed after each
    """
    unbroken = {name: run_unbroken(job, out) for name, job in jobs.items()}
    count: Counter[str] = Counter()
    faults = []
    most = max(1, min(MOST, kills // len(jobs)))
    while count.total() < kills:
        for name, job in jobs.items():
            tries = min(int(rng.integers(1, most + 1)), kills - count.total())
            found = kill_often(job, out, unbroken[name], tries, rng)
            count[name] += found[0]
            faults += [f"{name}: {each}" for each in found[1]]
    return count, faults


def run_unbroken(job: Job, out: Path) -> Unbroken:
    """Run a job twice: once for what it imports and downloads, once to measure it."""
    for _ in range(2):
        with emptied(out), counted_writes() as writes:
            began = time.perf_counter()
            job(out)
            seconds = time.perf_counter() - began
            files = read_files(out)
    return Unbroken(files, seconds, len(writes))


@contextmanager
def emptied(folder: Path) -> Iterator[None]:
    """Context manager: a new folder, which is removed at the end."""
    folder.mkdir()
    try:
        yield
    finally:
        shutil.rmtree(folder)


@contextmanager
def counted_writes() -> Iterator[list[int]]:
    """Context manager: a list that grows by one with each file that is written."""
    writes: list[int] = []
    before = os.fsync
    os.fsync = lambda descriptor: (writes.append(1), before(descriptor))[1]
    try:
        yield writes
    finally:
        os.fsync = before


def read_files(out: Path) -> dict[str, bytes]:
    """Return the content of all files by their path; of files with times in them, nothing."""
    return {
        str(path.relative_to(out)): b"" if path.name in TIMED else path.read_bytes()
        for path in out.rglob("*")
        if path.is_file()
    }


def kill_often(
    job: Job, out: Path, unbroken: Unbroken, tries: int, rng: np.random.Generator
) -> tuple[int, list[str]]:
    """Kill a job up to `tries` times, then let it end; return the number of kills, and faults."""
    kills, faults = 0, []
    with emptied(out):
        for _ in range(tries):
            write = None
            if unbroken.writes and rng.random() < 0.5:
                write = int(rng.integers(unbroken.writes))
            moment = float(rng.uniform(0, unbroken.seconds))
            child = start(lambda: job(out), write)
            if write is None:
                time.sleep(moment)
                os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            faults += left_processes(child)
            if not os.WIFSIGNALED(status):
                break
            kills += 1
        job(out)
        return kills, faults + find_faults(unbroken.files, out)


def start(job: Callable[[], object], write: int | None) -> int:
    """Start a job in a forked process, with a group of its own; return the id of the process.

    write: the process kills itself when it has written this many files and is about to flush the
        next; None: it does not
    """
    child = os.fork()
    if child:
        return child
    try:
        os.setpgrp()
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        if write is not None:
            die_at_write(write)
        job()
    finally:
        os._exit(0)


def die_at_write(number: int) -> None:
    """Let this process kill itself in the write with this number, from 0 on."""
    left = iter(range(number))
    before = os.fsync

    def flush(descriptor: int) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        before(descriptor)

    os.fsync = flush


def left_processes(group: int) -> list[str]:
    """Return the processes of a group that have not ended after some time."""
    end = time.monotonic() + PATIENCE
    while (left := processes_of(group)) and time.monotonic() < end:
        time.sleep(0.1)
    return [f"left the process {each}" for each in left]


def processes_of(group: int) -> list[str]:
    """Return the commands of the processes of a group that have not ended."""
    command = ["ps", "-A", "-o", "pgid=,stat=,args="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in listed.splitlines()]
    return [row[-1] for row in rows if row[0] == str(group) and not row[1].startswith("Z")]


def find_faults(expected: dict[str, bytes], out: Path) -> list[str]:
    """Compare the files that are there with those of an unbroken job; look for held locks."""
    found = read_files(out)
    faults = [f"lacks {name}" for name in sorted(expected.keys() - found.keys())]
    faults += [f"left {name}" for name in sorted(found.keys() - expected.keys())]
    faults += [
        f"other bits in {name}"
        for name in sorted(expected.keys() & found.keys())
        if expected[name] != found[name]
    ]
    for lock in out.rglob("lock"):
        with RunFolder(lock.parent).locked():  # raises if it is held
            pass
    return faults
