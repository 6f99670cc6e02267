"""Several trainings at once, each in a process of its own with its share of the cores."""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ulc.config import RunSpec
from ulc.errors import InputError
from ulc.storage.run_folder import RunFolder

if TYPE_CHECKING:  # a new process imports this file before it trains
    from ulc.training.loop import TrainingProgress


def run_side_by_side(
    specs: Sequence[RunSpec],
    out: Path,
    progresses: "Sequence[TrainingProgress]",
    *,
    device: str = "auto",
) -> list[RunFolder]:
    """Train each spec and tell its progress; what is done is not repeated, nor what is the same.

    If one fails, or at Ctrl-C, all stop; another time they go on from their checkpoints.
    """
    import torch

    from ulc.training.run import finished_run, resolved

    names = [resolved(spec).folder_name for spec in specs]
    folders: dict[str, RunFolder] = {}
    left: dict[str, int] = {}  # the place of each training that is not done
    for place, spec in enumerate(specs):
        finished = finished_run(spec, out)
        if finished is None:
            left.setdefault(names[place], place)
        else:
            folders[names[place]] = finished
    cores = max(1, torch.get_num_threads() // len(set(names)))
    working: dict[Connection, tuple[int, SpawnProcess]] = {}
    try:
        for place in left.values():
            pipe, process = start(specs[place], out, device, cores)
            working[pipe] = place, process
        while working:
            for pipe in cast("list[Connection]", wait(list(working))):
                place, process = working[pipe]
                said = heard(pipe, process, names[place])
                if isinstance(said, Path):
                    folders[names[place]] = RunFolder.open(said)
                    process.join()
                    del working[pipe]
                else:
                    event, values = said
                    getattr(progresses[place], event)(*values)
    finally:
        for _, process in working.values():
            process.terminate()
            process.join()
    return [folders[name] for name in names]


def start(spec: RunSpec, out: Path, device: str, cores: int) -> tuple[Connection, SpawnProcess]:
    """A training in a process of its own, and where it will be heard."""
    context = get_context("spawn")  # a fork would inherit torch's threads in disorder
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=train, args=(spec, out, device, cores, theirs), daemon=True)
    with ignore_sigint():
        process.start()
    theirs.close()
    return ours, process


@contextmanager
def ignore_sigint() -> Iterator[None]:
    """A process that is started inside does not heed Ctrl-C: whoever started it ends it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def heard(pipe: Connection, process: SpawnProcess, name: str) -> Path | tuple[str, tuple[Any, ...]]:
    """What a training says: an event for its progress, or at the end where its folder is."""
    try:
        said = pipe.recv()
    except (EOFError, OSError):
        process.join()
        if process.exitcode and process.exitcode > 0:
            raise RuntimeError(f"the training {name} failed; see above") from None
        raise InputError(
            f"the training {name} was killed, perhaps for want of memory; "
            "the same command goes on with it"
        ) from None
    if isinstance(said, InputError):
        raise said
    return said


def train(spec: RunSpec, out: Path, device: str, cores: int, pipe: Connection) -> None:
    """In the new process: train, and say so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import torch

    from ulc.experiments.progress_pipe import ProgressPipe
    from ulc.training.run import run

    torch.set_num_threads(cores)
    try:
        try:
            pipe.send(run(spec, out, device=device, progress=ProgressPipe(pipe)).path)
        except InputError as error:
            pipe.send(error)
    except BrokenPipeError:
        return  # nobody is listening any more
