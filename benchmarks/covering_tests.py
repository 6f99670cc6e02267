"""Which tests execute which lines of the code: measured once for each version of a test file."""

import ast
import hashlib
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.mutations import Mutant

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "ulc"
STORED = ROOT / "build" / "covering_tests.json"
OPTIONS = ("-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist",
           "-o", "tmp_path_retention_policy=none")  # fmt: skip
Measured = dict[str, Any]  # of one test file: digest, seconds by test, tests by path and line


class CoveringTests:
    """Chooses the tests that execute the changed statement of a mutant, fast ones first.

    A test is a test function with all its parameters, such as `tests/a/test_b.py::test_c`.
    """

    def __init__(self, files: Sequence[Measured]) -> None:
        self.seconds: dict[str, float] = {}
        self.lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for measured in files:
            self.seconds |= measured["seconds"]
            for path, by_line in measured["lines"].items():
                for line, tests in by_line.items():
                    self.lines[path][int(line)] |= set(tests)

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests for a mutant; a change outside functions concerns the whole module."""
        lines = statement_lines(ast.parse((SOURCE / mutant.path).read_text("utf-8")), mutant.line)
        by_line = self.lines[mutant.path]
        chosen = [by_line[line] for line in (by_line if lines is None else lines)]
        return sorted(set().union(*chosen), key=lambda test: (self.seconds[test], test))

    def bound(self, tests: Sequence[str]) -> float:
        """Seconds of the processor that these tests may take on a mutant."""
        return 60 + 10 * sum(self.seconds[test] for test in tests)


def statement_lines(tree: ast.AST, line: int) -> range | None:
    """Return the lines of the innermost statement in a function; None: it is in no function."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    inside = [node for node in ast.walk(tree) if isinstance(node, functions) and has(node, line)]
    if not any(line >= node.body[0].lineno for node in inside):
        return None
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and has(node, line)]
    innermost = min(statements, key=lambda node: last_line(node) - node.lineno)
    return range(innermost.lineno, last_line(innermost) + 1)


def has(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= last_line(node)


def last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def measure_tests(tests: Sequence[str], packages: Sequence[str]) -> tuple[CoveringTests, list[str]]:
    """Measure the test files that have changed, and return these, too; exit if a test fails.

    tests: files below the folder of the project
    """
    code = [path for name in packages for path in sorted((SOURCE / name).glob("*.py"))]
    digests = {test: digest([*code, ROOT / test]) for test in tests}
    stored = json.loads(STORED.read_text("utf-8")) if STORED.is_file() else {}
    stale = [test for test in tests if stored.get(test, {}).get("digest") != digests[test]]
    if stale:
        child = os.fork()
        if child == 0:
            try:
                code = measure_here(stale, packages, stored, digests)
                sys.stdout.flush()
                os._exit(code)
            finally:
                os._exit(1)
        if os.waitpid(child, 0)[1]:
            sys.exit("tests fail without any change")
        stored = json.loads(STORED.read_text("utf-8"))
    return CoveringTests([stored[test] for test in tests]), stale


def digest(paths: Sequence[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:12]


def measure_here(
    tests: Sequence[str], packages: Sequence[str], stored: dict[str, Any], digests: dict[str, str]
) -> int:
    """Run tests with coverage in this process, add what they execute to the stored measurements."""
    from coverage import Coverage

    os.chdir(ROOT)
    included = [f"{SOURCE / name}/*" for name in packages]
    coverage = Coverage(data_file=None, config_file=False, include=included)
    recorder = Recorder(coverage)
    coverage.start()
    code = int(pytest.main([*OPTIONS, *tests], plugins=[recorder]))
    coverage.stop()
    if code:
        return code
    for test in tests:
        stored[test] = {"digest": digests[test], "seconds": {}, "lines": {}}
    for test, seconds in recorder.seconds.items():
        stored[test.split("::")[0]]["seconds"][test] = round(seconds, 4)
    data = coverage.get_data()
    for path in data.measured_files():
        for line, contexts in data.contexts_by_lineno(path).items():
            for test in recorder.tests(contexts):
                lines = stored[test.split("::")[0]]["lines"]
                below = lines.setdefault(str(Path(path).relative_to(SOURCE)), {})
                below.setdefault(str(line), []).append(test)
    STORED.parent.mkdir(exist_ok=True)
    STORED.write_text(json.dumps(stored), encoding="utf-8")
    return 0


class Recorder:
    """Plugin of pytest: tells coverage which test runs, and how long each took.

    What a fixture of several tests executes counts for all tests that use it.
    """

    def __init__(self, coverage: Any) -> None:
        self.coverage = coverage
        self.now = ""
        self.seconds: dict[str, float] = defaultdict(float)
        self.users: dict[str, set[str]] = defaultdict(set)

    def tests(self, contexts: Sequence[str]) -> set[str]:
        """Return the tests of these contexts; those of an import ("") are none."""
        return set().union(*(self.users[context] for context in contexts if context))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.now = test_of(item)
        self.users[self.now].add(self.now)
        for defined in item._fixtureinfo.name2fixturedefs.values():  # type: ignore[attr-defined]
            self.users[name_of(defined[-1])].add(self.now)
        self.coverage.switch_context(self.now)
        result = yield
        self.coverage.switch_context("")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        self.coverage.switch_context(name_of(fixturedef))
        result = yield
        self.coverage.switch_context(self.now)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid.split("[")[0]] += report.duration


def test_of(item: pytest.Item) -> str:
    """Return the name of the test function of an item."""
    return item.nodeid.split("[")[0]


def name_of(fixture: Any) -> str:
    """Return a name of a fixture that no other has."""
    return f"fixture {fixture.baseid} {fixture.argname}"
