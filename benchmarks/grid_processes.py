"""Trainings in processes of one thread each; one that fails does not stop the others."""

import signal
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import cast

from ulc.config import RunSpec
from ulc.errors import InputError
from ulc.experiments.side_by_side import exit_at_sigterm, ignore_sigint, receive
from ulc.storage.run_folder import RunFolder


@dataclass(frozen=True)
class Job:
    """A training and the folder of its run folder.

    validation: whether it is tested on held-out rows with their given labels, which the training
        does not learn from, in place of the test set
    """

    spec: RunSpec
    out: Path
    validation: bool = False


def train_jobs(jobs: Sequence[Job], at_once: int) -> Generator[tuple[int, RunFolder | str]]:
    """Train all jobs; yield the position of each, and its folder or the reason of its failure.

    No process is left after an error or a signal. A process whose parent was killed ends after its
    next step, and the next call resumes its training from the last checkpoint.
    """
    waiting = list(range(len(jobs)))
    working: dict[Connection, tuple[int, SpawnProcess]] = {}
    with exit_at_sigterm():
        try:
            while waiting or working:
                while waiting and len(working) < at_once:
                    place = waiting.pop(0)
                    pipe, process = start_job(jobs[place])
                    working[pipe] = place, process
                for pipe in cast("list[Connection]", wait(list(working))):
                    place, process = working[pipe]
                    result = receive_result(pipe, process, jobs[place])
                    if result is not None:
                        process.join()
                        del working[pipe]
                        yield place, result
        finally:
            for _, process in working.values():
                process.terminate()
                process.join()


def start_job(job: Job) -> tuple[Connection, SpawnProcess]:
    """Start a training in a new process; return the pipe for its messages, and the process."""
    context = get_context("spawn")  # a forked process cannot use torch's threads
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=train_job, args=(job, theirs), daemon=True)
    with ignore_sigint():
        process.start()
    theirs.close()
    return ours, process


def receive_result(pipe: Connection, process: SpawnProcess, job: Job) -> RunFolder | str | None:
    """Return the folder or the reason of a failure; None: only progress was received."""
    try:
        message = receive(pipe, process, job.spec.folder_name)
    except (InputError, RuntimeError) as error:
        return str(error)
    return RunFolder.open(message) if isinstance(message, Path) else None


def train_job(job: Job, pipe: Connection) -> None:
    """Train in the new process, and send progress and folder through the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import torch

    from ulc.experiments.progress_pipe import ProgressPipe
    from ulc.training.run import run

    torch.set_num_threads(1)
    try:
        try:
            folder = run(job.spec, job.out, device="cpu", progress=ProgressPipe(pipe))
            pipe.send(folder.path)
        except InputError as error:
            pipe.send(error)
    except BrokenPipeError:
        return  # the parent process has ended
