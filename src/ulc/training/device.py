"""The device that a training runs on: choose it, make it reproducible, explain full memory."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch.nn.functional as F

from ulc.errors import InputError, first_line

MEMORY_IS_FULL = ("out of memory", "not enough memory", "can't allocate memory")


def choose_device(name: str) -> torch.device:
    """The named device, after a small computation on it.

    auto: the GPU if there is one that computes, else the CPU, with a warning if there is a GPU.
    """
    if name == "auto":
        return choose_by_trial()
    try:
        device = torch.device(name)
        try_device(device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"device '{name}' does not work here ({first_line(error)}); use cpu"
        ) from None
    return device


def choose_by_trial() -> torch.device:
    """The first GPU of CUDA if it computes, else the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    try:
        try_device(torch.device("cuda"))
    except (RuntimeError, AssertionError) as error:
        # Such as a GPU that this build of torch has no kernels for, or that is used up by others.
        message = f"the GPU does not work ({first_line(error)}); the CPU is used instead"
        warnings.warn(message, stacklevel=3)
        return torch.device("cpu")
    return torch.device("cuda")


def try_device(device: torch.device) -> None:
    """Compute the gradient of a small convolution on the device; raise torch's error if any."""
    if device.type == "cuda":
        # cuBLAS needs it for the same bits every time, before CUDA starts.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    images = torch.ones(2, 3, 8, 8, device=device, requires_grad=True)
    F.conv2d(images, torch.ones(4, 3, 3, 3, device=device)).sum().backward()
    assert images.grad is not None
    float(images.grad.sum())  # waits for the device, so that its error is raised here


def split_devices(names: str) -> list[str]:
    """The names in a list of devices such as cuda:0,cuda:1."""
    found = [each.strip() for each in names.split(",") if each.strip()]
    if not found:
        raise InputError(f"device '{names}' names no device; give one such as cpu or cuda:0")
    return found


@contextmanager
def reproducible(device: torch.device) -> Iterator[None]:
    """Context manager: on a GPU of CUDA, torch uses deterministic algorithms where it has them.

    On other devices nothing changes.
    """
    if device.type != "cuda":
        yield
        return
    cudnn, deterministic = torch.backends.cudnn, cast("Any", torch.utils.deterministic)
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    fill = deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    deterministic.fill_uninitialized_memory = False  # it finds bugs, and costs time
    try:
        with cudnn.flags(enabled=cudnn.enabled, benchmark=False, deterministic=True):
            yield
    finally:
        deterministic.fill_uninitialized_memory = fill
        torch.use_deterministic_algorithms(before, warn_only=warn_only)


@contextmanager
def memory_explained() -> Iterator[None]:
    """Context manager: if memory runs out inside, raise an InputError that says what to do."""
    try:
        yield
    except RuntimeError as error:
        text = str(error).lower()
        if not any(words in text for words in MEMORY_IS_FULL):
            raise
        raise InputError(
            f"out of memory ({first_line(error)}); give a smaller batch_size (--set "
            "batch_size=…), --set compute.accumulate=2, --set compute.precision=bfloat16, a "
            "smaller network, or --device cpu"
        ) from None
