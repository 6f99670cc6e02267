"""Trainings in processes of one thread each; one that fails does not stop the others."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import cast

from ulc.config import RunSpec
from ulc.errors import InputError
from ulc.experiments.child_process import start_child
from ulc.experiments.side_by_side import exit_at_sigterm, receive
from ulc.storage.run_folder import RunFolder


@dataclass(frozen=True)
class Job:
    """A training and the folder of its run folder.

    validation: whether the test set is replaced by held-out training rows with given labels
    """

    spec: RunSpec
    out: Path
    validation: bool = False


def train_jobs(jobs: Sequence[Job], at_once: int) -> Generator[tuple[int, RunFolder | str]]:
    """Train all jobs; yield the position of each, and its folder or the reason of its failure.

    No process is left after an error or a signal, or if this process is killed. The next call
    resumes their trainings from the last checkpoints.
    """
    waiting = list(range(len(jobs)))
    working: dict[Connection, tuple[int, SpawnProcess]] = {}
    with exit_at_sigterm():
        try:
            while waiting or working:
                while waiting and len(working) < at_once:
                    place = waiting.pop(0)
                    pipe, process = start_child(train_job, jobs[place])
                    working[pipe] = place, process
                for pipe in cast("list[Connection]", wait(list(working))):
                    place, process = working[pipe]
                    result = receive_result(pipe, process, jobs[place])
                    process.join()
                    del working[pipe]
                    yield place, result
        finally:
            for _, process in working.values():
                process.terminate()
                process.join()


def receive_result(pipe: Connection, process: SpawnProcess, job: Job) -> RunFolder | str:
    """Return the folder of a finished training, or the reason of its failure."""
    result = receive(pipe, process, job.spec.folder_name)
    return result if isinstance(result, RunFolder) else str(result)


def train_job(job: Job, pipe: Connection) -> None:
    """Train in the new process, and send the folder or an error through the pipe."""
    import torch

    from ulc.experiments.validation import prepare_validation
    from ulc.training.run import run

    torch.set_num_threads(1)
    try:
        prepared = prepare_validation(job.spec) if job.validation else None
        pipe.send(run(job.spec, job.out, device="cpu", prepared=prepared).path)
    except InputError as error:
        pipe.send(error)
