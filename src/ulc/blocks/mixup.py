"""Mixup: convex combinations of examples and of their targets."""

import torch
from torch import Tensor


def draw_lambda(alpha: float) -> float:
    """λ = max(l, 1 − l), l ~ Beta(α, α): one number a step, so the first partner dominates."""
    if alpha <= 0:
        return 1.0
    drawn = float(torch.distributions.Beta(alpha, alpha).sample())
    return max(drawn, 1 - drawn)


def blend(values: Tensor, partner: Tensor, lam: float) -> Tensor:
    """λ·values + (1 − λ)·values of the partner, row by row."""
    return lam * values + (1 - lam) * values[partner]
