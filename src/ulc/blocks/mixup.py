"""Mixup: convex combinations of examples and of their targets."""

from functools import cache

import torch
from torch import Tensor

from ulc.data.rows import rows_at


def draw_share(alpha: float) -> float:
    """λ ~ Beta(α, α), one number a step; 1 without α, and nothing is drawn."""
    # What `torch.distributions.Beta` comes to, without the tenth of a millisecond around it.
    return float(torch._sample_dirichlet(concentration(alpha))[0]) if alpha > 0 else 1.0


@cache
def concentration(alpha: float) -> Tensor:
    """Of Beta(α, α) as the Dirichlet distribution that it is."""
    return torch.tensor([alpha, alpha])


def draw_lambda(alpha: float) -> float:
    """max(λ, 1 − λ): the first partner dominates."""
    drawn = draw_share(alpha)
    return max(drawn, 1 - drawn)


def draw_partner(values: Tensor, lam: float) -> Tensor:
    """(B,) whom each row is mixed with; itself, and nothing is drawn, where λ mixes nothing."""
    if lam == 1:
        return torch.arange(len(values), device=values.device)
    return torch.randperm(len(values), device=values.device)


def blend(values: Tensor, partner: Tensor, lam: float | Tensor) -> Tensor:
    """λ·values + (1 − λ)·values of the partner, row by row; λ one number or (B,)."""
    if isinstance(lam, Tensor):
        lam = lam.view(-1, *[1] * (values.ndim - 1))
    return rows_at(values, partner).lerp_(values, lam)
