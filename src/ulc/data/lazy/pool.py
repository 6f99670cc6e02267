"""Worker processes that decode images."""

import os
import pickle
import subprocess
import sys
import threading
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ulc.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ulc.data.sources.pictures import Picture, Size

    Process = subprocess.Popen[bytes]

VARIABLE = "ULC_IMAGE_WORKERS"
MOST = 8  # worker processes by default
Decoded = tuple[NDArray[np.uint8], dict[int, str]]  # (B, H, W, 3) pixels, reasons of broken ones


def count_workers() -> int:
    """Return the number of worker processes: the environment variable, else one for each core."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        usable = getattr(os, "sched_getaffinity", None)
        return min(len(usable(0)) if usable else os.cpu_count() or 1, MOST)
    if not text.isdigit():
        raise InputError(f"{VARIABLE}={text}: give a whole number; 0: no worker processes")
    return int(text)


class DecodingPool:
    """Worker processes, each started at its first job and ended with this object.

    They are plain subprocesses, not those of `multiprocessing`, because these would import the
    user's main program, and the processes of a sweep may not start them.

    workers: their number; 0: this process decodes
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.processes: list[Process] = []
        self.own = threading.local()  # each thread talks to a process of its own
        self.threads = ThreadPoolExecutor(workers) if workers else None
        self.end = weakref.finalize(self, end_processes, self.processes, self.threads)

    def submit(self, pictures: "Sequence[Picture]", size: "Size") -> "Future[Decoded]":
        """Start to decode images at `size`."""
        if self.threads is not None:
            return self.threads.submit(self.ask_worker, pictures, size)
        from ulc.data.sources.pictures import decode_pictures  # Pillow imports slowly

        done: Future[Decoded] = Future()
        done.set_result(decode_pictures(pictures, size))
        return done

    def ask_worker(self, pictures: "Sequence[Picture]", size: "Size") -> Decoded:
        """Let the process of this thread decode images; raise an InputError if it has died."""
        process: Process | None = getattr(self.own, "process", None)
        if process is None:
            process = self.own.process = start_worker("ulc.data.lazy.worker")
            self.processes.append(process)
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a worker process has no pipes")
        pixels = np.empty((len(pictures), size[1], size[0], 3), np.uint8)
        try:
            pickle.dump((pictures, size), process.stdin)
            process.stdin.flush()
            broken = pickle.load(process.stdout)
            whole = process.stdout.readinto(pixels.data.cast("B")) == pixels.nbytes  # type: ignore[attr-defined]
        except (OSError, EOFError, pickle.UnpicklingError):
            whole = False
        if not whole:
            raise InputError(
                "a process that decodes images has died, perhaps because memory ran out; the same "
                f"command resumes the run, with fewer processes if {VARIABLE} says so"
            )
        return pixels, broken


def start_worker(module: str) -> "Process":
    """Start a process that runs `main` of a module, with the import path of this one.

    It does not react to SIGINT; this process ends it.
    """
    ignore = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    code = f"import sys; sys.path[:] = {sys.path!r}; {ignore}; from {module} import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def end_processes(processes: "list[Process]", threads: ThreadPoolExecutor | None) -> None:
    """End the processes, which have nothing to save."""
    if threads is not None:
        threads.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.kill()
        process.communicate()
