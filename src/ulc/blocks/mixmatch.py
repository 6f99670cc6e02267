"""Guess, sharpen, mix: the semi-supervised part of DivideMix and ULC."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ulc.blocks.learner import Learner
from ulc.blocks.losses import soft_cross_entropy
from ulc.blocks.mixup import blend, draw_lambda
from ulc.networks.classifier import Output


@dataclass(frozen=True)
class Targeted:
    """Views of some examples with what they should be: each view (B, …), target (B, K)."""

    views: tuple[Tensor, ...]
    target: Tensor


@dataclass(frozen=True)
class MixedLoss:
    """The two parts of the loss, and the clean logits of all rows.

    sure: share of the guesses that count, where not all do (FixMatch)
    """

    trusted: Tensor
    doubtful: Tensor
    logits: Tensor
    sure: Tensor | None = None


@torch.no_grad()
def guess(learners: Sequence[Learner], views: Sequence[Tensor]) -> Tensor:
    """(B, K) mean prediction of all learners on all views, each in its own mode.

    Clean logits without dropout: noise belongs to the loss.
    """
    return torch.cat([logits_of(each, views).softmax(2) for each in learners]).mean(0)


def logits_of(learner: Learner, views: Sequence[Tensor]) -> Tensor:
    """(V, B, K) logits of each view: in training each is a batch of its own for batch norm."""
    network = learner.network
    if learner.training:
        return torch.stack([network.clean_logits(view) for view in views])
    return network.clean_logits(torch.cat(list(views))).unflatten(0, (len(views), -1))


def sharpen(probability: Tensor, temperature: float) -> Tensor:
    """p^(1/T) / Σ_k p^(1/T), row by row."""
    return (probability.log() / temperature).softmax(1)


def mixmatch_loss(
    learner: Learner,
    known: Targeted,
    unknown: Targeted,
    alpha: float,
    log_probability: Callable[[Output], Tensor],
) -> MixedLoss:
    """Mix all views of both sets with partners from both, and learn from them in one pass.

    Rows whose first partner is trusted: soft cross entropy. Rows whose first partner is
    doubtful: squared error, mean over rows and classes.
    """
    inputs, target = joined(known, unknown)
    lam = draw_lambda(alpha)
    partner = torch.randperm(len(inputs), device=inputs.device)
    mixed_target = blend(target, partner, lam)
    output = learner(blend(inputs, partner, lam))
    log_p = log_probability(output)
    count = len(known.views) * len(known.target)
    known_log_p, unknown_log_p = log_p.tensor_split([count])
    return MixedLoss(
        trusted=soft_cross_entropy(known_log_p, mixed_target[:count]),
        doubtful=F.mse_loss(unknown_log_p.exp(), mixed_target[count:]),
        logits=output.logits,
    )


def joined(known: Targeted, unknown: Targeted) -> tuple[Tensor, Tensor]:
    """All views of both sets in one batch, trusted first, each row with its target."""
    targets = [known.target] * len(known.views) + [unknown.target] * len(unknown.views)
    return torch.cat([*known.views, *unknown.views]), torch.cat(targets)
