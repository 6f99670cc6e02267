"""Worker processes that compute features of images."""

import os
import pickle
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ulc.data.lazy.pool import end_processes, start_worker
from ulc.errors import InputError

VARIABLE = "ULC_EMBED_PROCESSES"
AHEAD = 2  # chunks for each process that are read before they are needed
Features = NDArray[np.float32]
Chunk = tuple[int, NDArray[np.uint8]]  # position of its first image, and its images
Run = Callable[[NDArray[np.uint8]], Features]


def count_processes() -> int:
    """Return the number of processes that embed images: the environment variable, else 1."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return 1
    if not text.isdigit() or int(text) < 1:
        raise InputError(f"{VARIABLE}={text}: give a whole number above 0")
    return int(text)


@dataclass(frozen=True)
class Start:
    """What a process needs to compute features; size: height and width of the network's input."""

    backbone: str
    size: int
    batch_size: int
    device: str
    threads: int


class EmbeddingPool:
    """Worker processes, each started at its first chunk; `close` ends them.

    fingerprint: of the backbone, which must be the same in every process
    """

    def __init__(self, start: Start, fingerprint: str, processes: int) -> None:
        self.start_with = start
        self.fingerprint = fingerprint
        self.processes: list[subprocess.Popen[bytes]] = []
        self.own = threading.local()  # each thread talks to a process of its own
        self.starting = threading.Lock()
        self.threads = ThreadPoolExecutor(processes)
        self.most = AHEAD * processes

    def in_order(
        self, work: Callable[[Chunk, Run], Features], chunks: Iterable[Chunk]
    ) -> Iterator[Features]:
        """Yield `work(chunk, run)` of each chunk, where `run` computes features of its images."""
        waiting: deque[Future[Features]] = deque()
        try:
            for chunk in chunks:
                waiting.append(self.threads.submit(work, chunk, self.run))
                if len(waiting) >= self.most:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            end_processes(self.processes, self.threads)

    def run(self, images: NDArray[np.uint8]) -> Features:
        """Let the process of this thread compute the features of (n, C, H, W) images."""
        process: subprocess.Popen[bytes] | None = getattr(self.own, "process", None)
        if process is None:
            process = self.own.process = self.start()
        features: Features = ask(process, images)
        return features

    def start(self) -> subprocess.Popen[bytes]:
        """Start a process; raise an InputError if its backbone differs from that of this one."""
        with self.starting:
            number = len(self.processes)
            process = start_worker("ulc.embedding.worker")
            self.processes.append(process)
        device = choose_device_of(number, self.start_with.device)
        if ask(process, replace(self.start_with, device=device)) != self.fingerprint:
            raise InputError(
                f"backbone '{self.start_with.backbone}' has other weights in another process; "
                "give it weights that do not change, or embed in one process"
            )
        return process


def choose_device_of(number: int, device: str) -> str:
    """Return the device of a process by its number: with `cuda` each has a GPU in turn."""
    return f"cuda:{number % torch.cuda.device_count()}" if device == "cuda" else device


def ask(process: subprocess.Popen[bytes], job: object) -> Any:
    """Send a job to a process and return its answer; raise an InputError if it has died."""
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("a worker process has no pipes")
    try:
        pickle.dump(job, process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
        process.stdin.flush()
        answer = pickle.load(process.stdout)
    except (OSError, EOFError, pickle.UnpicklingError):
        raise InputError(
            "a process that embeds images has died, perhaps because memory ran out; the same "
            "command goes on, with fewer processes if you say so"
        ) from None
    if isinstance(answer, InputError):
        raise answer
    return answer
