"""A process that works for this one, and ends with it, also while it imports.

A new process imports this file first, so it imports little: the standard library and errors.
"""

import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from ulc.importing import safe_start


def start_child(work: Callable[..., None], *arguments: Any) -> tuple[Connection, SpawnProcess]:
    """Start a process that calls work(*arguments, pipe); return our end of the pipe, and it.

    It does not react to SIGINT: this process ends it.

    work: function of a module; its last argument is the end of the pipe for its messages
    """
    context = get_context("spawn")  # a forked process cannot use torch's threads
    ours, theirs = context.Pipe(duplex=False)
    job = pickle.dumps((work, arguments))
    process = context.Process(target=begin, args=(job, theirs), daemon=True)
    with safe_start(), block_sigint():
        process.start()
    theirs.close()
    return ours, process


def begin(job: bytes, pipe: Connection) -> None:
    """Call the function in the new process.

    job: the pickled function and its arguments, whose imports take seconds: only after the first
        lines can the process end with the one that started it
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=exit_with_parent, daemon=True).start()
    work, arguments = pickle.loads(job)
    work(*arguments, pipe)


def exit_with_parent() -> None:
    """End this process as soon as the process that started it has ended."""
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


@contextmanager
def block_sigint() -> Iterator[None]:
    """Context manager: processes started inside do not react to SIGINT; this process ends them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # starting it later would unblock SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
