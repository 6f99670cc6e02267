"""Mean softmax of logits with Gaussian noise, in log space, in pieces that fit into a cache."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CACHED = 2**18  # numbers in a piece on a CPU: 1 MiB


def mean_noisy_log_softmax(logits: Tensor, std: Tensor, normal: Tensor) -> Tensor:
    """(K, B) log (1/T)Σ_t softmax(logits + std·normal_t), over K, with gradients of both inputs.

    logits, std: (K, B), examples are columns; normal: (T, K, B) standard normal numbers

    With many classes, tensors of T draws are much larger than a processor's cache, so that each
    operation waits for the memory. Here all operations on one piece follow each other.
    """
    mean: Tensor = NoisyLogSoftmax.apply(logits, std, normal)  # type: ignore[no-untyped-call]
    return mean


class NoisyLogSoftmax(torch.autograd.Function):
    """Forward and backward pass of `mean_noisy_log_softmax`."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, std: Tensor, normal: Tensor) -> Tensor:
        """The mean; saved are the log-probabilities of all draws."""
        draws = torch.cat(
            [torch.addcmul(logits, std, each).log_softmax(1) for each in split_draws(normal)]
        )
        total = log_sum_of_draws(draws)
        ctx.save_for_backward(normal, draws, total)
        return total - math.log(len(normal))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        """Gradients of logits and std.

        That of draw t is g·w_t − p_t·Σ_k g·w_t, with p_t its softmax and w_t = p_t / Σ_t p_t.
        """
        normal, draws, total = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        of_logits, of_std = torch.zeros_like(gradient), torch.zeros_like(gradient)
        for noise, log_p in zip(split_draws(normal), split_draws(draws), strict=True):
            weighted = (log_p - total).exp_().mul_(gradient)
            weighted -= log_p.exp().mul_(weighted.sum(1, keepdim=True))
            of_logits += weighted.sum(0)
            of_std += weighted.mul_(noise).sum(0)
        return of_logits, of_std, None


def split_draws(values: Tensor) -> tuple[Tensor, ...]:
    """(T, K, B) values in pieces of one or several draws; all together on a GPU."""
    if values.device.type != "cpu":
        return (values,)
    return values.split(max(1, CACHED // math.prod(values.shape[1:])))


def log_sum_of_draws(log_probability: Tensor) -> Tensor:
    """(K, B) logsumexp of (T, K, B) log-probabilities over the draws."""
    if len(log_probability) == 1:
        return log_probability[0]
    largest = log_probability.amax(0)
    total = torch.zeros_like(largest)
    for each in split_draws(log_probability):
        total += (each - largest).exp_().sum(0)
    return total.log_().add_(largest)
