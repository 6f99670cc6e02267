"""Expectation maximisation for many two-component Gaussian mixtures at once."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Mixtures:
    """One mixture of two Gaussians per group, the component with the smaller mean first.

    weights, means, variances: (G, 2) float64; log_likelihood: (G,) mean per value at the last
    step of EM, before its update; steps: how many were taken
    """

    weights: Tensor
    means: Tensor
    variances: Tensor
    log_likelihood: Tensor
    steps: int

    def log_joint(self, values: Tensor, group: Tensor) -> Tensor:
        """(N, 2) log of weight times density, each value under its own group's mixture."""
        return log_joint(values, group, self.weights, self.means, self.variances)

    def posterior(self, values: Tensor, group: Tensor) -> Tensor:
        """(N,) probability that a value belongs to the component with the smaller mean."""
        return self.log_joint(values, group).softmax(1)[:, 0]

    def held(self, values: Tensor, group: Tensor) -> Tensor:
        """Values moved to the nearer mean where they lie outside both.

        Out there the posterior of Gaussians of unequal width can turn around.
        """
        means = self.means[group]
        return torch.minimum(torch.maximum(values, means[:, 0]), means[:, 1])


@dataclass(frozen=True)
class Start:
    """Where EM begins: (G, 2) each."""

    weights: Tensor
    means: Tensor
    variances: Tensor


def fit_mixtures(  # noqa: PLR0913 (EM has that many knobs; scikit-learn names them too)
    values: Tensor,
    group: Tensor,
    *,
    groups: int,
    start: Start | None = None,
    max_steps: int = 10,
    tolerance: float = 1e-2,
    floor: float = 5e-4,
) -> Mixtures:
    """EM with scikit-learn's updates and stopping rule, for all groups in step.

    values: (N,) float64; group: (N,) which mixture each value belongs to. `floor` is added to
    every variance. A group stops when its mean log-likelihood changes by less than `tolerance`.
    """
    sizes = torch.bincount(group, minlength=groups).to(values).clamp(min=1)
    now = start or first_split(values, group, groups=groups, floor=floor)
    weights, means, variances = now.weights, now.means, now.variances
    reached = torch.full((groups,), -math.inf, dtype=values.dtype, device=values.device)
    going = torch.ones(groups, dtype=torch.bool, device=values.device)
    steps = 0
    while steps < max_steps and bool(going.any()):
        joint = log_joint(values, group, weights, means, variances)
        total = joint.logsumexp(1)
        likelihood = sum_by(group, total, groups) / sizes
        update = maximise(values, group, (joint - total[:, None]).exp(), sizes, floor)
        chosen = going[:, None]
        weights = torch.where(chosen, update.weights, weights)
        means = torch.where(chosen, update.means, means)
        variances = torch.where(chosen, update.variances, variances)
        settled = (likelihood - reached).abs() < tolerance
        reached = torch.where(going, likelihood, reached)
        going = going & ~settled
        steps += 1
    order = means.argsort(1)
    weights, means, variances = (each.gather(1, order) for each in (weights, means, variances))
    return Mixtures(weights, means, variances, reached, steps)


def first_split(values: Tensor, group: Tensor, *, groups: int, floor: float) -> Start:
    """Two means by Lloyd's algorithm from the smallest and the largest value: no random start."""
    low = extreme_by(group, values, groups, "amin")
    high = extreme_by(group, values, groups, "amax")
    means = torch.stack([low, high], 1)
    sizes = torch.bincount(group, minlength=groups).to(values).clamp(min=1)
    for _ in range(10):
        upper = values > means.mean(1)[group]
        members = torch.stack([~upper, upper], 1).to(values)
        means = centres(values, group, members, groups)[1]
    return maximise(values, group, members, sizes, floor)


def maximise(values: Tensor, group: Tensor, members: Tensor, sizes: Tensor, floor: float) -> Start:
    """The M-step: weights, means and variances of (N, 2) memberships."""
    groups = len(sizes)
    counts, means = centres(values, group, members, groups)
    squares = (values[:, None] - means[group]).square()
    variances = sum_by(group, members * squares, groups) / counts + floor
    weights = counts / sizes[:, None]
    return Start(weights / weights.sum(1, keepdim=True), means, variances)


def centres(values: Tensor, group: Tensor, members: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """(G, 2) sizes and means of (N, 2) memberships."""
    tiny = 10 * torch.finfo(values.dtype).eps
    counts = sum_by(group, members, groups) + tiny
    return counts, sum_by(group, members * values[:, None], groups) / counts


def log_joint(
    values: Tensor, group: Tensor, weights: Tensor, means: Tensor, variances: Tensor
) -> Tensor:
    """(N, 2) log of weight times Gaussian density."""
    scale = weights.log() - 0.5 * (variances * (2 * math.pi)).log()
    squares = (values[:, None] - means[group]).square()
    return scale[group] - squares / (2 * variances)[group]


def sum_by(group: Tensor, values: Tensor, groups: int) -> Tensor:
    """Sums of (N,) or (N, M) values over each group."""
    zeros = torch.zeros(groups, *values.shape[1:], dtype=values.dtype, device=values.device)
    return zeros.index_add_(0, group, values)


def extreme_by(group: Tensor, values: Tensor, groups: int, which: str) -> Tensor:
    """Smallest or largest value of each group; zero for an empty one."""
    zeros = torch.zeros(groups, dtype=values.dtype, device=values.device)
    return zeros.scatter_reduce_(0, group, values, which, include_self=False)


def quantile_by(group: Tensor, values: Tensor, groups: int, share: float) -> Tensor:
    """(G,) the value below which `share` of each group lies, interpolated; 0 for an empty one."""
    if len(values) == 0:
        return values.new_zeros(groups)
    by_value = values.argsort()
    ordered = values[by_value[group[by_value].argsort(stable=True)]]  # by group, then by value
    sizes = torch.bincount(group, minlength=groups)
    place = share * (sizes - 1).clamp(min=0).to(values)
    first = sizes.cumsum(0) - sizes
    below = (first + place.long()).clamp(max=len(values) - 1)
    above = (first + place.ceil().long()).clamp(max=len(values) - 1)
    found = ordered[below].lerp(ordered[above], place - place.floor())
    return torch.where(sizes > 0, found, 0.0)
