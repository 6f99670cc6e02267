"""EM with moment matching for many two-component Beta mixtures at once (M-correction).

Moment matching does not maximise the likelihood, and the fit can degenerate. A group stops when a
step would lower its likelihood, and `CONCENTRATION` bounds how narrow or flat a component may be.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ulc.blocks.mixture import sum_by_group

INSIDE = 1e-3  # smallest distance of a value to 0 and 1, where densities may be infinite
CONCENTRATION = (1e-2, 1e4)  # smallest and largest α + β of a component


@dataclass(frozen=True)
class BetaMixtures:
    """One mixture of two Beta distributions per group, the component with the smaller mean first.

    weights, alphas, betas: (G, 2) float64; log_likelihood: (G,) mean over the values of a group
    steps: number of EM steps
    """

    weights: Tensor
    alphas: Tensor
    betas: Tensor
    log_likelihood: Tensor
    steps: int

    @property
    def means(self) -> Tensor:
        """(G, 2) mean of each component."""
        return self.alphas / (self.alphas + self.betas)

    def log_joint(self, values: Tensor, group: Tensor) -> Tensor:
        """(N, 2) log of (weight · density) of both components of each value's group."""
        return log_joint(values, group, self.weights, self.alphas, self.betas)

    def posterior(self, values: Tensor, group: Tensor) -> Tensor:
        """(N,) probability that a value belongs to the component with the smaller mean."""
        return self.log_joint(values, group).softmax(1)[:, 0]

    def clamp_to_monotone(self, values: Tensor, group: Tensor) -> Tensor:
        """Clamp values to the range in which the posterior is monotone.

        With Δ the upper component minus the lower one, the log-odds of the upper component have
        slope Δα/x − Δβ/(1 − x). It is zero in at most one place, Δα/(Δα + Δβ): a peak where both
        differences are positive, a trough where both are negative. Otherwise the
        posterior is monotone everywhere. The authors clamp at the peak only.
        """
        more_a, more_b = self.alphas.diff(dim=1).squeeze(1), self.betas.diff(dim=1).squeeze(1)
        turn = more_a / (more_a + more_b)
        peak = torch.where((more_a > 0) & (more_b > 0), turn, 1.0)
        trough = torch.where((more_a < 0) & (more_b < 0), turn, 0.0)
        return torch.minimum(torch.maximum(values, trough[group]), peak[group])


def fit_beta_mixtures(
    values: Tensor, group: Tensor, *, groups: int, max_steps: int = 10
) -> BetaMixtures:
    """Fit a mixture to each group by EM.

    EM starts from Beta(1, 2) and Beta(2, 1) with equal weights, as in the authors' code.

    values: (N,) float64 in [0, 1]; group: (N,) number of each value's group, below `groups`
    """
    start = torch.tensor([[1.0, 2.0]], dtype=values.dtype, device=values.device)
    alphas, betas = start.expand(groups, 2), start.flip(1).expand(groups, 2)
    weights = torch.full_like(alphas, 0.5)
    sizes = torch.bincount(group, minlength=groups).to(values).clamp(min=1)
    joint = log_joint(values, group, weights, alphas, betas)
    log_likelihood = sum_by_group(group, joint.logsumexp(1), groups) / sizes
    running = torch.ones(groups, dtype=torch.bool, device=values.device)
    steps = 0
    while steps < max_steps and bool(running.any()):
        update = match_moments(values, group, joint.softmax(1), sizes)
        new_joint = log_joint(values, group, *update)
        new_log_likelihood = sum_by_group(group, new_joint.logsumexp(1), groups) / sizes
        running = running & (new_log_likelihood >= log_likelihood)
        accepted = running[:, None]
        weights, alphas, betas = (
            torch.where(accepted, new, old)
            for new, old in zip(update, (weights, alphas, betas), strict=True)
        )
        joint = torch.where(accepted[group], new_joint, joint)
        log_likelihood = torch.where(running, new_log_likelihood, log_likelihood)
        steps += 1
    order = (alphas / (alphas + betas)).argsort(1)
    weights, alphas, betas = (each.gather(1, order) for each in (weights, alphas, betas))
    return BetaMixtures(weights, alphas, betas, log_likelihood, steps)


def match_moments(
    values: Tensor, group: Tensor, responsibilities: Tensor, sizes: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(G, M) weights, α and β of M components in each group, from (N, M) responsibilities.

    sizes: (G,) number of values in each group

    A component of mean m and variance v has α + β = m(1 − m)/v − 1.
    """
    values = clamp_inside(values)
    groups = len(sizes)
    counts = sum_by_group(group, responsibilities.T, groups).T + 1e-12
    means = clamp_inside(sum_by_group(group, responsibilities.T * values, groups).T / counts)
    squares = (values[:, None] - means[group]).square()
    variances = sum_by_group(group, (responsibilities * squares).T, groups).T / counts
    concentration = (means * (1 - means) / variances.clamp(min=1e-12) - 1).clamp(*CONCENTRATION)
    weights = counts / sizes[:, None]
    return (
        weights / weights.sum(1, keepdim=True),
        means * concentration,
        (1 - means) * concentration,
    )


def one_beta_log_likelihood(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """(G,) mean log-likelihood of a single Beta distribution, fitted to each group."""
    sizes = torch.bincount(group, minlength=groups).to(values).clamp(min=1)
    one = match_moments(values, group, torch.ones_like(values)[:, None], sizes)
    return sum_by_group(group, log_joint(values, group, *one).squeeze(1), groups) / sizes


def log_joint(
    values: Tensor, group: Tensor, weights: Tensor, alphas: Tensor, betas: Tensor
) -> Tensor:
    """(N, M) log of (weight · Beta density) of the M components of each value's group."""
    values = clamp_inside(values)[:, None]
    scale = (
        weights.log() + torch.lgamma(alphas + betas) - torch.lgamma(alphas) - torch.lgamma(betas)
    )
    return (
        scale[group] + (alphas - 1)[group] * values.log() + (betas - 1)[group] * (-values).log1p()
    )


def clamp_inside(values: Tensor) -> Tensor:
    """Clamp values to [`INSIDE`, 1 − `INSIDE`]."""
    return values.clamp(INSIDE, 1 - INSIDE)
