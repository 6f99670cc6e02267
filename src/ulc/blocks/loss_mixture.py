"""From losses to the probability that a label is right."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ulc.blocks.beta_mixture import BetaMixtures, fit_beta_mixtures, single_log_likelihood
from ulc.blocks.mixture import Mixtures, extreme_by, fit_mixtures, quantile_by, sum_by


@dataclass(frozen=True)
class Belief:
    """What a noise model makes of the losses.

    clean_probability: (N,) that a label is right
    fell_back: (K,) classes judged by the mixture of all losses, their own being unfit
    one_component: (K,) classes in which nothing looks wrong, trusted throughout
    not_finite: how many losses were not finite; these labels are not believed
    """

    clean_probability: Tensor
    fell_back: Tensor
    one_component: Tensor
    not_finite: int


@dataclass(frozen=True)
class LossMixture(ABC):
    """Two components on scaled losses; the one with the smaller mean is the clean labels' own.

    per_class: a mixture for each given class (ULC) instead of one for all (DivideMix)
    monotone: a smaller loss is never less likely clean. Where the posterior of the fitted
        components turns around, it keeps its value.
    one_component_guard: a class that a single component explains as well (BIC) is clean throughout
    fewest: a class with fewer examples is judged by the mixture of all
    """

    per_class: bool = True
    monotone: bool = True
    one_component_guard: bool = False
    fewest: int = 10
    max_steps: int = 10

    @abstractmethod
    def fit(self, losses: Tensor, group: Tensor, groups: int) -> "ScaledMixtures":
        """Scale each group's losses and fit a mixture to it."""

    @torch.no_grad()
    def judge(self, losses: Tensor, given: Tensor, classes: int) -> Belief:
        """(N,) losses and (N,) given labels to what to believe of each."""
        finite = losses.isfinite()
        losses = losses.double()
        believed = torch.zeros_like(losses)
        every = torch.zeros_like(given)
        nobody = torch.zeros(classes, dtype=torch.bool, device=losses.device)
        group = given if self.per_class else every
        model = self.fit(losses[finite], group[finite], classes if self.per_class else 1)
        believed[finite] = model.clean_probability(losses[finite], group[finite])
        fell_back = ~model.fit if self.per_class else nobody
        weak = finite & fell_back[given]
        if weak.any():
            whole = self.fit(losses[finite], every[finite], 1)
            believed[weak] = whole.clean_probability(losses[weak], every[weak])
        one = model.one_component.expand(classes) & ~fell_back
        if self.one_component_guard:
            believed[finite & one[given]] = 1.0
        else:
            one = nobody
        return Belief(believed.float(), fell_back, one, int((~finite).sum()))

    def reliable(self, sizes: Tensor, span: Tensor, mixtures: Mixtures | BetaMixtures) -> Tensor:
        """(G,) which mixtures have enough examples, and two components that differ."""
        return (
            (sizes >= (self.fewest if len(sizes) > 1 else 2))
            & (span > 1e-6)
            & (mixtures.means.diff(dim=1).squeeze(1) >= 0.02)
            & (mixtures.weights.min(1).values >= 0.01)
        )


class GaussianLossMixture(LossMixture):
    """Two Gaussians on losses scaled to [0, 1]."""

    def fit(self, losses: Tensor, group: Tensor, groups: int) -> "ScaledMixtures":
        """Scale each group's losses to [0, 1] and fit a mixture to it."""
        low = extreme_by(group, losses, groups, "amin")
        span = extreme_by(group, losses, groups, "amax") - low
        sizes = torch.bincount(group, minlength=groups)
        scaled = (losses - low[group]) / span.clamp(min=1e-12)[group]
        mixtures = fit_mixtures(scaled, group, groups=groups, max_steps=self.max_steps)
        fit = self.reliable(sizes, span, mixtures)
        one = explained_by_one(scaled, group, sizes, mixtures)
        return ScaledMixtures(low, span.clamp(min=1e-12), mixtures, fit, one, self.monotone)


class BetaLossMixture(LossMixture):
    """Two Beta distributions on losses scaled by their 5th and 95th percentile (M-correction)."""

    def fit(self, losses: Tensor, group: Tensor, groups: int) -> "ScaledMixtures":
        """Scale, drop the outermost tenth of each group's losses, and fit a mixture to the rest."""
        low = quantile_by(group, losses, groups, 0.05)
        span = quantile_by(group, losses, groups, 0.95) - low
        scaled = (losses - low[group]) / span.clamp(min=1e-12)[group]
        sizes = torch.bincount(group, minlength=groups)
        kept = (scaled >= 0) & (scaled <= 1)
        scaled, group = scaled[kept], group[kept]
        mixtures = fit_beta_mixtures(scaled, group, groups=groups, max_steps=self.max_steps)
        fit = self.reliable(sizes, span, mixtures)
        single = single_log_likelihood(scaled, group, groups)
        one = simpler(single, mixtures.log_likelihood, torch.bincount(group, minlength=groups))
        return ScaledMixtures(low, span.clamp(min=1e-12), mixtures, fit, one, self.monotone)


LOSS_MIXTURES: dict[Literal["gaussian", "beta"], type[LossMixture]] = {
    "gaussian": GaussianLossMixture,
    "beta": BetaLossMixture,
}


@dataclass(frozen=True)
class ScaledMixtures:
    """Mixtures on losses scaled by group; `fit` says which of them can be relied on."""

    low: Tensor
    span: Tensor
    mixtures: Mixtures | BetaMixtures
    fit: Tensor
    one_component: Tensor
    monotone: bool

    def clean_probability(self, losses: Tensor, group: Tensor) -> Tensor:
        """(N,) posterior of the component with the smaller mean; 1 where nothing separates."""
        scaled = (losses - self.low[group]) / self.span[group]
        if self.monotone:
            scaled = self.mixtures.held(scaled, group)
        separable = self.span[group] > 1e-6
        return torch.where(separable, self.mixtures.posterior(scaled, group), 1.0)


def explained_by_one(scaled: Tensor, group: Tensor, sizes: Tensor, two: Mixtures) -> Tensor:
    """(G,) whether one Gaussian has a BIC as low as the two."""
    groups = len(sizes)
    count = sizes.clamp(min=1).double()
    mean = sum_by(group, scaled, groups) / count
    variance = sum_by(group, (scaled - mean[group]).square(), groups) / count + 5e-4
    # Σ(x−μ)²/v = n·(v − floor)/v: the variance floor must not count as fit.
    one = -0.5 * ((2 * math.pi * variance).log() + (variance - 5e-4) / variance)
    both = sum_by(group, torch.logaddexp(*two.log_joint(scaled, group)), groups) / count
    return simpler(one, both, sizes)


def simpler(one: Tensor, both: Tensor, sizes: Tensor) -> Tensor:
    """(G,) whether one component's BIC is as low as two's (2 against 5 parameters)."""
    count = sizes.clamp(min=1).double()
    return 2 * count * (both - one) <= 3 * count.log()
