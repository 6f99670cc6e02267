"""Clean probabilities of labels, from two-component mixtures on their losses."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ulc.blocks.beta_mixture import BetaMixtures, fit_beta_mixtures, one_beta_log_likelihood
from ulc.blocks.mixture import (
    GaussianMixtures,
    extreme_by_group,
    fit_gaussian_mixtures,
    quantile_by_group,
    sum_by_group,
)
from ulc.data.float64 import to_float64
from ulc.networks.processes import from_first


@dataclass(frozen=True)
class MixturePrediction:
    """Clean probabilities of N labels, and where the mixture of the class was not used.

    clean_probability: (N,) probability that a label is right
    fell_back: (K,) mask of the classes whose own mixture is not reliable; the mixture of all
        losses judges their labels
    one_component: (K,) mask of the classes whose losses one component explains as well as two;
        all their labels count as right
    not_finite: number of losses that are not finite; their clean probability is 0
    """

    clean_probability: Tensor
    fell_back: Tensor
    one_component: Tensor
    not_finite: int


@dataclass(frozen=True)
class LossMixture(ABC):
    """Two-component mixture on scaled losses; the component with the smaller mean is clean.

    per_class: one mixture for each given class (ULC); False: one mixture for all (DivideMix)
    monotone: whether a larger loss never gets a higher clean probability; where the posterior
        would rise with the loss, it stays constant
    one_component_guard: whether all labels of a class count as right if the BIC of one component
        is as low as that of two
    fewest: a class with fewer examples is judged by the mixture of all losses
    max_steps: largest number of EM steps
    zero_losses: so many losses of 0 join the fit of one mixture for all. DivideMix's public code
        has a loss of 0 for each example that imbalance removed; for experiments with that code
    """

    per_class: bool = True
    monotone: bool = True
    one_component_guard: bool = False
    fewest: int = 10
    max_steps: int = 10
    zero_losses: int = 0

    @abstractmethod
    def fit(self, losses: Tensor, group: Tensor, groups: int) -> "ScaledMixtures":
        """Scale the (N,) losses of each group, and fit a mixture to each group.

        group: (N,) number of each loss's group, below `groups`
        """

    @torch.no_grad()
    def fit_predict(self, losses: Tensor, given: Tensor, classes: int) -> MixturePrediction:
        """Fit mixtures to the (N,) losses of (N,) given labels; return clean probabilities."""
        device = losses.device
        losses = to_float64(losses)
        given = given.to(losses.device)
        finite = losses.isfinite()
        clean = torch.zeros_like(losses)
        one_group = torch.zeros_like(given)
        no_class = torch.zeros(classes, dtype=torch.bool, device=losses.device)
        group = given if self.per_class else one_group
        if self.per_class:
            fitted = self.fit(losses[finite], given[finite], classes)
        else:
            fitted = self.fit_one(losses[finite])
        clean[finite] = fitted.clean_probability(losses[finite], group[finite])
        fell_back = ~fitted.reliable if self.per_class else no_class
        unreliable = finite & fell_back[given]
        if unreliable.any():
            of_all = self.fit_one(losses[finite])
            clean[unreliable] = of_all.clean_probability(losses[unreliable], one_group[unreliable])
        one_component = no_class
        if self.one_component_guard:
            one_component = fitted.one_component.expand(classes) & ~fell_back
            clean[finite & one_component[given]] = 1.0
        clean = clean.float().to(device)
        return MixturePrediction(clean, fell_back, one_component, int((~finite).sum()))

    def fit_one(self, losses: Tensor) -> "ScaledMixtures":
        """Fit one mixture to all (N,) losses, and to `zero_losses` zeros."""
        every = torch.cat([losses, losses.new_zeros(self.zero_losses)])
        return self.fit(every, torch.zeros_like(every, dtype=torch.int64), 1)

    def find_reliable(
        self, sizes: Tensor, span: Tensor, mixtures: GaussianMixtures | BetaMixtures
    ) -> Tensor:
        """(G,) mask of the mixtures with enough examples and two components that differ.

        sizes: (G,) number of losses; span: (G,) range of the losses
        """
        return (
            (sizes >= (self.fewest if len(sizes) > 1 else 2))
            & (span > 1e-6)
            & (mixtures.means.diff(dim=1).squeeze(1) >= 0.02)
            & (mixtures.weights.min(1).values >= 0.01)
        )


class GaussianLossMixture(LossMixture):
    """Two Gaussians on losses scaled to [0, 1]."""

    def fit(self, losses: Tensor, group: Tensor, groups: int) -> "ScaledMixtures":
        """Scale the losses of each group to [0, 1] and fit a mixture to them."""
        low = extreme_by_group(group, losses, groups, "amin")
        span = extreme_by_group(group, losses, groups, "amax") - low
        sizes = torch.bincount(group, minlength=groups)
        scaled = (losses - low[group]) / span.clamp(min=1e-12)[group]
        mixtures = fit_gaussian_mixtures(scaled, group, groups=groups, max_steps=self.max_steps)
        reliable = self.find_reliable(sizes, span, mixtures)
        one = one_gaussian_suffices(scaled, group, sizes, mixtures)
        span = span.clamp(min=1e-12)
        return from_first(ScaledMixtures(low, span, mixtures, reliable, one, self.monotone))


class BetaLossMixture(LossMixture):
    """Two Beta distributions on losses scaled by their 5th and 95th percentile (M-correction)."""

    def fit(self, losses: Tensor, group: Tensor, groups: int) -> "ScaledMixtures":
        """Scale the losses of each group, and fit a mixture to those between the percentiles."""
        low = quantile_by_group(group, losses, groups, 0.05)
        span = quantile_by_group(group, losses, groups, 0.95) - low
        scaled = (losses - low[group]) / span.clamp(min=1e-12)[group]
        sizes = torch.bincount(group, minlength=groups)
        inside = (scaled >= 0) & (scaled <= 1)
        scaled, group = scaled[inside], group[inside]
        mixtures = fit_beta_mixtures(scaled, group, groups=groups, max_steps=self.max_steps)
        reliable = self.find_reliable(sizes, span, mixtures)
        one = one_component_suffices(
            one_beta_log_likelihood(scaled, group, groups),
            mixtures.log_likelihood,
            torch.bincount(group, minlength=groups),
        )
        span = span.clamp(min=1e-12)
        return from_first(ScaledMixtures(low, span, mixtures, reliable, one, self.monotone))


LOSS_MIXTURES: dict[Literal["gaussian", "beta"], type[LossMixture]] = {
    "gaussian": GaussianLossMixture,
    "beta": BetaLossMixture,
}


@dataclass(frozen=True)
class ScaledMixtures:
    """Fitted mixtures of G groups, with the scale of their losses.

    low, span: (G,) a loss is scaled to (loss − low) / span
    reliable: (G,) mask of the mixtures with two components that differ
    one_component: (G,) mask of the groups for which the BIC of one component is as low as of two
    monotone: see `LossMixture`
    """

    low: Tensor
    span: Tensor
    mixtures: GaussianMixtures | BetaMixtures
    reliable: Tensor
    one_component: Tensor
    monotone: bool

    def clean_probability(self, losses: Tensor, group: Tensor) -> Tensor:
        """(N,) posterior of the component with the smaller mean; 1 if all losses are equal."""
        scaled = (losses - self.low[group]) / self.span[group]
        if self.monotone:
            scaled = self.mixtures.clamp_to_monotone(scaled, group)
        different = self.span[group] > 1e-6
        return torch.where(different, self.mixtures.posterior(scaled, group), 1.0)


def one_gaussian_suffices(
    scaled: Tensor, group: Tensor, sizes: Tensor, two: GaussianMixtures
) -> Tensor:
    """(G,) mask of the groups for which the BIC of one Gaussian is as low as that of two."""
    groups = len(sizes)
    count = sizes.clamp(min=1).double()
    mean = sum_by_group(group, scaled, groups) / count
    variance = sum_by_group(group, (scaled - mean[group]).square(), groups) / count + 5e-4
    # Σ(x − μ)²/v = n·(v − floor)/v, because v includes the variance floor.
    one = -0.5 * ((2 * math.pi * variance).log() + (variance - 5e-4) / variance)
    both = sum_by_group(group, torch.logaddexp(*two.log_joint(scaled, group)), groups) / count
    return one_component_suffices(one, both, sizes)


def one_component_suffices(one: Tensor, both: Tensor, sizes: Tensor) -> Tensor:
    """(G,) mask of the groups for which the BIC of one component is as low as that of two.

    one, both: (G,) mean log-likelihoods with one and with two components, which have 2 and 5
        parameters
    """
    count = sizes.clamp(min=1).double()
    return 2 * count * (both - one) <= 3 * count.log()
