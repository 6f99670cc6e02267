"""Guess, sharpen, mix: the semi-supervised part of DivideMix and ULC."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ulc.blocks.learner import Learner
from ulc.blocks.losses import soft_cross_entropy
from ulc.blocks.mixup import blend, draw_dominant_lambda
from ulc.networks.classifier import Output


@dataclass(frozen=True)
class TargetedViews:
    """Views of the same examples, each (B, …), and their (B, K) targets."""

    views: tuple[Tensor, ...]
    target: Tensor


@dataclass(frozen=True)
class SemiSupervisedLoss:
    """Mean losses of trusted and of doubtful rows, and the logits of all rows, trusted first.

    The logits are those before logit noise is added.


    sure: share of the guesses that are confident enough to count; None: all count (MixMatch)
    """

    trusted: Tensor
    doubtful: Tensor
    logits: Tensor
    sure: Tensor | None = None


@torch.no_grad()
def guess(learners: Sequence[Learner], views: Sequence[Tensor]) -> Tensor:
    """(B, K) mean prediction of all learners on all views, without dropout and logit noise.

    Each learner stays in its training or evaluation mode.
    """
    return torch.cat([view_logits(each, views).softmax(2) for each in learners]).mean(0)


def view_logits(learner: Learner, views: Sequence[Tensor]) -> Tensor:
    """(V, B, K) logits of each view; in training mode each view has its own batch statistics."""
    network = learner.network
    if learner.training:
        return torch.stack([network.clean_logits(view) for view in views])
    return network.clean_logits(torch.cat(list(views))).unflatten(0, (len(views), -1))


def sharpen(probability: Tensor, temperature: float) -> Tensor:
    """Sharpen (B, K) probabilities with temperature T: p^(1/T) / Σ_k p^(1/T) in each row."""
    return (probability.log() / temperature).softmax(1)


def mixmatch_loss(
    learner: Learner,
    trusted: TargetedViews,
    doubtful: TargetedViews,
    alpha: float,
    log_probability: Callable[[Output], Tensor],
) -> SemiSupervisedLoss:
    """MixMatch (ULC paper, Eq. 10): loss of all views, each mixed with a random one of either set.

    Rows in which a trusted view has the larger share: soft cross entropy. Rows in which a doubtful
    view has it: squared error, mean over rows and classes. All rows go through the network in one
    pass.

    alpha: of mixup; log_probability: function from the network's output to (B, K)
        log-probabilities
    """
    inputs, target = concatenate_views(trusted, doubtful)
    lam = draw_dominant_lambda(alpha)
    partner = torch.randperm(len(inputs), device=inputs.device)
    mixed_target = blend(target, partner, lam)
    output = learner(blend(inputs, partner, lam))
    log_p = log_probability(output)
    count = len(trusted.views) * len(trusted.target)
    trusted_log_p, doubtful_log_p = log_p.tensor_split([count])
    return SemiSupervisedLoss(
        trusted=soft_cross_entropy(trusted_log_p, mixed_target[:count]),
        doubtful=F.mse_loss(doubtful_log_p.exp(), mixed_target[count:]),
        logits=output.logits,
    )


def concatenate_views(trusted: TargetedViews, doubtful: TargetedViews) -> tuple[Tensor, Tensor]:
    """All views of both sets in one batch, trusted rows first, and the target of each row."""
    targets = [trusted.target] * len(trusted.views) + [doubtful.target] * len(doubtful.views)
    return torch.cat([*trusted.views, *doubtful.views]), torch.cat(targets)
