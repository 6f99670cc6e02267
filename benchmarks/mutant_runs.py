"""Tests on mutants: in forks of one session of pytest, or in a process that imports them anew."""

import ast
import gc
import json
import os
import shutil
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.machinery import SourceFileLoader
from inspect import CO_NEWLOCALS
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from benchmarks.covering_tests import OPTIONS, ROOT, SOURCE, CoveringTests, test_of
from benchmarks.mutations import Mutant, mutated

SECONDS = 900  # a mutant that takes longer is killed by time
BROKEN = 70  # exit code of a process that could not run the tests


@dataclass(frozen=True)
class Change:
    """A mutant, the tests that it runs against, and its changed functions.

    functions: new code by name and line; empty: the change is in no function
    """

    mutant: Mutant
    tests: list[str]
    functions: dict[tuple[str, int], CodeType]


def changed_functions(mutant: Mutant) -> dict[tuple[str, int], CodeType]:
    """Return the changed function by its name and line; none if the change is in no function."""
    path = str(SOURCE / mutant.path)
    old = functions_of(compile((SOURCE / mutant.path).read_text("utf-8"), path, "exec"))
    new = functions_of(compile(mutated(SOURCE, mutant), path, "exec"))
    return {place: new[place] for place in new if new[place] != old.get(place)}


def functions_of(code: CodeType) -> dict[tuple[str, int], CodeType]:
    """Return the code of all functions and methods, without those inside of functions."""
    found = {}
    for each in code.co_consts:
        if isinstance(each, CodeType) and not each.co_name.startswith("<"):  # a lambda has no name
            if each.co_flags & CO_NEWLOCALS:
                found[each.co_qualname, each.co_firstlineno] = each
            else:  # a class
                found |= functions_of(each)
    return found


def replace_functions(path: str, new: dict[tuple[str, int], CodeType]) -> None:
    """Give loaded functions of the file their new code; raise if there is none."""
    count = 0
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename == path:
            code = new.get((each.__code__.co_qualname, each.__code__.co_firstlineno))
            if code is not None:
                each.__code__ = code
                count += 1
    if not count:
        raise RuntimeError(f"{path}: no function to change")


def run_in_session(
    changes: Sequence[Change], covering: CoveringTests
) -> Iterator[tuple[Change, str, float]]:
    """Yield each change with its outcome and seconds; all share one import of the package."""
    files = sorted({test.split("::")[0] for change in changes for test in change.tests})
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            be_quiet()
            os.chdir(ROOT)
            os._exit(run_pytest(files, [Loop(changes, covering, writing)]))
        finally:
            os._exit(BROKEN)
    os.close(writing)
    with os.fdopen(reading) as lines:
        for line in lines:
            number, outcome, seconds = json.loads(line)
            yield changes[number], outcome, seconds
    if os.waitpid(child, 0)[1]:
        raise RuntimeError("the session of tests has ended early")


class Loop:
    """Plugin of pytest: runs the chosen tests on each mutant, in a fork for each."""

    def __init__(self, changes: Sequence[Change], covering: CoveringTests, writing: int) -> None:
        self.changes, self.covering, self.writing = changes, covering, writing

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = defaultdict(list)
        for item in session.items:
            items[test_of(item)].append(item)
        for number, change in enumerate(self.changes):
            began = time.perf_counter()
            chosen = [item for test in change.tests for item in items[test]]
            outcome = in_fork(partial(run_items, change, chosen), self.covering.bound(change.tests))
            seconds = round(time.perf_counter() - began, 1)
            os.write(self.writing, (json.dumps([number, outcome, seconds]) + "\n").encode())
        return True


def run_items(change: Change, items: Sequence[pytest.Item]) -> int:
    """Put the changed functions in place, run tests until one fails; return 1 then, else 0."""
    from _pytest.runner import runtestprotocol

    if change.functions:
        replace_functions(str(SOURCE / change.mutant.path), change.functions)
    for number, item in enumerate(items):
        following = items[number + 1] if number + 1 < len(items) else None
        if any(each.failed for each in runtestprotocol(item, log=False, nextitem=following)):
            return 1
    return 0


def run_anew(mutant: Mutant, tests: Sequence[str], bound: float) -> str:
    """Run tests in a process that imports the mutant in place of its file; return the outcome."""

    def run_here() -> int:
        be_quiet()
        os.chdir(ROOT)
        load_instead(SOURCE / mutant.path, mutated(SOURCE, mutant))
        return run_pytest(["-x", *tests], [])

    return in_fork(run_here, bound)


def run_pytest(arguments: Sequence[str], plugins: Sequence[object]) -> int:
    scratch = tempfile.mkdtemp()
    try:
        return int(
            pytest.main([*OPTIONS, f"--basetemp={scratch}/t", *arguments], plugins=list(plugins))
        )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def in_fork(run: Callable[[], int], bound: float) -> str:
    """Call a function in a forked process; return killed, survived or too slow.

    bound: seconds of the processor that it may take
    """
    import resource  # Windows has none

    child = os.fork()
    if child == 0:
        try:
            os.setpgrp()  # so that all its processes can be ended
            resource.setrlimit(resource.RLIMIT_CPU, (int(bound), int(bound)))
            os._exit(run())
        finally:
            os._exit(BROKEN)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return describe_status(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "too slow"


def describe_status(status: int) -> str:
    """Name the outcome of a process that has ended; raise if it could not run the tests."""
    if os.WIFSIGNALED(status):
        out_of_time = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
        return "too slow" if out_of_time else "killed"
    if os.WEXITSTATUS(status) == BROKEN:
        raise RuntimeError("the tests could not be run")
    return "killed" if status else "survived"


def be_quiet() -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)


def load_instead(path: Path, tree: ast.Module) -> None:
    """Let an import of the file load this syntax tree."""
    plain = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, name: str) -> Any:
        if Path(self.path) == path:
            return compile(tree, str(path), "exec")
        return plain(self, name)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
