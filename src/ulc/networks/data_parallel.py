"""Data-parallel passes: each process computes its rows of a batch, and all get all outputs.

All processes run the same program with the same random numbers, so each has the whole batch, the
whole loss and all state of the algorithm. Only passes through a backbone are divided. Gradients are
complete in every process, wherever they are computed: the backward pass of each function here is
another one of them, so second derivatives are right, too.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Function
from torch.func import functional_call

from ulc.errors import InputError, first_line
from ulc.networks.batch_statistics import SharedBatchNorm

T = TypeVar("T")

FEWEST_ROWS = 2  # of each process; every process computes all rows of a smaller batch


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
    global _current  # noqa: PLW0603 (as the process group of torch.distributed)
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


def by_rows(module: nn.Module, inputs: Tensor) -> Tensor:
    """`module(inputs)`, of which each process computes every count-th row.

    A process that trains alone computes all rows, as do all processes for a very small batch.

    module: maps (B, …) inputs to (B, …) outputs, each row for itself except in batch norm
    """
    processes = _current
    if processes is None or len(inputs) < FEWEST_ROWS * processes.count:
        return module(inputs)
    rows = TakeRows.apply(inputs, processes)
    with own_random_numbers(processes, inputs.device), SharedBatchNorm(exchange(processes)):
        outputs = call_with_summed_gradients(module, rows, processes)
    return GatherRows.apply(outputs, len(inputs), processes)


def call_with_summed_gradients(module: nn.Module, rows: Tensor, processes: Processes) -> Tensor:
    """`module(rows)`; gradients of its weights are the sum over the rows of all processes."""
    weights = {
        name: weight for name, weight in module.named_parameters() if weight.requires_grad
    }
    if not weights or not torch.is_grad_enabled():
        return module(rows)
    shared = SumGradients.apply(processes, *weights.values())
    return functional_call(module, dict(zip(weights, shared, strict=True)), (rows,))


def exchange(processes: Processes) -> Callable[[Tensor], Tensor]:
    """A function from a (1, …) tensor of this process to the (count, …) tensors of all.

    Each process goes on to compute its own rows with them, so their gradients are summed.
    """

    def exchanged(values: Tensor) -> Tensor:
        gathered = GatherRows.apply(values, processes.count, processes)
        return SumGradients.apply(processes, gathered)[0]

    return exchanged


class TakeRows(Function):
    """Forward: this process's rows of (B, …) values. Backward: the gradients of all rows."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, processes: Processes) -> Tensor:  # noqa: D102
        ctx.total, ctx.processes = len(values), processes
        return own_rows(values, processes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # noqa: D102
        return GatherRows.apply(gradient, ctx.total, ctx.processes), None


class GatherRows(Function):
    """Forward: the (B, …) rows of all processes. Backward: the gradients of this process's rows.

    All processes compute the same with the rows, so each has their complete gradient.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, total: int, processes: Processes) -> Tensor:  # noqa: D102
        ctx.processes = processes
        return gather_rows(rows, total, processes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # noqa: D102
        return TakeRows.apply(gradient, ctx.processes), None, None


class SumGradients(Function):
    """Forward: the same tensors. Backward: their gradients, summed over all processes.

    A tensor without a gradient has none in any process.
    """

    @staticmethod
    def forward(ctx: Any, processes: Processes, *values: Tensor) -> tuple[Tensor, ...]:  # noqa: D102
        ctx.processes = processes
        ctx.set_materialize_grads(False)
        return tuple(value.view_as(value) for value in values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:  # noqa: D102
        present = [each for each in gradients if each is not None]
        summed = iter(Sum.apply(ctx.processes, *present))
        return None, *(None if each is None else next(summed) for each in gradients)


class Sum(Function):
    """Forward: the sums of tensors over all processes. Backward: the same gradients."""

    @staticmethod
    def forward(ctx: Any, processes: Processes, *values: Tensor) -> tuple[Tensor, ...]:  # noqa: D102
        ctx.processes = processes
        flat = torch.cat([value.flatten() for value in values])  # one message for all
        with connected():
            dist.all_reduce(flat)
        parts = flat.split([value.numel() for value in values])
        return tuple(part.view(value.shape).to(value) for part, value in zip(parts, values, strict=True))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:  # noqa: D102
        return None, *SumGradients.apply(ctx.processes, *gradients)


def own_rows(values: Tensor, processes: Processes) -> Tensor:
    """Every count-th row of (B, …) values; channels-last images stay channels-last."""
    rows = values[processes.rank :: processes.count]
    last = values.ndim == 4 and not values.is_contiguous()
    return rows.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


def gather_rows(rows: Tensor, total: int, processes: Processes) -> Tensor:
    """All `total` rows in their order, from every count-th row in each process."""
    most = -(-total // processes.count)
    padded = rows.new_zeros(most, *rows.shape[1:])
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in range(processes.count)]
    with connected():
        dist.all_gather(parts, padded)
    return torch.stack(parts, 1).flatten(0, 1)[:total]


@contextmanager
def own_random_numbers(processes: Processes, device: torch.device) -> Iterator[None]:
    """Context manager: a network that draws random numbers draws others in each process.

    Afterwards all processes are at the same place of the same stream again: where they were, or
    one number further if the network has drawn any.
    """
    generators = [torch.default_generator]
    if device.type == "cuda":
        generators.append(torch.cuda.default_generators[device.index or 0])
    before = [each.get_state() for each in generators]
    if processes.rank:
        seed = int(torch.randint(2**62, ())) + processes.rank
        for each in generators:
            each.manual_seed(seed)
    start = [each.get_state() for each in generators]
    yield
    drawn = [
        not torch.equal(each.get_state(), state)
        for each, state in zip(generators, start, strict=True)
    ]
    for each, state, has_drawn in zip(generators, before, drawn, strict=True):
        each.set_state(state)
        if has_drawn:
            torch.rand((), generator=each, device=each.device)


def from_first(values: T) -> T:
    """The first process's values of all tensors in a dataclass, which this process has computed too.

    Sums on a GPU can differ in their last bits from process to process. Numbers that decide what
    is computed next must not.
    """
    if _current is not None:
        for value in vars(values).values():
            if isinstance(value, Tensor):
                with connected():
                    dist.broadcast(value, 0)
    return values


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
        reason = re.sub(r"^\[[^]]*\] ", "", first_line(error))
        raise LostProcessError(
            f"another process of this training does not answer ({reason}); give the same command "
            "again to go on"
        ) from error
