"""SIGINT and SIGTERM on real commands: they end soon, with one line, and leave no process."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from ulc.stopping import deferred_signals, exit_at_signals, raise_exit
from ulc.storage.run_folder import RunFolder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
LINE = "ulc: stopped; give the same command again to go on\n"
ENDLESS = ("--epochs", "1000000", "--out", "runs")
COMMANDS = {
    "train": ("train", "data.npz", "-a", "ce", "--quiet", *ENDLESS),
    "compare": ("train", "data.npz", "-a", "ulc", "--compare", *ENDLESS),
    "audit": ("audit", "data.npz", *ENDLESS),
    "together": ("train", "data.npz", "-a", "ce", "--quiet", "--devices", "2", *ENDLESS),
    "sweep": ("sweep", "data.npz", "--algorithms", "ce", "--seeds", "0,1,2", *ENDLESS),
}


@pytest.fixture(autouse=True)
def _data():
    rng = np.random.default_rng(0)
    np.savez("data.npz", X=rng.normal(size=(60, 4)), y=np.arange(60) % 3)


def start(command):
    """Start a command in a process group of its own, in which SIGINT is not ignored."""
    begin = (
        "import runpy, signal, sys;"
        "signal.signal(signal.SIGINT, signal.default_int_handler);"
        "sys.argv[0] = 'ulc'; runpy.run_module('ulc', run_name='__main__', alter_sys=True)"
    )
    return subprocess.Popen(
        [sys.executable, "-c", begin, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def processes_of(group):
    """Return the commands of all processes of a group that have not ended."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pgid=,stat=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split(maxsplit=2) for line in listed.splitlines()]
    return [row[-1] for row in rows if row[0] == str(group) and not row[1].startswith("Z")]


def assert_all_end(group, seconds=10):
    end = time.monotonic() + seconds
    while processes_of(group):
        assert time.monotonic() < end, processes_of(group)
        time.sleep(0.05)


def until_trained(running, count):
    """Wait until `count` trainings have begun."""
    while len(list(Path("runs").rglob("environment.json"))) < count:
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)


def assert_stopped(running, number, send):
    """Send a signal; return what the command said before its last line."""
    send(running.pid, number)
    printed, said = running.communicate(timeout=30)
    assert running.returncode == 128 + number
    assert said.endswith(LINE)
    assert "Traceback" not in said
    assert printed == ""
    assert_all_end(running.pid)
    return said.removesuffix(LINE)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_ends_with_one_line_and_no_process_is_left(name, number):
    running = start(COMMANDS[name])
    until_trained(running, 2 if name == "sweep" else 1)
    said = assert_stopped(running, number, os.kill)
    if name in ("train", "together", "sweep"):  # the others show their progress
        assert said == ""
    for path in Path("runs").glob("*/spec.toml"):
        with RunFolder(path.parent).locked():
            assert not RunFolder(path.parent).done


@pytest.mark.slow
def test_a_sweep_can_be_stopped_at_any_moment():
    """Also while it imports or starts its workers; a terminal sends SIGINT to all of them."""
    rng = random.Random(0)
    running = start(COMMANDS["sweep"])
    began = time.monotonic()
    until_trained(running, 2)
    whole = time.monotonic() - began
    assert_stopped(running, signal.SIGTERM, os.killpg)
    for number in (signal.SIGINT, signal.SIGTERM):
        for earliest in (0.3, 0.65):
            running = start(COMMANDS["sweep"])
            time.sleep(rng.uniform(earliest, earliest + 0.35) * whole)
            assert_stopped(running, number, os.killpg)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("sweep", 2), ("together", 1)])
def test_workers_end_with_a_command_that_is_killed(name, count):
    running = start(COMMANDS[name])
    until_trained(running, count)
    os.kill(running.pid, signal.SIGKILL)
    assert_all_end(running.pid)
    running.communicate()


SLOW = """
import os, time
from pathlib import Path

if os.environ.setdefault("COMMAND", str(os.getpid())) != str(os.getpid()):  # in a worker
    Path("importing").touch()
    time.sleep(120)


def job(*_):
    raise AssertionError
"""
STARTS = {
    "sweep": "run_side_by_side([spec], Path('runs'), [TrainingProgress()], prepare=slow.job)",
    "together": "call_together(slow.job, 2, 'cpu')",
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["exists", "imports"])
@pytest.mark.parametrize("name", STARTS)
def test_workers_that_import_end_with_a_command_that_is_killed(name, moment):
    """As soon as a worker exists, and while it imports what it is to do, here for minutes."""
    Path("slow.py").write_text(SLOW)
    program = f"""
import sys; sys.path.insert(0, ".")
from pathlib import Path
import slow
from ulc.config import DataSpec, RunSpec
from ulc.experiments.data_parallel import call_together
from ulc.experiments.side_by_side import run_side_by_side
from ulc.training.loop import TrainingProgress
spec = RunSpec(data=DataSpec(source="npz", path="data.npz"), algorithm="ce", epochs=1)
{STARTS[name]}
"""
    running = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    try:
        while not (
            Path("importing").exists()
            if moment == "imports"
            else any("multiprocessing-fork" in each for each in processes_of(running.pid))
        ):
            assert running.poll() is None
            time.sleep(0.01)
        running.kill()
        running.wait()
        assert_all_end(running.pid, seconds=30)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("caught", ["BaseException", "()"])
def test_a_signal_during_an_import_ends_the_command_at_once(number, caught):
    """A library may catch the exception that a signal raises, or end with a dump."""
    Path("library.py").write_text(
        f"import time\ntry:\n    print('begun', flush=True)\n    time.sleep(60)\n"
        f"except {caught}:\n    time.sleep(60)\nfinally:\n    print('caught')\n"
    )
    program = (
        "import signal, sys; sys.path.insert(0, '.');"
        "signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from ulc.stopping import exit_at_signals\n"
        "with exit_at_signals():\n    import library"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stdout.readline() == "begun\n"
    running.send_signal(number)
    printed, said = running.communicate(timeout=30)
    assert (running.returncode, printed, said) == (128 + number, "", LINE)


@pytest.mark.parametrize("cleanup", ["raise ValueError", "pass"])
def test_behind_the_block_no_alarm_is_left(cleanup):
    """The block may end otherwise: by an error of what cleans up, or because nobody minds."""
    program = (
        "import signal\n"
        "from ulc.stopping import exit_at_signals\n"
        "try:\n"
        "    with exit_at_signals():\n"
        "        try: signal.raise_signal(signal.SIGTERM)\n"
        f"        except SystemExit: {cleanup}\n"
        "except ValueError: pass\n"
        "print(signal.alarm(0))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def run_on_terminal(program):
    """Run a program whose stderr is a terminal; return its exit code and what the terminal got."""
    pty = pytest.importorskip("pty")
    outer, inner = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.DEVNULL,
        stderr=inner,
        env=os.environ | {"TERM": "xterm"},
    )
    os.close(inner)
    got = b""
    with suppress(OSError):  # the end, as Linux says it
        while piece := os.read(outer, 100_000):
            got += piece
    os.close(outer)
    return running.wait(30), got.decode().replace("\r\n", "\n")


BEGIN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, ".")
from ulc.stopping import exit_at_signals
"""
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


@pytest.mark.slow
def test_a_signal_during_an_import_below_a_progress_bar_shows_the_cursor_again():
    Path("library.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    )
    program = """
with exit_at_signals():
    from rich.console import Console
    from ulc.cli.progress import bars

    with bars(Console(stderr=True)) as progress:
        progress.start()
        import library
"""
    code, got = run_on_terminal(BEGIN + program)
    assert code == 130
    assert got.endswith("\n" + LINE)
    assert HIDE in got
    assert SHOW in got.rpartition(HIDE)[2]


DISPLAYS = {
    "bars(console(error=True))": "ProgressBar(display, 'ce', 9, set()).move(1, '')",
    "CountBar(console(error=True), 'reading')": "display(1, 9)",
    "sweep_bar(1)": "display.on_plan([])",
}


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "number"), [("start", signal.SIGINT), ("stop", signal.SIGTERM)])
@pytest.mark.parametrize("display", DISPLAYS)
def test_a_signal_while_a_display_starts_or_stops_waits_for_it(display, moment, number):
    """It arrives just after the cursor was hidden, or just before it is shown again."""
    program = f"""
with exit_at_signals():
    from rich.console import Console
    from ulc.cli.progress import CountBar, ProgressBar, bars
    from ulc.cli.screen import console
    from ulc.cli.sweep_progress import sweep_bar

    show_cursor = Console.show_cursor

    def interrupt(self, show=True):
        if show and {moment == "stop"}:
            signal.raise_signal({int(number)})
        show_cursor(self, show)
        if not show and {moment == "start"}:
            signal.raise_signal({int(number)})

    Console.show_cursor = interrupt
    with {display} as display:
        {DISPLAYS[display]}
"""
    code, got = run_on_terminal(BEGIN + program)
    assert code == 128 + number, got
    assert got.endswith("\n" + LINE)
    assert "Traceback" not in got
    assert [got.count(HIDE), got.count(SHOW)] == [1, 2]  # by the display, and by the last line


def test_a_terminal_without_cursor_controls_and_a_closed_one_get_none():
    """A stopped command has the exit code of its signal also if nobody reads its line."""
    stop = "signal.raise_signal(signal.SIGTERM)"
    close = "import os; os.close(2)\n"
    assert run_on_terminal(f"{BEGIN}{close}with exit_at_signals(): {stop}") == (143, "")
    program = f"import os; os.environ['TERM'] = 'dumb'\nwith exit_at_signals(): {stop}"
    assert run_on_terminal(BEGIN + program) == (143, LINE)


def test_a_signal_that_arrives_while_deferred_takes_effect_behind_the_block():
    arrived = []
    before = signal.signal(signal.SIGTERM, lambda number, _: arrived.append(number))
    try:
        with deferred_signals():
            signal.raise_signal(signal.SIGTERM)
            assert arrived == []
        assert arrived == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_signal_that_is_ignored_stays_ignored():
    """As for `nohup`, and for commands in the background of a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with exit_at_signals(), deferred_signals():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_behind_the_block_the_handlers_are_those_of_before():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with exit_at_signals():
        assert signal.getsignal(signal.SIGTERM) is raise_exit
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_only_the_main_thread_defers_signals():
    """Python allows it no other thread; there the block runs as it is."""
    handlers = []

    def work():
        with exit_at_signals(), deferred_signals():
            handlers.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [before]
