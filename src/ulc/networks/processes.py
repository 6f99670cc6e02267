"""Processes that train together, and what they tell each other beside the passes of a network.

All run the same program with the same random numbers. The first one reads and writes the files.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ulc.errors import InputError, first_line

T = TypeVar("T")


class LostProcessError(InputError):
    """The connection to another process of the same training is lost."""


@dataclass(frozen=True)
class Processes:
    """The processes that train together; rank: number of this process; count: of all."""

    rank: int
    count: int


_current: Processes | None = None


@contextmanager
def together(processes: Processes) -> Iterator[None]:
    """Context manager: passes inside are divided among the processes.

    torch.distributed must be initialised. A program that uses it for itself is not affected.
    """
    global _current
    before, _current = _current, processes
    try:
        yield
    finally:
        _current = before


def current() -> Processes | None:
    """The processes that train together; None: this process trains alone."""
    return _current


def is_first() -> bool:
    """Whether this process writes files and prints: the first one, or one that trains alone."""
    return _current is None or _current.rank == 0


def from_first(fitted: T) -> T:
    """Overwrite all tensors of a dataclass or Module by those of the first process; return it.

    All processes have fitted the same to the same numbers. On a GPU the last bits of a sum by
    groups can differ, and must not, where the result decides what is computed next.
    """
    if _current is not None:
        for value in tensors_of(fitted):
            with connected():
                dist.broadcast(value, 0)
    return fitted


def tensors_of(content: Any) -> Iterator[Tensor]:
    """The tensors of a dataclass, also of dataclasses in it, or the buffers of a Module."""
    if isinstance(content, Tensor):
        yield content
    elif isinstance(content, nn.Module):
        yield from content.buffers()
    elif is_dataclass(content):
        for field in fields(content):
            yield from tensors_of(getattr(content, field.name))


def by_first(compute: Callable[[], T]) -> T:
    """What `compute` returns in the first process, for all processes; its InputError, too."""
    if _current is None:
        return compute()
    answer: list[Any] = [None]
    if _current.rank == 0:
        try:
            answer = [compute()]
        except InputError as error:
            answer = [error]
    with connected():
        dist.broadcast_object_list(answer, 0, device=torch.device("cpu"))
    if isinstance(answer[0], InputError):
        raise answer[0]
    result: T = answer[0]
    return result


def of_all(value: T) -> list[T]:
    """The values of all processes, by rank."""
    if _current is None:
        return [value]
    values: list[Any] = [None] * _current.count
    with connected():
        dist.all_gather_object(values, value)
    return values


@contextmanager
def connected() -> Iterator[None]:
    """Context manager: an error of torch.distributed becomes a LostProcessError."""
    try:
        yield
    except RuntimeError as error:
        # gloo puts the place in its code before the reason, and advice behind it.
        reason = re.sub(r"^\[[^]]*\] ", "", first_line(error)).split(". ")[0]
        raise LostProcessError(
            f"another process of this training does not answer ({reason}); give the same command "
            "again to go on"
        ) from error
