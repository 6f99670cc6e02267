"""Losses on logits and log-probabilities."""

import math

from torch import Tensor


def soft_cross_entropy(log_probability: Tensor, target: Tensor) -> Tensor:
    """Mean over the batch of −Σ_k target·log p, from (B, K) log-probabilities and targets."""
    return (target * log_probability).sum() / -len(target)


def negative_entropy(logits: Tensor) -> Tensor:
    """Mean over the batch of Σ_k p·log p: a confidence penalty (warm-up of DivideMix)."""
    log_probability = logits.log_softmax(1)
    return (log_probability.exp() * log_probability).sum(1).mean()


def kl_divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Mean over the batch of KL(p ‖ q), both (B, K) log-probabilities."""
    return (log_p.exp() * (log_p - log_q)).sum(1).mean()


def early_learning_penalty(logits: Tensor, remembered: Tensor) -> Tensor:
    """Mean over the batch of log(1 − Σ_k q·p), with prediction p and (B, K) memory q (ELR).

    The more p agrees with q, the lower it is.
    """
    probability = logits.softmax(1).clamp(1e-4, 1 - 1e-4)
    return (1 - (remembered * probability).sum(1)).log().mean()


def prior_penalty(logits: Tensor) -> Tensor:
    """KL(uniform ‖ mean prediction of the batch), against one class for all (ULC paper, Eq. 2)."""
    rows, classes = logits.shape
    log_mean = logits.log_softmax(1).logsumexp(0) - math.log(rows)
    return -math.log(classes) - log_mean.mean()
