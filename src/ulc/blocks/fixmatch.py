"""FixMatch: confident guesses on weak views become labels of strong views."""

from collections.abc import Callable

import torch
from torch import Tensor

from ulc.blocks.learner import Learner
from ulc.blocks.losses import soft_cross_entropy
from ulc.blocks.mixmatch import SemiSupervisedLoss, TargetedViews, concatenate_views
from ulc.networks.classifier import Output


def fixmatch_loss(
    learner: Learner,
    trusted: TargetedViews,
    doubtful: TargetedViews,
    confidence: float,
    log_probability: Callable[[Output], Tensor],
) -> SemiSupervisedLoss:
    """Soft cross entropy on trusted weak views; cross entropy of guesses on doubtful strong views.

    A guess counts only if its largest probability reaches `confidence`, but the mean is over all
    doubtful rows. Both parts go through the network in one pass, so they share batch statistics.

    log_probability: function from the network's output to (B, K) log-probabilities
    """
    inputs, target = concatenate_views(trusted, doubtful)
    count = len(trusted.views) * len(trusted.target)
    output = learner(inputs)
    log_p = log_probability(output)
    largest, guessed = target[count:].max(1)
    losses = -log_p[count:].gather(1, guessed[:, None]).squeeze(1)
    confident = largest >= confidence
    return SemiSupervisedLoss(
        trusted=soft_cross_entropy(log_p[:count], target[:count]),
        doubtful=torch.where(confident, losses, 0.0).mean(),
        logits=output.logits,
        sure=confident.float().mean(),
    )
