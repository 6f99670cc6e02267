"""Launchers: where the trainings of a sweep run. The local one is `side_by_side`."""

import shutil
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ulc.errors import InputError
from ulc.experiments.launched import Task, read_epochs
from ulc.experiments.side_by_side import Place, Training, exit_at_sigterm
from ulc.stopping import deferred_signals
from ulc.storage.run_folder import RunFolder

NAMES = ("local", "ray", "slurm")
LOGS = "logs"  # folder in `out` for progress and tracebacks
POLL = 0.5  # seconds between two looks at all trainings
PATIENCE = 60.0  # seconds until a file of another machine is seen here


class Launcher(Protocol):
    """A callable that trains; `side_by_side.train_in_processes` is one, too."""

    def __call__(
        self, trainings: Sequence[Training], where: Place, at_once: int
    ) -> Generator[tuple[str, RunFolder | Exception]]:
        """Train, `at_once` at a time; yield name and folder or error of each at its end.

        A training that dies does not stop the others. When the generator is closed, all end.
        """
        ...


class Job(Protocol):
    """A task that was handed to Ray or SLURM."""

    def done(self) -> bool:
        """Whether it has ended."""
        ...

    def result(self) -> Path | Exception:
        """After its end, what the task returned, or an error that says how it died."""
        ...

    def cancel(self) -> None:
        """End it, and do not wait for that."""
        ...


def find_launcher(
    name: str, *, address: str | None = None, slurm: Mapping[str, str] | None = None
) -> Launcher | None:
    """The launcher of this name, None: local; raise an InputError for an option of another one.

    address: of a Ray cluster; None: Ray is started on this machine
    slurm: options of SLURM by name, see `slurm_launcher`; None: none
    """
    if name not in NAMES:
        raise InputError(f"--launcher {name}: unknown; choose {', '.join(NAMES)}")
    if address is not None and name != "ray":
        raise InputError("--address: only with --launcher ray; leave it out")
    if slurm and name != "slurm":
        raise InputError("--slurm: only with --launcher slurm; leave it out")
    if name == "ray":
        from ulc.experiments.ray_launcher import RayLauncher

        return RayLauncher(address)
    if name == "slurm":
        from ulc.experiments.slurm_launcher import SlurmLauncher

        return SlurmLauncher(slurm or {})
    return None


@dataclass
class Launched:
    """A training, the job that trains it, and the number of epochs that were reported."""

    training: Training
    task: Task
    job: Job
    reported: int = 0

    def report_epochs(self) -> None:
        """Call the progress callback for each new epoch."""
        for record in read_epochs(self.task.log):
            if record["epoch"] >= self.reported:  # a resumed training reports earlier ones again
                self.reported = record["epoch"] + 1
                self.training.progress.on_epoch(record)

    def result(self, out: Path) -> RunFolder | Exception:
        """The run folder below `out`, or the error; the log of a failed training is kept."""
        result = self.job.result()
        if isinstance(result, Exception):
            return result
        shutil.rmtree(self.task.log, ignore_errors=True)
        folder, end = RunFolder(out / result.name), time.monotonic() + PATIENCE
        while not folder.done and time.monotonic() < end:
            time.sleep(POLL)
        if folder.done:
            return folder
        return InputError(
            f"{folder.path}: trained, but not found on this machine; give an --out that all "
            "machines share"
        )


def follow(
    trainings: Sequence[Training], where: Place, at_once: int, submit: Callable[[Task], Job]
) -> Generator[tuple[str, RunFolder | Exception]]:
    """Submit the trainings, `at_once` at a time, and follow them to their ends (see `Launcher`)."""
    waiting, working = list(trainings), list[Launched]()
    with exit_at_sigterm():
        try:
            while waiting or working:
                while waiting and len(working) < at_once:
                    training = waiting.pop(0)
                    task = new_task(training, where)
                    with deferred_signals():
                        working.append(Launched(training, task, submit(task)))
                ended = [each for each in working if each.job.done()]
                for each in working:
                    each.report_epochs()
                for each in ended:
                    working.remove(each)
                    yield each.training.name, each.result(where.out)
                if not ended:
                    time.sleep(POLL)
        finally:
            with deferred_signals():
                for each in working:
                    each.job.cancel()


def new_task(training: Training, where: Place) -> Task:
    """The task of a training; the folder of its log is made, without what an earlier one left."""
    out = where.out.resolve()
    log = out / LOGS / training.name
    shutil.rmtree(log, ignore_errors=True)
    try:
        log.mkdir(parents=True)
    except OSError as error:
        raise InputError(
            f"{log}: cannot be made ({error.strerror}); choose another place with --out"
        ) from None
    return Task(training.spec, replace(where, out=out), log, Path.cwd(), tuple(sys.path))


def check_device(where: Place, launcher: str) -> None:
    """Raise an InputError for devices by number: Ray or SLURM chooses the GPU of a training."""
    if len(where.devices) > 1 or ":" in where.devices[0]:
        raise InputError(
            f"--device {','.join(where.devices)}: {launcher} gives each run its GPU; give auto, "
            "cpu or cuda"
        )


def ended_early(name: str, how: str) -> InputError:
    """The error for a training that died; how: what is known about it."""
    return InputError(f"the training {name} died ({how}); the same command resumes it")
