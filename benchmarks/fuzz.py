"""Fuzz every reader of files: no error but an InputError, no hang, no memory without bound.

python -m benchmarks fuzz [--inputs 100000] [--reader npz] [--seed 0] [--json] [--out FILE]

Each reader runs in a process of its own. An input that fails is written to the folder `failed`.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.fuzzing import cache_files, data_files, other_files
from benchmarks.fuzzing.other_runs import OTHER_FILES
from benchmarks.fuzzing.readers import Reader, make_readers
from benchmarks.fuzzing.run_folders import RUN_FILES
from ulc.errors import InputError
from ulc.storage.memory import VARIABLE

FILES = ("npz", "pickle", "binary", "csv", "parquet", "image", "labels", "decisions",
         *other_files.PLACES, *data_files.PLACES, *cache_files.NAMES)  # fmt: skip
NAMES = (*FILES, *(f"run/{name}" for name in (*RUN_FILES, *OTHER_FILES)))
SECONDS = 5  # a reader that takes longer hangs
MEMORY = 1.0  # GB above the start that a reader may take
LIMIT = "256MB"  # bound of one file


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1000, help="for each reader")
    parser.add_argument("--reader", choices=NAMES, action="append")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.here:
        print(json.dumps(fuzz_in_folder(options.reader[0], options.inputs, options.seed)))
        return
    found = [
        fuzz_in_process(name, options.inputs, options.seed) for name in options.reader or NAMES
    ]
    if options.out:
        options.out.write_text(json.dumps(found, indent=1))
    print(json.dumps(found) if options.json else format_table(found))
    if any(each["failed"] for each in found):
        sys.exit(1)


def fuzz_in_process(name: str, inputs: int, seed: int) -> dict[str, Any]:
    """Fuzz a reader in a process of its own; a crash of the process counts as a failure."""
    command = [sys.executable, "-m", "benchmarks", "fuzz", "--here", "--reader", name]
    command += ["--inputs", str(inputs), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = f"exit code {done.returncode}: {done.stderr[-300:]}"
        return {"reader": name, "inputs": inputs, "failed": [reason]}
    return json.loads(done.stdout.splitlines()[-1])


def fuzz_in_folder(name: str, inputs: int, seed: int) -> dict[str, Any]:
    """Fuzz a reader in a folder that is removed afterwards."""
    os.environ[VARIABLE] = LIMIT
    with tempfile.TemporaryDirectory() as folder:
        reader = make_readers(Path(folder))[name]
        return {"reader": name} | fuzz(reader, Path(folder), range(inputs), seed)


def fuzz(reader: Reader, folder: Path, inputs: range, seed: int = 0) -> dict[str, Any]:
    """Give changed files to a reader; return counts, the slowest input and the failures.

    Input number i depends on i and the seed alone, so that a failure can be repeated. An input
    that is equal to an earlier one has its outcome, and is not read again.
    """
    path = folder / reader.name
    reader.read(write(path, reader.goods[0]))  # imports what it needs, and shows that it works
    before, counts, failed, slowest = peak_memory(), Counter(), [], 0.0
    outcomes: dict[bytes, str] = {}
    for number in inputs:
        content = make_input(reader, number, seed)
        digest = hashlib.sha256(content).digest()
        if digest not in outcomes:
            start = time.perf_counter()
            outcomes[digest] = outcome = attempt(reader, write(path, content))
            slowest = max(slowest, time.perf_counter() - start)
            if outcome not in ("", "InputError"):
                failed.append(f"input {number} of seed {seed}: {outcome}")
                keep(reader, number, content)
        counts["read" if outcomes[digest] == "" else "refused"] += 1
    write(path, reader.goods[0])
    memory = peak_memory() - before
    if memory > MEMORY:
        failed.append(f"{memory:.2f} GB of memory")
    return {
        "inputs": len(inputs),
        "different": len(outcomes),
        "read": counts["read"],
        "refused": counts["refused"],
        "slowest": slowest,
        "memory": memory,
        "failed": failed,
    }


def make_input(reader: Reader, number: int, seed: int) -> bytes:
    """Make input `number` from a good file."""
    rng = random.Random(f"{seed} {number}")
    content = rng.choice(reader.goods)
    return rng.choice(reader.changes)(content, rng)


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def attempt(reader: Reader, path: Path) -> str:
    """Read a file; return "" if it was read, else the error and where it was raised."""
    try:
        with time_limit():
            reader.read(path)
    except InputError as error:
        return "InputError" if "\n" not in str(error) else "a message of several lines"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"[:300]
    return ""


@contextmanager
def time_limit() -> Iterator[None]:
    """Context manager: raise a TimeoutError after `SECONDS` seconds."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"it takes more than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def keep(reader: Reader, number: int, content: bytes) -> None:
    write(Path("failed") / f"{reader.name.replace('/', '-')}-{number}", content)


def peak_memory() -> float:
    """The most memory in GB that this process has taken so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def format_table(found: list[dict[str, Any]]) -> str:
    titles = ("reader", "inputs", "different", "read", "refused", "slowest", "memory", "failed")
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for each in found:
        slow, memory = each.get("slowest", 0.0), each.get("memory", 0.0)
        lines.append(
            f"| {each['reader']} | {each['inputs']:,} | {each.get('different', 0):,} | "
            f"{each.get('read', 0):,} | {each.get('refused', 0):,} | "
            f"{slow:.2f} s | {memory:.2f} GB | {len(each['failed'])} |"
        )
    failures = [failure for each in found for failure in each["failed"][:10]]
    return "\n".join(lines + failures)


if __name__ == "__main__":
    main(sys.argv[1:])
