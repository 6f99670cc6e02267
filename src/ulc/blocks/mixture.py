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
        """(2, N) log of weight times density, each value under its own group's mixture."""
        now = Components(self.weights, self.means, self.variances)
        return expect(values, group, now).joint

    def posterior(self, values: Tensor, group: Tensor) -> Tensor:
        """(N,) probability that a value belongs to the component with the smaller mean."""
        return self.log_joint(values, group).softmax(0)[0]

    def held(self, values: Tensor, group: Tensor) -> Tensor:
        """Values moved to the nearer mean where they lie outside both.

        Out there the posterior of Gaussians of unequal width can turn around.
        """
        means = self.means[group]
        return torch.minimum(torch.maximum(values, means[:, 0]), means[:, 1])


@dataclass(frozen=True)
class Components:
    """Weights, means and variances of both components: (G, 2) each."""

    weights: Tensor
    means: Tensor
    variances: Tensor

    def where(self, chosen: Tensor, other: "Components") -> "Components":
        """These for the chosen (G,) groups, the other ones elsewhere."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Components(*(torch.where(chosen[:, None], own, its) for own, its in pairs))


def fit_mixtures(  # noqa: PLR0913 (EM has that many knobs; scikit-learn names them too)
    values: Tensor,
    group: Tensor,
    *,
    groups: int,
    start: Components | None = None,
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
    reached = torch.full((groups,), -math.inf, dtype=values.dtype, device=values.device)
    going = torch.ones(groups, dtype=torch.bool, device=values.device)
    steps = 0
    while steps < max_steps and bool(going.any()):
        expected = expect(values, group, now)
        total = torch.logaddexp(*expected.joint)
        likelihood = sum_by(group, total, groups) / sizes
        members = (expected.joint - total).exp()
        now = maximise(group, members, expected.away, now.means, sizes, floor).where(going, now)
        settled = (likelihood - reached).abs() < tolerance
        reached = torch.where(going, likelihood, reached)
        going = going & ~settled
        steps += 1
    order = now.means.argsort(1)
    weights, means, variances = (each.gather(1, order) for each in vars(now).values())
    return Mixtures(weights, means, variances, reached, steps)


def first_split(values: Tensor, group: Tensor, *, groups: int, floor: float) -> Components:
    """Two means by Lloyd's algorithm from the smallest and the largest value: no random start."""
    low = extreme_by(group, values, groups, "amin")
    high = extreme_by(group, values, groups, "amax")
    means = torch.stack([low, high], 1)
    sizes = torch.bincount(group, minlength=groups).to(values).clamp(min=1)
    for _ in range(10):
        upper = values > means.mean(1)[group]
        members = torch.stack([~upper, upper]).to(values)
        counts, sums = sum_by(group, torch.stack([members, members * values]), groups)
        means = (sums / (counts + tiny(values))).T
    away = values - told(means.T, group)
    return maximise(group, members, away, means, sizes, floor)


@dataclass(frozen=True)
class Expected:
    """The E-step, (2, N) each: log of weight times density, and how far values are from the means.

    Components come first: torch is several times faster along many values than along two.
    """

    joint: Tensor
    away: Tensor


def expect(values: Tensor, group: Tensor, now: Components) -> Expected:
    """Each (N,) value under both components of its group."""
    scale = now.weights.log() - 0.5 * (now.variances * (2 * math.pi)).log()
    table = torch.cat([scale, now.means, 0.5 / now.variances], 1).T
    scales, means, sharpness = told(table, group).chunk(3)
    away = values - means
    return Expected(torch.addcmul(scales, sharpness, away.square(), value=-1), away)


def maximise(  # noqa: PLR0913 (what the M-step is of)
    group: Tensor, members: Tensor, away: Tensor, means: Tensor, sizes: Tensor, floor: float
) -> Components:
    """The M-step of (2, N) memberships, from how far values are `away` from the (G, 2) means.

    Σ m(x − μ)² about the new means is that about the old ones less n(μ − μ_old)². The mean of a
    component that nothing belongs to stays where it was (scikit-learn's goes to 0).
    """
    weighed = members * away
    sums = sum_by(group, torch.stack([members, weighed, weighed * away]), len(sizes))
    counts, first, second = (each.T for each in sums)
    counts = counts + tiny(members)
    moved = first / counts
    variances = (second / counts - moved.square()).clamp(min=0) + floor
    weights = counts / sizes[:, None]
    return Components(weights / weights.sum(1, keepdim=True), means + moved, variances)


def told(table: Tensor, group: Tensor) -> Tensor:
    """(M, N) what an (M, G) table says of each value's group."""
    return table.gather(1, group.expand(len(table), -1))


def tiny(values: Tensor) -> float:
    """What scikit-learn adds to the size of a component, so that an empty one divides."""
    return 10 * torch.finfo(values.dtype).eps


def sum_by(group: Tensor, values: Tensor, groups: int) -> Tensor:
    """(…, N) values summed over each group: (…, G)."""
    shape = (*values.shape[:-1], groups)
    zeros = torch.zeros(shape, dtype=values.dtype, device=values.device)
    return zeros.index_add_(-1, group, values)


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
