"""Run several variants over several seeds, a few at a time; what is done is not repeated."""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import torch

from ulc.config import RunSpec
from ulc.storage.run_folder import RunFolder
from ulc.training.run import run

Sweep = Mapping[str, Sequence[RunSpec]]


def run_sweep(
    sweep: Sweep, out: Path, *, jobs: int = 1, device: str = "auto"
) -> Iterator[tuple[str, RunFolder]]:
    """Each variant's runs as they end; `jobs` of them at once share the machine's cores."""
    threads = max(1, (os.cpu_count() or 1) // jobs)
    # A forked process would inherit torch's thread pool in an unusable state.
    with ProcessPoolExecutor(jobs, get_context("spawn"), torch.set_num_threads, (threads,)) as pool:
        waiting = {
            pool.submit(run_path, spec, out, device): name
            for name, specs in sweep.items()
            for spec in specs
        }
        for ended in as_completed(waiting):
            yield waiting[ended], RunFolder.open(ended.result())


def run_path(spec: RunSpec, out: Path, device: str) -> Path:
    """Run one spec; its folder's path, which travels between processes."""
    return run(spec, out, device=device).path
