"""Trainings as jobs of SLURM, by submitit."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ulc.errors import InputError, first_line
from ulc.experiments.launched import Task
from ulc.experiments.launchers import LOGS, check_device, ended_early, follow
from ulc.experiments.side_by_side import Place, Training
from ulc.storage.run_folder import RunFolder

# Options of ours, and the parameter of submitit for each; the second ones are whole numbers.
TEXTS = {
    "partition": "slurm_partition", "account": "slurm_account", "qos": "slurm_qos",
    "constraint": "slurm_constraint",
}  # fmt: skip
NUMBERS = {
    "time": "timeout_min", "gpus": "gpus_per_node", "cpus": "cpus_per_task", "memory": "mem_gb",
}  # fmt: skip
DEFAULTS: dict[str, Any] = {"name": "ulc", "timeout_min": 240, "cpus_per_task": 1}
TIMEOUTS = 100  # how often a run may reach its time limit; it goes on in the next job


@dataclass(frozen=True)
class SlurmLauncher:
    """Trains each run in a job of its own.

    options: of the jobs, by name: partition, account, qos, constraint; and, as whole numbers, time
        (minutes of a job), gpus, cpus (cores, one thread each), memory (GB)
    cluster: executor of submitit; local: processes of this machine, for tests
    """

    options: Mapping[str, str] = field(default_factory=dict)
    cluster: str = "slurm"

    def __call__(
        self, trainings: Sequence[Training], where: Place, at_once: int
    ) -> Generator[tuple[str, RunFolder | Exception]]:
        """Train, `at_once` at a time (see `Launcher`)."""
        if not trainings:
            return
        check_device(where, "SLURM")
        parameters = DEFAULTS | read_options(self.options)
        executor = new_executor(self.cluster, where.out.resolve() / LOGS / "slurm", parameters)
        where = replace(where, threads=parameters["cpus_per_task"])
        yield from follow(
            trainings, where, at_once, lambda task: SlurmJob(submit(executor, task), task)
        )


@dataclass(frozen=True)
class Resumable:
    """A task that SLURM puts back into the queue at its time limit or for a more urgent job."""

    task: Task

    def __call__(self) -> Path | Exception:
        """Train, from the last checkpoint."""
        return self.task()

    def checkpoint(self) -> Any:
        """What submitit starts in the next job: the same; the run folder has the checkpoint."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


@dataclass(frozen=True)
class SlurmJob:
    """A job of submitit."""

    job: Any
    task: Task

    def done(self) -> bool:
        """Whether it has ended."""
        return bool(self.job.done())

    def result(self) -> Path | Exception:
        """What the task returned, or an error that names the log of a job that died."""
        try:
            return self.job.result()
        except RuntimeError:  # submitit's errors have texts of many lines
            how = f"job {self.job.job_id}, log in {self.job.paths.stderr}"
            return ended_early(self.task.log.name, how)

    def cancel(self) -> None:
        """Cancel the job."""
        self.job.cancel(check=False)


def read_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Parameters of submitit from our options; raise an InputError for an unknown or wrong one."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name in TEXTS:
            found[TEXTS[name]] = value
        elif name not in NUMBERS:
            known = ", ".join([*TEXTS, *NUMBERS])
            raise InputError(f"--slurm {name}: unknown; choose among {known}")
        elif not str(value).isdecimal() or int(value) < 1:
            raise InputError(f"--slurm {name}={value}: give a whole number from 1 on")
        else:
            found[NUMBERS[name]] = int(value)
    return found


def new_executor(cluster: str, folder: Path, parameters: Mapping[str, Any]) -> Any:
    """The executor of submitit, which writes to `folder`; raise an InputError if there is none."""
    try:
        import submitit
    except ImportError:
        raise InputError(
            "--launcher slurm needs submitit; install it with: pip install 'ulc[slurm]'"
        ) from None
    timeouts = {f"{cluster}_max_num_timeout": TIMEOUTS}
    try:
        executor = submitit.AutoExecutor(folder, cluster=cluster, **timeouts)
    except RuntimeError:
        raise InputError(
            "--launcher slurm: no SLURM on this machine (srun is not found); give the command on a "
            "machine of the cluster"
        ) from None
    executor.update_parameters(**parameters)
    return executor


def submit(executor: Any, task: Task) -> Any:
    """Submit the task; raise an InputError with SLURM's reason if it refuses the job."""
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    try:
        return executor.submit(Resumable(task))
    except (FailedSubmissionError, FailedJobError, OSError) as error:
        raise InputError(
            f"--launcher slurm: the job was refused ({first_line(error)}); change --slurm"
        ) from None
