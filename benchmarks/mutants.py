"""Mutation testing of blocks, labels and storage: are small changes of the code noticed by tests?

python -m benchmarks mutants [--count 400] [--seed 0] [--own] [--again] [--only labels] [--list]
    [--out FILE]

Mutants are drawn by the seed among all changes of comparisons, arithmetic, numbers, truth values
and returned values (`mutations.py`). Each runs against the tests that execute the changed statement
(`covering_tests.py`), fast ones first, until one fails. A change in a function is made in a fork of
one process that has imported everything; any other change is imported anew (`mutant_runs.py`).
A mutant that is recorded already is left out; --again repeats those that survived, and no others.
A mutant of a file that has changed is repeated. Needs coverage. POSIX only.
"""

import argparse
import hashlib
import importlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.covering_tests import ROOT, SOURCE, CoveringTests, measure_tests
from benchmarks.mutant_runs import Change, changed_functions, run_anew, run_in_session
from benchmarks.mutations import Mutant, list_mutants

RECORDS = ROOT / "benchmarks" / "results" / "mutants.jsonl"
PACKAGES = ("blocks", "labels", "storage")
# Tests elsewhere that are about a package, for mutants that its own tests let live.
ELSEWHERE = {
    "blocks": ("tests/algorithms/test_golden.py", "tests/algorithms/test_ulc.py",
               "tests/algorithms/test_ulc_plus.py", "tests/algorithms/test_m_correction.py",
               "tests/training/test_compute.py"),
    "labels": ("tests/training/test_training.py", "tests/applying", "tests/auditing/test_stages.py",
               "tests/estimators/test_issues.py"),
    "storage": ("tests/test_config.py", "tests/training/test_damaged_models.py",
                "tests/training/test_training.py", "tests/faults/test_memory.py",
                "tests/faults/test_values.py", "tests/training/test_placing.py"),
}  # fmt: skip
HEAVY = ("torch", "numpy", "scipy.stats", "sklearn.mixture", "pandas", "PIL.Image", "pydantic",
         "pytest", "safetensors.torch")  # fmt: skip


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--own", action="store_true", help="only the tests of its package: fast")
    parser.add_argument("--again", action="store_true", help="repeat only those that survived")
    parser.add_argument("--only", default="", help="run those whose path begins with this")
    parser.add_argument("--list", action="store_true", help="run nothing; list those that survived")
    parser.add_argument("--out", type=Path, default=RECORDS)
    options = parser.parse_args(argv)
    chosen = draw_mutants(options.count, options.seed)
    records = read_records(options.out)
    if not options.list:
        import_heavy()
        wanted = "survived" if options.again else None
        left = [each for each in chosen if records.get(key(each), {}).get("outcome") == wanted]
        left = [each for each in left if each.path.startswith(options.only)]
        for record in judge(left, own_only=options.own):
            records[record["key"]] = record
            write_records(options.out, records)
            print(record["outcome"], f"{record['seconds']:.0f} s", describe(record), flush=True)
    print_summary([records[key(mutant)] for mutant in chosen if key(mutant) in records])


def draw_mutants(count: int, seed: int) -> list[Mutant]:
    """Draw mutants among all of the packages."""
    files = [path for name in PACKAGES for path in sorted((SOURCE / name).glob("*.py"))]
    every = [each for path in files for each in list_mutants(SOURCE, str(path.relative_to(SOURCE)))]
    return random.Random(seed).sample(every, min(count, len(every)))


def key(mutant: Mutant) -> str:
    """Return a name of the mutant that changes with its file."""
    digest = hashlib.sha256((SOURCE / mutant.path).read_bytes()).hexdigest()[:12]
    return f"{mutant.path} {mutant.place} {digest}"


def judge(mutants: list[Mutant], *, own_only: bool) -> Iterator[dict[str, Any]]:
    """Run tests on mutants; yield a record of each. Exit if tests fail without any change."""
    covering, changed = measure_tests(test_files(), PACKAGES)
    new = [test for test in covering.seconds if test.split("::")[0] in changed]
    if new:
        check_tests_pass(sorted(new, key=lambda test: covering.seconds[test]), covering)
    tests = [own_tests(each, covering) if own_only else covering.of(each) for each in mutants]
    changes = [
        Change(mutant, chosen, changed_functions(mutant))
        for mutant, chosen in zip(mutants, tests, strict=True)
    ]
    in_functions = [change for change in changes if change.functions]
    for change, outcome, seconds in run_in_session(in_functions, covering):
        yield make_record(change.mutant, outcome, seconds)
    for change in [change for change in changes if not change.functions]:
        began = time.perf_counter()
        bound = covering.bound(change.tests)
        outcome = run_anew(change.mutant, change.tests, bound) if change.tests else "survived"
        yield make_record(change.mutant, outcome, round(time.perf_counter() - began, 1))


def check_tests_pass(tests: list[str], covering: CoveringTests) -> None:
    """Exit unless all tests pass on the code as it is, run as they are run on a mutant."""
    unchanged = Change(Mutant("", line=1, place=-1, change=""), tests, {})
    for _, outcome, _ in run_in_session([unchanged], covering):
        if outcome != "survived":
            sys.exit(f"the tests fail without any change ({outcome})")


def test_files() -> list[str]:
    """Return all test files that mutants may run against."""
    folders = [f"tests/{package}" for package in PACKAGES]
    named = [ROOT / name for name in (*folders, *sum(ELSEWHERE.values(), ()))]
    files = {file for each in named for file in ([each] if each.is_file() else each.glob("test_*"))}
    return sorted(str(file.relative_to(ROOT)) for file in files)


def own_tests(mutant: Mutant, covering: CoveringTests) -> list[str]:
    """Return the covering tests in the folder of the mutant's package."""
    folder = f"tests/{Path(mutant.path).parent.name}/"
    return [test for test in covering.of(mutant) if test.startswith(folder)]


def make_record(mutant: Mutant, outcome: str, seconds: float) -> dict[str, Any]:
    return asdict(mutant) | {"key": key(mutant), "outcome": outcome, "seconds": seconds}


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
