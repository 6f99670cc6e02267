"""Data-parallel passes: each process computes its rows of a batch, and all get all outputs.

All processes run the same program with the same random numbers, so each has the whole batch, the
whole loss and all state of the algorithm. Only passes through a backbone are divided. Gradients are
complete in every process, wherever they are computed: the backward pass of each function here is
another one of them, so second derivatives are right, too.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Function
from torch.func import functional_call

from ulc.networks.batch_statistics import SharedBatchNorm
from ulc.networks.processes import Processes, connected, current

FEWEST_ROWS = 2  # of each process; every process computes all rows of a smaller batch


def by_rows(module: nn.Module, inputs: Tensor) -> Tensor:
    """`module(inputs)`, of which each process computes every count-th row.

    A process that trains alone computes all rows, as do all processes for a very small batch.

    module: maps (B, …) inputs to (B, …) outputs, each row for itself except in batch norm
    """
    processes = current()
    if processes is None or len(inputs) < FEWEST_ROWS * processes.count:
        return module(inputs)
    rows = take_rows(inputs, processes)
    with own_random_numbers(processes, inputs.device), SharedBatchNorm(exchange(processes)):
        outputs = call_with_summed_gradients(module, rows, processes)
    return gather_rows(outputs, len(inputs), processes)


def call_with_summed_gradients(module: nn.Module, rows: Tensor, processes: Processes) -> Tensor:
    """`module(rows)`; gradients of its weights are the sum over the rows of all processes."""
    weights = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
    if not weights or not torch.is_grad_enabled():
        return module(rows)
    shared = sum_gradients(processes, *weights.values())
    return functional_call(module, dict(zip(weights, shared, strict=True)), (rows,))


def exchange(processes: Processes) -> Callable[[Tensor], Tensor]:
    """A function from a (1, …) tensor of this process to the (count, …) tensors of all.

    Each process goes on to compute its own rows with them, so their gradients are summed.
    """

    def exchanged(values: Tensor) -> Tensor:
        gathered = gather_rows(values, processes.count, processes)
        return sum_gradients(processes, gathered)[0]

    return exchanged


class TakeRows(Function):
    """Forward: this process's rows of (B, …) values. Backward: the gradients of all rows."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, processes: Processes) -> Tensor:  # noqa: D102
        ctx.total, ctx.processes = len(values), processes
        return own_rows(values, processes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # noqa: D102
        return gather_rows(gradient, ctx.total, ctx.processes), None


class GatherRows(Function):
    """Forward: the (B, …) rows of all processes. Backward: the gradients of this process's rows.

    All processes compute the same with the rows, so each has their complete gradient.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, total: int, processes: Processes) -> Tensor:  # noqa: D102
        ctx.processes = processes
        return collect_rows(rows, total, processes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # noqa: D102
        return take_rows(gradient, ctx.processes), None, None


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
        summed = iter(sum_values(ctx.processes, *present))
        return None, *(None if each is None else next(summed) for each in gradients)


class Sum(Function):
    """Forward: the sums of tensors over all processes. Backward: the same gradients."""

    @staticmethod
    def forward(ctx: Any, processes: Processes, *values: Tensor) -> tuple[Tensor, ...]:  # noqa: D102
        ctx.processes = processes
        flat = torch.cat([value.flatten() for value in values])  # one message for all
        with connected():
            dist.all_reduce(flat)
        parts = zip(flat.split([value.numel() for value in values]), values, strict=True)
        return tuple(part.view(value.shape).to(value) for part, value in parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:  # noqa: D102
        return None, *sum_gradients(ctx.processes, *gradients)


take_rows = cast("Callable[[Tensor, Processes], Tensor]", TakeRows.apply)
gather_rows = cast("Callable[[Tensor, int, Processes], Tensor]", GatherRows.apply)
sum_gradients = cast("Callable[..., tuple[Tensor, ...]]", SumGradients.apply)
sum_values = cast("Callable[..., tuple[Tensor, ...]]", Sum.apply)


def own_rows(values: Tensor, processes: Processes) -> Tensor:
    """Every count-th row of (B, …) values; channels-last images stay channels-last."""
    rows = values[processes.rank :: processes.count]
    last = values.ndim == 4 and not values.is_contiguous()
    return rows.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


def collect_rows(rows: Tensor, total: int, processes: Processes) -> Tensor:
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
