"""FixMatch: confident guesses on weak views are labels for strong views."""

from collections.abc import Callable

import torch
from torch import Tensor

from ulc.blocks.learner import Learner
from ulc.blocks.losses import soft_cross_entropy
from ulc.blocks.mixmatch import MixedLoss, Targeted, joined
from ulc.networks.classifier import Output


def fixmatch_loss(
    learner: Learner,
    known: Targeted,
    unknown: Targeted,
    confidence: float,
    log_probability: Callable[[Output], Tensor],
) -> MixedLoss:
    """Trusted: soft cross entropy on weak views. Doubtful: the guessed class on strong views.

    A guess counts where its largest probability reaches `confidence`; the mean is over all rows.
    Both parts go through the network in one pass, so they share batch statistics.
    """
    inputs, target = joined(known, unknown)
    count = len(known.views) * len(known.target)
    output = learner(inputs)
    log_p = log_probability(output)
    surest, guessed = target[count:].max(1)
    missed = -log_p[count:].gather(1, guessed[:, None]).squeeze(1)
    sure = surest >= confidence
    return MixedLoss(
        trusted=soft_cross_entropy(log_p[:count], target[:count]),
        doubtful=torch.where(sure, missed, 0.0).mean(),
        logits=output.logits,
        sure=sure.float().mean(),
    )
