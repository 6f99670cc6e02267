"""EM (expectation maximisation) for many two-component Gaussian mixtures at once."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class GaussianMixtures:
    """One mixture of two Gaussians per group, the component with the smaller mean first.

    weights, means, variances: (G, 2) float64
    log_likelihood: (G,) mean over the values of a group, before the last update
    steps: number of EM steps
    """

    weights: Tensor
    means: Tensor
    variances: Tensor
    log_likelihood: Tensor
    steps: int

    def log_joint(self, values: Tensor, group: Tensor) -> Tensor:
        """(2, N) log of (weight · density) of both components of each value's group."""
        components = Components(self.weights, self.means, self.variances)
        return e_step(values, group, components).log_joint

    def posterior(self, values: Tensor, group: Tensor) -> Tensor:
        """(N,) probability that a value belongs to the component with the smaller mean."""
        return self.log_joint(values, group).softmax(0)[0]

    def clamp_to_monotone(self, values: Tensor, group: Tensor) -> Tensor:
        """Clamp values to the range between both means, in which the posterior is monotone.

        Outside this range, the posterior of Gaussians of unequal width can change its direction.
        """
        means = self.means[group]
        return torch.minimum(torch.maximum(values, means[:, 0]), means[:, 1])


@dataclass(frozen=True)
class Components:
    """Weights, means and variances of both components, each (G, 2)."""

    weights: Tensor
    means: Tensor
    variances: Tensor

    def where(self, chosen: Tensor, other: "Components") -> "Components":
        """These components for the chosen (G,) groups, `other` for the rest."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Components(*(torch.where(chosen[:, None], own, its) for own, its in pairs))


def fit_gaussian_mixtures(  # noqa: PLR0913 (scikit-learn has the same options)
    values: Tensor,
    group: Tensor,
    *,
    groups: int,
    start: Components | None = None,
    max_steps: int = 10,
    tolerance: float = 1e-2,
    floor: float = 5e-4,
) -> GaussianMixtures:
    """Fit a mixture to each group by EM, with scikit-learn's updates and stopping rule.

    values: (N,) float64; group: (N,) number of each value's group, below `groups`
    start: initial components; None: by two-means clustering
    tolerance: a group stops when its mean log-likelihood changes by less
    floor: added to every variance
    """
    sizes = torch.bincount(group, minlength=groups).to(values).clamp(min=1)
    components = start or start_from_two_means(values, group, groups=groups, floor=floor)
    log_likelihood = torch.full((groups,), -math.inf, dtype=values.dtype, device=values.device)
    running = torch.ones(groups, dtype=torch.bool, device=values.device)
    steps = 0
    while steps < max_steps and bool(running.any()):
        expected = e_step(values, group, components)
        log_density = torch.logaddexp(*expected.log_joint)
        new_log_likelihood = sum_by_group(group, log_density, groups) / sizes
        responsibilities = (expected.log_joint - log_density).exp()
        update = m_step(group, responsibilities, expected.deviation, components.means, sizes, floor)
        components = update.where(running, components)
        converged = (new_log_likelihood - log_likelihood).abs() < tolerance
        log_likelihood = torch.where(running, new_log_likelihood, log_likelihood)
        running = running & ~converged
        steps += 1
    order = components.means.argsort(1)
    weights, means, variances = (each.gather(1, order) for each in vars(components).values())
    return GaussianMixtures(weights, means, variances, log_likelihood, steps)


def start_from_two_means(values: Tensor, group: Tensor, *, groups: int, floor: float) -> Components:
    """Components by two-means clustering (Lloyd), started at the smallest and largest value."""
    low = extreme_by_group(group, values, groups, "amin")
    high = extreme_by_group(group, values, groups, "amax")
    means = torch.stack([low, high], 1)
    sizes = torch.bincount(group, minlength=groups).to(values).clamp(min=1)
    for _ in range(10):
        upper = values > means.mean(1)[group]
        assigned = torch.stack([~upper, upper]).to(values)
        counts, sums = sum_by_group(group, torch.stack([assigned, assigned * values]), groups)
        means = (sums / (counts + count_epsilon(values))).T
    deviation = values - gather_by_group(means.T, group)
    return m_step(group, assigned, deviation, means, sizes, floor)


@dataclass(frozen=True)
class EStep:
    """Result of the E-step, each (2, N): log of (weight · density), and value minus mean.

    The component axis comes first because torch is several times faster along the long axis.
    """

    log_joint: Tensor
    deviation: Tensor


def e_step(values: Tensor, group: Tensor, components: Components) -> EStep:
    """The E-step: compare each of (N,) values with both components of its group."""
    log_scale = components.weights.log() - 0.5 * (components.variances * (2 * math.pi)).log()
    table = torch.cat([log_scale, components.means, 0.5 / components.variances], 1).T
    log_scales, means, half_precision = gather_by_group(table, group).chunk(3)
    deviation = values - means
    log_joint = torch.addcmul(log_scales, half_precision, deviation.square(), value=-1)
    return EStep(log_joint, deviation)


def m_step(  # noqa: PLR0913 (six tensors determine the update)
    group: Tensor,
    responsibilities: Tensor,
    deviation: Tensor,
    means: Tensor,
    sizes: Tensor,
    floor: float,
) -> Components:
    """The M-step: new components from (2, N) responsibilities and deviations from the old means.

    means: (G, 2) old means; sizes: (G,) number of values; floor: added to every variance

    Σ r(x − μ)² equals Σ r(x − μ_old)² − n(μ − μ_old)². An empty component keeps its mean
    (scikit-learn sets it to 0).
    """
    weighted = responsibilities * deviation
    moments = torch.stack([responsibilities, weighted, weighted * deviation])
    sums = sum_by_group(group, moments, len(sizes))
    counts, first, second = (each.T for each in sums)
    counts = counts + count_epsilon(responsibilities)
    shift = first / counts
    variances = (second / counts - shift.square()).clamp(min=0) + floor
    weights = counts / sizes[:, None]
    return Components(weights / weights.sum(1, keepdim=True), means + shift, variances)


def gather_by_group(table: Tensor, group: Tensor) -> Tensor:
    """(M, N) columns of an (M, G) table, one for the group of each value."""
    return table.gather(1, group.expand(len(table), -1))


def count_epsilon(values: Tensor) -> float:
    """What scikit-learn adds to the count of a component, to avoid division by zero."""
    return 10 * torch.finfo(values.dtype).eps


def sum_by_group(group: Tensor, values: Tensor, groups: int) -> Tensor:
    """Sum (…, N) values over each group: (…, G)."""
    shape = (*values.shape[:-1], groups)
    zeros = torch.zeros(shape, dtype=values.dtype, device=values.device)
    return zeros.index_add_(-1, group, values)


def extreme_by_group(group: Tensor, values: Tensor, groups: int, which: str) -> Tensor:
    """(G,) smallest ("amin") or largest ("amax") value of each group; 0 for an empty group."""
    zeros = torch.zeros(groups, dtype=values.dtype, device=values.device)
    return zeros.scatter_reduce_(0, group, values, which, include_self=False)


def quantile_by_group(group: Tensor, values: Tensor, groups: int, share: float) -> Tensor:
    """(G,) quantile of each group, with linear interpolation; 0 for an empty group.

    share: share of the values below the quantile, from 0 to 1
    """
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
