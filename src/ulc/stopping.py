"""How a command ends at SIGINT (Ctrl-C) and SIGTERM: soon, with one line and exit code 130 or 143.

Only the standard library is imported, so that the command can be stopped while it imports the rest.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOPPED = tuple(128 + number for number in SIGNALS)  # exit codes, as in shells
PATIENCE = 2  # seconds after which a command that cannot end is ended
LINE = "ulc: stopped; give the same command again to go on\n"
SHOW_CURSOR = "\x1b[?25h\n"  # for a terminal
DUMB = ("dumb", "unknown")  # kinds of terminals that would print this


@contextmanager
def exit_at_signals() -> Iterator[None]:
    """Context manager: SIGINT and SIGTERM raise SystemExit; one line says how to go on.

    Behind the block the process ends at once, because Python's own end can take seconds. A second
    signal, or a block that does not end in PATIENCE seconds, ends it at once, too, and so does a
    signal during an import: files are written whole or not at all. A signal that is ignored or has
    a handler already is left alone.
    """
    defaults = (signal.SIG_DFL, signal.default_int_handler)
    mine = [number for number in SIGNALS if signal.getsignal(number) in defaults]
    if threading.current_thread() is not threading.main_thread() or not mine:
        yield
        return
    before = {number: signal.signal(number, raise_exit) for number in mine}
    try:
        yield
    except SystemExit as ended:
        if ended.code in STOPPED:
            leave(int(ended.code))
        raise
    finally:
        arrived = any(signal.getsignal(number) is not raise_exit for number in before)
        if arrived and hasattr(signal, "alarm"):
            signal.alarm(0)  # it would kill Python's own end, which has no handlers
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_exit(number: int, frame: FrameType | None) -> NoReturn:
    """Raise SystemExit; from now on, another signal ends the process at once.

    During an import the process ends at once: a library may catch the exception, or die of it.
    """
    code = 128 + number
    if is_importing(frame):
        leave(code)
    for each in SIGNALS:
        signal.signal(each, lambda *_: leave(code))
    if hasattr(signal, "alarm"):  # not on Windows
        signal.signal(signal.SIGALRM, lambda *_: leave(code))
        signal.alarm(PATIENCE)
    sys.exit(code)


def is_importing(frame: FrameType | None) -> bool:
    """Whether this frame, or one that waits for it, imports a module."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def leave(code: int) -> NoReturn:
    """Say in one line how to go on, and end the process at once.

    A progress bar may have hidden the cursor, and its line may have no end.
    """
    is_terminal = os.isatty(2) and os.environ.get("TERM") not in DUMB
    line = SHOW_CURSOR + LINE if is_terminal else LINE
    try:
        os.write(2, line.encode())  # without Python's buffer, which may be in use
    finally:
        os._exit(code)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Context manager: SIGINT and SIGTERM take effect when the block ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: arrived.append(number))
        for number in SIGNALS
        if callable(signal.getsignal(number))
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if arrived:
            signal.raise_signal(arrived[0])
