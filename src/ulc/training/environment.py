"""The environment of a run: threads, packages, platform."""

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import torch

from ulc.networks.processes import current
from ulc.storage.run_folder import RunFolder

PACKAGES = ("ulc", "torch", "numpy", "scikit-learn", "safetensors", "pydantic")


def describe_environment(device: torch.device) -> dict[str, Any]:
    """The content of environment.json, without the hashes of own code."""
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "device": str(device),
        "threads": torch.get_num_threads(),
        "processes": 1 if (processes := current()) is None else processes.count,
        "packages": {name: version(name) for name in PACKAGES},
        **describe_gpu(device),
    }


def describe_gpu(device: torch.device) -> dict[str, Any]:
    """Name of the GPU, versions of CUDA and cuDNN; nothing for other devices."""
    if device.type != "cuda":
        return {}
    return {
        "gpu": torch.cuda.get_device_name(device),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }


def write_environment(folder: RunFolder, current: dict[str, Any]) -> None:
    """Write environment.json; for a resumed run, keep it, and add `current` if it is another one.

    The list "resumed" has the environments in which the run was resumed, except the first one.
    """
    if not folder.has("environment.json"):
        folder.write_json("environment.json", current)
        return
    first = folder.read_json("environment.json")
    resumed = first.pop("resumed", [])
    if current not in [first, *resumed]:
        folder.write_json("environment.json", first | {"resumed": [*resumed, current]})


def choose_threads(folder: RunFolder) -> int:
    """Number of threads for a run: torch's, for a resumed run as before; never above the cores.

    With another number of threads sums are added in another order, and their last bits differ.
    """
    before = folder.read_json("environment.json") if folder.has("environment.json") else {}
    return min(int(before.get("threads", torch.get_num_threads())), usable_cores())


def usable_cores() -> int:
    """Number of cores that this process may use; all cores if the system sets no limit."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Context manager: torch uses `count` threads inside, and as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
