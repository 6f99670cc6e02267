"""Generalisation gap: how much better networks predict labels that they have learned."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Gap:
    """A mean difference of log-likelihoods in nats, and its standard error; 0-dim tensors."""

    mean: Tensor
    error: Tensor

    def surely_below(self, bound: float) -> bool:
        """Whether the gap is two standard errors below the bound."""
        return bool(self.mean + 2 * self.error < bound)

    def surely_above(self, bound: float) -> bool:
        """Whether the gap is two standard errors above the bound."""
        return bool(self.mean - 2 * self.error > bound)


def generalisation_gap(log_likelihood: Tensor, stranger: Tensor) -> Gap:
    """How much better the networks that have learned a label predict it than the one that has not.

    The difference is taken label by label, so labels that are easy or hard for all networks do not
    blur it.

    log_likelihood: (F, M) log-probabilities of M ≥ 2 given labels by F ≥ 2 networks
    stranger: (M,) number of the network that has not learned the label
    """
    unlearned = log_likelihood.gather(0, stranger[None]).squeeze(0)
    learned = (log_likelihood.sum(0) - unlearned) / (len(log_likelihood) - 1)
    difference = learned - unlearned
    return Gap(difference.mean(), difference.std() / len(stranger) ** 0.5)


def evenly_spaced(positions: Tensor, most: int) -> Tensor:
    """At most `most` of (M,) positions, evenly spaced; all of them if there are fewer."""
    if len(positions) <= most:
        return positions
    steps = torch.arange(most, device=positions.device)
    return positions[steps * len(positions) // most]
