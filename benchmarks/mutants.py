"""Mutation testing of blocks, labels and storage: are small changes of the code noticed by tests?

python -m benchmarks mutants [--count 400] [--seed 0] [--own] [--again] [--list] [--out FILE]

Mutants are drawn by the seed among all changes of comparisons, arithmetic, numbers, truth values
and returned values (`mutations.py`). Each runs against the tests of its module in a forked process,
then, if none failed, against those of the package. A mutant that is recorded already is left out;
--again repeats those that survived. A mutant of a file that has changed is repeated. POSIX only.
"""

import argparse
import hashlib
import importlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from benchmarks.mutations import Mutant, list_mutants, mutated

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "ulc"
RECORDS = ROOT / "benchmarks" / "results" / "mutants.jsonl"
PACKAGES = ("blocks", "labels", "storage")
# Tests elsewhere that are about a package, for mutants that its own tests let live.
ELSEWHERE = {
    "blocks": ("tests/algorithms/test_golden.py", "tests/algorithms/test_ulc.py",
               "tests/algorithms/test_ulc_plus.py", "tests/algorithms/test_m_correction.py"),
    "labels": ("tests/training/test_training.py", "tests/applying", "tests/auditing/test_stages.py",
               "tests/estimators/test_issues.py"),
    "storage": ("tests/test_config.py", "tests/training/test_damaged_models.py",
                "tests/training/test_training.py", "tests/faults/test_memory.py",
                "tests/faults/test_values.py", "tests/training/test_placing.py"),
}  # fmt: skip
HEAVY = ("torch", "numpy", "scipy.stats", "sklearn.mixture", "pandas", "PIL.Image", "pydantic",
         "pytest", "safetensors.torch")  # fmt: skip
SECONDS = 900  # a mutant that takes longer is killed by time
NO_TESTS = 5  # pytest's exit code


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--own", action="store_true", help="only the tests of its module: fast")
    parser.add_argument("--again", action="store_true", help="repeat those that survived")
    parser.add_argument("--list", action="store_true", help="run nothing; list those that survived")
    parser.add_argument("--out", type=Path, default=RECORDS)
    options = parser.parse_args(argv)
    chosen = draw_mutants(options.count, options.seed)
    records = read_records(options.out)
    if not options.list:
        import_heavy()
        check_tests_pass(own_only=options.own)
        for mutant in chosen:
            old = records.get(key(mutant))
            if old is None or (options.again and old["outcome"] == "survived"):
                records[key(mutant)] = record = judge(mutant, own_only=options.own)
                write_records(options.out, records)
                print(record["outcome"], f"{record['seconds']:.0f} s", describe(record), flush=True)
    print_summary([records[key(mutant)] for mutant in chosen if key(mutant) in records])


def check_tests_pass(*, own_only: bool) -> None:
    """Exit unless all tests pass on the code as it is, run as they are run on a mutant."""
    for package in PACKAGES:
        unchanged = Mutant(f"{package}/__init__.py", line=1, place=-1, change="")
        tests = [f"tests/{package}"] if own_only else other_tests(unchanged)
        outcome = run_tests(unchanged, tests)
        if outcome != "survived":
            sys.exit(f"the tests of {package} fail without any change ({outcome})")


def draw_mutants(count: int, seed: int) -> list[Mutant]:
    """Draw mutants among all of the packages."""
    files = [path for name in PACKAGES for path in sorted((SOURCE / name).glob("*.py"))]
    every = [each for path in files for each in list_mutants(SOURCE, str(path.relative_to(SOURCE)))]
    return random.Random(seed).sample(every, min(count, len(every)))


def key(mutant: Mutant) -> str:
    """Return a name of the mutant that changes with its file."""
    digest = hashlib.sha256((SOURCE / mutant.path).read_bytes()).hexdigest()[:12]
    return f"{mutant.path} {mutant.place} {digest}"


def judge(mutant: Mutant, *, own_only: bool) -> dict[str, Any]:
    """Run the tests on a mutant; return its record."""
    began = time.perf_counter()
    outcome = "survived"
    for tests in (own_tests(mutant), [] if own_only else other_tests(mutant)):
        outcome = run_tests(mutant, tests) if tests else "survived"
        if outcome != "survived":
            break
    seconds = round(time.perf_counter() - began, 1)
    return asdict(mutant) | {"key": key(mutant), "outcome": outcome, "seconds": seconds}


def own_tests(mutant: Mutant) -> list[str]:
    """Return the test files of the package's folder that name the module."""
    package, module = Path(mutant.path).parent.name, Path(mutant.path).stem
    named = re.compile(rf"ulc\.{package}(\.| import (.*\W)?){module}\b")
    files = sorted((ROOT / "tests" / package).glob("test_*.py"))
    return [
        str(path.relative_to(ROOT))
        for path in files
        if path.stem == f"test_{module}" or named.search(path.read_text("utf-8"))
    ]


def other_tests(mutant: Mutant) -> list[str]:
    """Return the other tests that are about the package."""
    package = Path(mutant.path).parent.name
    files = sorted((ROOT / "tests" / package).glob("test_*.py"))
    rest = {str(path.relative_to(ROOT)) for path in files} - set(own_tests(mutant))
    return [*sorted(rest), *ELSEWHERE[package]]


def run_tests(mutant: Mutant, tests: list[str]) -> str:
    """Run tests on the mutant in a forked process; return killed, survived or too slow."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(run_here(mutant, tests))
        finally:
            os._exit(1)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "survived" if status == 0 else "killed"
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "too slow"


def run_here(mutant: Mutant, tests: list[str]) -> int:
    """Run tests in this process with the mutant in place of its file; return the exit code."""
    import pytest

    os.setpgrp()  # so that all its processes can be ended
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    os.chdir(ROOT)
    load_instead(SOURCE / mutant.path, mutated(SOURCE, mutant))
    scratch = tempfile.mkdtemp()
    options = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", f"--basetemp={scratch}/t"]
    code = int(pytest.main([*options, *tests]))
    shutil.rmtree(scratch, ignore_errors=True)
    return 0 if code == NO_TESTS else code


def load_instead(path: Path, tree: Any) -> None:
    """Let an import of the file load this syntax tree."""
    plain = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, name: str) -> Any:
        if Path(self.path) == path:
            return compile(tree, str(path), "exec")
        return plain(self, name)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def import_heavy() -> None:
    """Import what all tests need, but nothing of the package: forked processes start fast."""
    for name in HEAVY:
        importlib.import_module(name)
    import torch

    torch.set_num_threads(1)  # a forked process cannot use torch's threads
    if any(name == "ulc" or name.startswith("ulc.") for name in sys.modules):
        raise RuntimeError("the package is imported already; mutants would not be loaded")


def read_records(path: Path) -> dict[str, dict[str, Any]]:
    """Return the records of earlier calls by key."""
    if not path.is_file():
        return {}
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return {record["key"]: record for record in records}


def write_records(path: Path, records: dict[str, dict[str, Any]]) -> None:
    """Write all records, one a line."""
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records.values()]
    temporary = path.with_name(f".{path.name}")
    temporary.write_text("".join(lines), encoding="utf-8")
    temporary.replace(path)


def describe(record: dict[str, Any]) -> str:
    return f"{record['path']}:{record['line']} {record['change']}"


def print_summary(records: list[dict[str, Any]]) -> None:
    """Print counts by package, and what survived."""
    for record in records:
        if record["outcome"] == "survived":
            print("survived:", describe(record))
    for package in PACKAGES:
        counts = Counter(each["outcome"] for each in records if each["path"].startswith(package))
        print(f"{package}: {dict(counts)}")
    killed = sum(record["outcome"] != "survived" for record in records)
    print(f"{killed} of {len(records)} killed")


if __name__ == "__main__":
    main(sys.argv[1:])
