"""One training in several processes of this machine, which share the rows of each batch."""

from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ulc.errors import InputError
from ulc.experiments.child_process import start_child
from ulc.experiments.side_by_side import available_threads, exit_at_sigterm
from ulc.stopping import deferred_signals
from ulc.storage.run_folder import RunFolder

if TYPE_CHECKING:  # a new process imports this file before it trains
    from ulc.config import RunSpec
    from ulc.training.loop import TrainingProgress
    from ulc.training.processes import Place

PATIENCE = 2.0  # seconds to wait for what a process says that others have lost
ENDS = ("end", "lost", "error")  # last messages of a process; others are calls of its progress

Job = Callable[[str, "TrainingProgress"], Any]  # of device and progress callback


def train_together(
    spec: "RunSpec",
    out: Path,
    count: int,
    *,
    device: str,
    progress: "TrainingProgress | None" = None,
) -> RunFolder:
    """Train the spec in `count` processes; see `ulc.training.run.run`."""
    from ulc.training.run import finished_run

    finished = finished_run(spec, out)
    if finished is not None:
        return finished
    return RunFolder.open(call_together(partial(train_job, spec, out), count, device, progress)[0])


def resume_together(
    path: Path, count: int, *, device: str, progress: "TrainingProgress"
) -> RunFolder:
    """Train the stopped run in the folder `path` to its end in `count` processes."""
    if RunFolder.open(path).done:
        return RunFolder.open(resume_job(path, device, progress))
    return RunFolder.open(call_together(partial(resume_job, path), count, device, progress)[0])


def train_job(spec: "RunSpec", out: Path, device: str, progress: "TrainingProgress") -> Path:
    """Train in one of the processes; return the path of the folder."""
    from ulc.training.run import run

    return run(spec, out, device=device, progress=progress).path


def resume_job(path: Path, device: str, progress: "TrainingProgress") -> Path:
    """Resume in one of the processes; return the path of the folder."""
    from ulc.training.run import resume

    return resume(path, device=device, progress=progress).path


def call_together(
    job: Job, count: int, device: str, progress: "TrainingProgress | None" = None
) -> list[Any]:
    """Call `job` in `count` processes that train together; return its results by rank.

    If a process fails or is killed, all end, and the error tells why. No process is left.

    job: function of the device of a process and a progress callback; it can be pickled, and so can
        its result, which holds no tensors
    progress: gets the calls of the first process; None: nothing is called
    """
    from ulc.training.processes import Place, open_store

    store = open_store()
    threads = max(1, available_threads() // count)
    working: dict[Connection, SpawnProcess] = {}
    with exit_at_sigterm():
        try:
            with deferred_signals():
                for rank in range(count):
                    place = Place(rank, count, rank, store.port)
                    pipe, process = start_child(work, job, place, device, threads)
                    working[pipe] = process
            return Crew(list(working.items()), progress).follow()
        finally:
            with deferred_signals():
                for process in working.values():
                    process.kill()  # files are written whole or not at all
                for process in working.values():
                    process.join()


class Crew:
    """The processes of a training, with the pipes for their messages, by rank.

    progress: gets the progress of the training; None: nothing is called
    """

    def __init__(
        self,
        members: Sequence[tuple[Connection, SpawnProcess]],
        progress: "TrainingProgress | None",
    ) -> None:
        self.members = members
        self.progress = progress
        self.waiting = {pipe: rank for rank, (pipe, _) in enumerate(members)}
        self.results: dict[int, Any] = {}
        self.lost: InputError | None = None

    def follow(self) -> list[Any]:
        """Pass on progress until all processes have ended; return their results by rank."""
        while self.waiting:
            # A process that has lost another one knows less than that other one.
            timeout = None if self.lost is None else PATIENCE
            ready = cast("list[Connection]", wait(list(self.waiting), timeout))
            if not ready:
                break
            for pipe in ready:
                self.take_message(pipe)
        if self.lost is not None:
            raise self.lost
        return [self.results[rank] for rank in range(len(self.members))]

    def take_message(self, pipe: Connection) -> None:
        """Act on the next message of a process: a call of its progress, or how it has ended."""
        rank = self.waiting[pipe]
        try:
            method, arguments = pipe.recv()
        except (EOFError, OSError):
            raise cause_of_death(self.members[rank][1], rank, len(self.members)) from None
        if method in ENDS:
            del self.waiting[pipe]
        if method == "error":
            raise arguments[0]
        if method == "lost":
            (self.lost,) = arguments
        elif method == "end":
            (self.results[rank],) = arguments
        elif self.progress is not None:
            getattr(self.progress, method)(*arguments)


def cause_of_death(process: SpawnProcess, rank: int, count: int) -> Exception:
    """The error for a training of which a process has ended without a message."""
    process.join(PATIENCE)
    if process.exitcode is not None and process.exitcode >= 0:
        return RuntimeError(f"process {rank} of {count} failed; see above")
    return InputError(
        f"process {rank} of the {count} that train together was killed, perhaps because memory ran "
        "out; the same command goes on from the last checkpoint, also with another --devices"
    )


def work(job: Job, place: "Place", device: str, threads: int, pipe: Connection) -> None:
    """Call the job in the new process, and send progress and result through the pipe."""
    import torch

    from ulc.experiments.progress_pipe import NotedProgressPipe
    from ulc.networks.processes import LostProcessError
    from ulc.training.loop import TrainingProgress
    from ulc.training.processes import joined

    torch.set_num_threads(threads)
    progress = NotedProgressPipe(pipe) if place.rank == 0 else TrainingProgress()
    try:
        try:
            with joined(place, device) as own:
                result = job(own, progress)
            pipe.send(("end", (result,)))
        except LostProcessError as error:
            pipe.send(("lost", (error,)))
        except InputError as error:
            pipe.send(("error", (error,)))
    except BrokenPipeError:
        return  # the parent process has ended
