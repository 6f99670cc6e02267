"""Trainings on a Ray cluster, or on this machine by Ray."""

import logging
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ulc.errors import InputError, first_line
from ulc.experiments.launched import Task
from ulc.experiments.launchers import check_device, ended_early, follow
from ulc.experiments.side_by_side import Place, Training
from ulc.storage.run_folder import RunFolder

STORE = 100_000_000  # bytes for Ray's objects on this machine; ours are small
RETRIES = 3  # how often a training is started again after its process or machine has died


@dataclass(frozen=True)
class RayLauncher:
    """Trains each run as a task of Ray; a run whose machine dies is resumed on another.

    address: of the cluster, as `ray.init` takes it; None: Ray is started on this machine
    """

    address: str | None = None

    def __call__(
        self, trainings: Sequence[Training], where: Place, at_once: int
    ) -> Generator[tuple[str, RunFolder | Exception]]:
        """Train, `at_once` at a time (see `Launcher`)."""
        if not trainings:
            return
        check_device(where, "Ray")
        ray = import_ray()
        with connected(ray, self.address, at_once * where.threads):
            threads = min(where.threads, most_cores(ray))
            options = {"num_cpus": threads, "num_gpus": gpus_of_run(ray, where.devices[0])}
            # A new process for each run, as `side_by_side` has it. Ray's own retries are off: it
            # would start a run that runs out of memory again for ever.
            start = ray.remote(max_calls=1, max_retries=0, **options)(call).remote
            yield from follow(
                trainings,
                replace(where, threads=threads),
                at_once,
                lambda task: RayJob(ray, start, task),
            )


@dataclass
class RayJob:
    """A task of Ray that is started again if its process or machine dies.

    start: the remote function
    """

    ray: Any
    start: Any
    task: Task
    deaths: int = 0
    outcome: Path | Exception | None = None
    reference: Any = field(init=False)

    def __post_init__(self) -> None:
        self.reference = self.start(self.task)

    def done(self) -> bool:
        """Whether it has ended; after a death it is started again."""
        errors = self.ray.exceptions
        if not self.ray.wait([self.reference], timeout=0)[0]:
            return False
        name = self.task.log.name
        try:
            self.outcome = self.ray.get(self.reference)
        except errors.RayTaskError as error:  # raised before the training, such as by an import
            self.outcome = RuntimeError(f"the training {name} failed: {first_line(error.cause)}")
        except errors.RayError as error:
            self.deaths += 1
            if self.deaths <= RETRIES:
                self.reference = self.start(self.task)
                return False
            how = f"{self.deaths} times, at last by {type(error).__name__} of Ray"
            self.outcome = ended_early(name, how)
        return True

    def result(self) -> Path | Exception:
        """What the task returned, or the error."""
        assert self.outcome is not None
        return self.outcome

    def cancel(self) -> None:
        """Kill the process of the task."""
        self.ray.cancel(self.reference, force=True)


def call(task: Task) -> Path | Exception:
    """Call the task, in a process of Ray."""
    return task()


def import_ray() -> Any:
    """The module; raise an InputError if it is not installed."""
    try:
        import ray
    except ImportError:
        raise InputError(
            "--launcher ray needs ray; install it with: pip install 'ulc[ray]'"
        ) from None
    return ray


@contextmanager
def connected(ray: Any, address: str | None, cores: int) -> Iterator[None]:
    """Context manager: connected to a cluster, or to a new one on this machine with these cores.

    A connection that the user's program has made is used, and stays.
    """
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to Ray's authors
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address is None:
            ray.init(
                "local",
                num_cpus=cores,
                object_store_memory=STORE,
                include_dashboard=False,
                **quiet,
            )
        else:
            ray.init(address, **quiet)
    except (OSError, ValueError, RuntimeError) as error:
        where = "ray cannot start here" if address is None else f"--address {address}"
        raise InputError(
            f"{where}: no Ray cluster answers ({first_line(error)}); give the address of a "
            "running one, or --launcher local"
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


def most_cores(ray: Any) -> int:
    """Number of cores of the largest machine of the cluster."""
    cores = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]
    return max(1, *map(int, cores))


def gpus_of_run(ray: Any, device: str) -> int:
    """GPUs that Ray reserves for each run: 1 if it may use one and the cluster has any."""
    if device == "cpu":
        return 0
    have = ray.cluster_resources().get("GPU", 0) >= 1
    if device == "cuda" and not have:
        raise InputError("--device cuda: no machine of the Ray cluster has a GPU; give cpu")
    return int(have)
