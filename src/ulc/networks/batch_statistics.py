"""Batch norm with the statistics of all rows of a batch that several processes share."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

Exchange = Callable[[Tensor], Tensor]  # (1, …) tensor of this process to (count, …) of all


class SharedBatchNorm(TorchFunctionMode):
    """Context manager: batch norm in training mode uses the rows of all processes.

    So its output does not depend on the number of processes, nor on which process has which row of
    a batch of several views. It works for every layer that calls `torch.nn.functional.batch_norm`.

    exchange: gathers the statistics of all processes
    """

    def __init__(self, exchange: Exchange) -> None:
        super().__init__()
        self.exchange = exchange

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call `func`, or `shared_batch_norm` in place of batch norm in training mode."""
        options = kwargs or {}
        if func is F.batch_norm and options.get("training", False):
            options.pop("training")
            return shared_batch_norm(self.exchange, *args, **options)
        return func(*args, **options)


def shared_batch_norm(  # noqa: PLR0913 (the arguments of torch's function)
    exchange: Exchange,
    values: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Batch norm of (B, C, …) values in training mode, with the rows of all processes."""
    exact = values.to(torch.promote_types(values.dtype, torch.float32))
    axes = [0, *range(2, values.ndim)]
    variance, mean = torch.var_mean(exact, axes, correction=0)
    count = torch.full_like(mean, values.numel() / values.shape[1])
    counts, means, variances = exchange(torch.stack([count, mean, variance])[None]).unbind(1)
    total = counts.sum(0)
    mean = (counts * means).sum(0) / total
    # The variance of all rows: within the processes, and between their means.
    variance = (counts * (variances + (means - mean).square())).sum(0) / total
    with torch.no_grad():
        if running_mean is not None:
            running_mean.lerp_(mean.to(running_mean), momentum)
        if running_var is not None:
            running_var.lerp_((variance * total / (total - 1)).to(running_var), momentum)
    scale = (variance + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    shape = [-1, *[1] * (values.ndim - 2)]
    return torch.addcmul(shift.view(shape), exact, scale.view(shape)).to(values.dtype)
