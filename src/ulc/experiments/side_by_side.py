"""Several trainings at once, each in a process of its own with its share of the cores."""

import signal
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

from ulc.config import RunSpec
from ulc.errors import InputError
from ulc.experiments.child_process import start_child
from ulc.stopping import deferred_signals
from ulc.storage.run_folder import RunFolder

if TYPE_CHECKING:  # a new process imports this file before it trains
    from collections.abc import Callable

    import torch

    from ulc.data.prepare import Prepared
    from ulc.experiments.launchers import Launcher
    from ulc.training.loop import TrainingProgress

    Prepare = Callable[[RunSpec, torch.device], Prepared]

TERMINATED = 128 + signal.SIGTERM  # exit code after SIGTERM, as in shells


def run_side_by_side(  # noqa: PLR0913 (as `train_side_by_side`)
    specs: Sequence[RunSpec],
    out: Path,
    progresses: "Sequence[TrainingProgress]",
    *,
    jobs: int | None = None,
    device: str = "auto",
    prepare: "Prepare | None" = None,
    launcher: "Launcher | None" = None,
) -> list[RunFolder]:
    """Train all specs, several at once, and return their folders in the order of the specs.

    If one training fails, all of them end, and its error is raised; the next call resumes them
    from their checkpoints. See `train_side_by_side` for the parameters.
    """
    folders: dict[int, RunFolder] = {}
    training = train_side_by_side(
        specs, out, progresses, jobs=jobs, device=device, prepare=prepare, launcher=launcher
    )
    with closing(training) as finishing:
        for place, result in finishing:
            if isinstance(result, Exception):
                raise result
            folders[place] = result
    return [folders[place] for place in range(len(specs))]


def train_side_by_side(  # noqa: PLR0913 (what to train and where; the rest has defaults)
    specs: Sequence[RunSpec],
    out: Path,
    progresses: "Sequence[TrainingProgress]",
    *,
    jobs: int | None = None,
    device: str = "auto",
    prepare: "Prepare | None" = None,
    launcher: "Launcher | None" = None,
) -> Generator[tuple[int, RunFolder | Exception]]:
    """Train all specs, several at once; yield the position of each, and its folder or its error.

    A finished run is not repeated, and specs that are equal are trained once. At SIGINT or SIGTERM
    all trainings end; the next call resumes them from their checkpoints.

    progresses: a progress callback for each spec
    jobs: largest number of trainings at once; None: all
    device: name of the device, or several such as cuda:0,cuda:1, over which trainings are spread
    prepare: function of a module that prepares the data of a spec; None: as the spec says
    launcher: where trainings run; None: in processes of this machine
    """
    from ulc.training.device import split_devices
    from ulc.training.run import finished_run, resolved

    names = [resolved(spec).folder_name for spec in specs]
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    unfinished: list[Training] = []
    for name, (first, *others) in places.items():
        try:
            finished: RunFolder | InputError | None
            finished = None if prepare is not None else finished_run(specs[first], out)
        except InputError as error:  # such as a damaged file of this run
            finished = error
        if finished is None:
            unfinished.append(Training(name, specs[first], progresses[first]))
        else:
            yield from ((place, finished) for place in (first, *others))
    at_once = min(jobs or len(specs), len(places))
    threads = max(1, available_threads() // max(1, at_once))
    place_of_all = Place(out, tuple(split_devices(device)), threads, prepare)
    launch = launcher or train_in_processes
    with closing(launch(unfinished, place_of_all, at_once)) as finishing:
        for name, result in finishing:
            yield from ((place, result) for place in places[name])


@dataclass(frozen=True)
class Place:
    """Where and how trainings run: folder of the run folders, devices, threads of each training.

    devices: names; each training has one of them
    prepare: prepares the data of a spec; None: as the spec says
    """

    out: Path
    devices: tuple[str, ...]
    threads: int
    prepare: "Prepare | None" = None


@dataclass(frozen=True)
class Training:
    """A training for a process of its own; `name` is the name of its folder."""

    name: str
    spec: RunSpec
    progress: "TrainingProgress"


def train_in_processes(
    trainings: Sequence[Training], where: Place, at_once: int
) -> Generator[tuple[str, RunFolder | Exception]]:
    """Train in processes, `at_once` at a time; yield name and folder or error of each at its end.

    No process is left, also after an error or a signal.
    """
    waiting = list(trainings)
    working: dict[Connection, tuple[Training, SpawnProcess]] = {}
    used: dict[Connection, str] = {}
    with exit_at_sigterm():
        try:
            while waiting or working:
                while waiting and len(working) < at_once:
                    training = waiting.pop(0)
                    device = least_used(where.devices, [used[pipe] for pipe in working])
                    with deferred_signals():
                        pipe, process = start_training(training.spec, where, device)
                        working[pipe], used[pipe] = (training, process), device
                for pipe in cast("list[Connection]", wait(list(working))):
                    training, process = working[pipe]
                    message = receive(pipe, process, training.name)
                    if isinstance(message, tuple):
                        method, arguments = message
                        getattr(training.progress, method)(*arguments)
                        continue
                    process.join()
                    del working[pipe]
                    yield training.name, message
        finally:
            with deferred_signals():
                for _, process in working.values():
                    process.kill()  # files are written whole or not at all
                for _, process in working.values():
                    process.join()


def least_used(devices: Sequence[str], used: Sequence[str]) -> str:
    """The first of the devices that the fewest trainings use; used: device of each training."""
    return min(devices, key=used.count)


def available_threads() -> int:
    """Number of threads for all trainings together, by OMP_NUM_THREADS, torch and CPU affinity."""
    import torch

    from ulc.training.environment import usable_cores

    return min(torch.get_num_threads(), usable_cores())  # torch reads OMP_NUM_THREADS


def start_training(spec: RunSpec, where: Place, device: str) -> tuple[Connection, SpawnProcess]:
    """Start a training in a new process; return the pipe for its messages, and the process."""
    return start_child(train, spec, where, device)


@contextmanager
def exit_at_sigterm() -> Iterator[None]:
    """Context manager: SIGTERM raises SystemExit, so that `finally` can end the child processes.

    A handler that the user's program has set is not replaced.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def raise_exit(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 (a signal handler)
        sys.exit(TERMINATED)

    signal.signal(signal.SIGTERM, raise_exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def receive(
    pipe: Connection, process: SpawnProcess, name: str
) -> tuple[str, tuple[Any, ...]] | RunFolder | Exception:
    """The next message of a training: a call of its progress callback; at its end, folder or error.

    A training that failed has printed its error, unless it is a mistake of the user.
    """
    try:
        message = pipe.recv()
    except (EOFError, OSError):
        process.join()
        if process.exitcode == -signal.SIGTERM:
            sys.exit(TERMINATED)  # sent to the group of processes, or soon to this one
        if process.exitcode and process.exitcode > 0:
            return RuntimeError(f"the training {name} failed; see above")
        return InputError(
            f"the training {name} was killed, perhaps because memory ran out; "
            "the same command resumes it"
        )
    return RunFolder.open(message) if isinstance(message, Path) else message


def train(spec: RunSpec, where: Place, device: str, pipe: Connection) -> None:
    """Train in the new process, and send progress and folder through the pipe."""
    import torch

    from ulc.experiments.progress_pipe import ProgressPipe
    from ulc.training.device import choose_device
    from ulc.training.run import run

    torch.set_num_threads(where.threads)
    progress, prepare = ProgressPipe(pipe), where.prepare
    try:
        try:
            data = None if prepare is None else prepare(spec, choose_device(device))
            folder = run(spec, where.out, device=device, progress=progress, prepared=data)
            pipe.send(folder.path)
        except InputError as error:
            pipe.send(error)
    except BrokenPipeError:
        return  # the parent process has ended
