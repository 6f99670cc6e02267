"""Several trainings at once, each in a process of its own with its share of the cores."""

import os
import signal
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ulc.config import RunSpec
from ulc.errors import InputError
from ulc.run_folder import RunFolder

if TYPE_CHECKING:  # a new process imports this file before it can be told not to heed Ctrl-C
    from ulc.training.trainer import Watcher


def run_side_by_side(
    specs: Sequence[RunSpec], out: Path, watchers: "Sequence[Watcher]", *, device: str = "auto"
) -> list[RunFolder]:
    """Train each spec and tell its watcher; what is done is not repeated.

    If one fails, or at Ctrl-C, all stop; another time they go on from their checkpoints.
    """
    from ulc.training.run import finished_run

    folders = [finished_run(spec, out) for spec in specs]
    cores = max(1, (os.cpu_count() or 1) // len(specs))
    context = get_context("spawn")  # a fork would inherit torch's threads in disorder
    processes = []
    listening: dict[Connection, int] = {}
    try:
        for number, spec in enumerate(specs):
            if folders[number] is None:
                ours, theirs = context.Pipe(duplex=False)
                parts = (spec, out, device, cores, theirs)
                processes.append(context.Process(target=train, args=parts, daemon=True))
                processes[-1].start()
                theirs.close()
                listening[ours] = number
        while listening:
            for ours in cast("list[Connection]", wait(list(listening))):
                number = listening[ours]
                said = heard(ours, specs[number])
                if isinstance(said, Path):
                    folders[number] = RunFolder.open(said)
                    del listening[ours]
                else:
                    event, values = said
                    getattr(watchers[number], event)(*values)
    finally:
        for process in processes:
            process.terminate()
            process.join()
    return [folder for folder in folders if folder is not None]


def heard(pipe: Connection, spec: RunSpec) -> Path | tuple[str, tuple[Any, ...]]:
    """What a training says: an event for its watcher, or at the end where its folder is."""
    try:
        said = pipe.recv()
    except EOFError:
        raise InputError(
            f"the training {spec.folder_name} was killed, perhaps for want of memory; "
            "the same command goes on with it"
        ) from None
    if isinstance(said, InputError):
        raise said
    return said


def train(spec: RunSpec, out: Path, device: str, cores: int, pipe: Connection) -> None:
    """In the new process: train, and say so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it ends it
    import torch

    from ulc.experiments.telling import Telling
    from ulc.training.run import run

    torch.set_num_threads(cores)
    try:
        pipe.send(run(spec, out, device=device, watcher=Telling(pipe)).path)
    except InputError as error:
        pipe.send(error)
    except BrokenPipeError:
        return  # nobody is listening any more
