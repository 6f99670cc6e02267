"""EM with moment matching for Beta mixtures: the likelihood never falls, no fit degenerates."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.distributions import Beta

from ulc.blocks.beta_mixture import (
    BetaMixtures,
    fit_beta_mixtures,
    match_moments,
    one_beta_log_likelihood,
)
from ulc.blocks.mixture import quantile_by_group

NAMES = ("weights", "alphas", "betas", "log_likelihood")
awkward = st.one_of(
    st.lists(st.floats(0, 1), min_size=1, max_size=40),
    st.lists(st.floats(0, 1e-3), min_size=1, max_size=20),
    st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=20),
    st.tuples(st.floats(0, 1), st.integers(1, 30)).map(lambda each: [each[0]] * each[1]),
    st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(1, 15)).map(
        lambda each: [each[0], each[1]] * each[2]
    ),
)


def doubles(values):
    return torch.tensor(values, dtype=torch.float64)


def one_group(values):
    return torch.zeros(len(values), dtype=torch.long)


def drawn(size, seed, *, share=0.6):
    """A share of Beta(2, 8), whose mean is 0.2, and the rest of Beta(9, 3): 0.75."""
    rng = np.random.default_rng(seed)
    low = rng.random(size) < share
    return torch.from_numpy(np.where(low, rng.beta(2, 8, size), rng.beta(9, 3, size)))


def mixtures(alphas, betas, weights=None):
    """Given components, one row a group."""
    alphas, betas = doubles(alphas), doubles(betas)
    weights = torch.full_like(alphas, 0.5) if weights is None else doubles(weights)
    return BetaMixtures(weights, alphas, betas, torch.zeros(len(alphas)), 0)


def test_a_known_mixture_is_recovered():
    """0.6 Beta(2, 8) + 0.4 Beta(9, 3), 20,000 values. The truth is a fixed point of EM with
    moments, because the values of a component have that component's moments."""
    values = drawn(20000, 0)
    found = fit_beta_mixtures(values, one_group(values), groups=1, max_steps=200)
    np.testing.assert_allclose(found.weights[0], [0.6, 0.4], atol=0.02)
    np.testing.assert_allclose(found.means[0], [0.2, 0.75], atol=0.01)
    np.testing.assert_allclose(found.alphas[0], [2, 9], rtol=0.1)
    np.testing.assert_allclose(found.betas[0], [8, 3], rtol=0.1)


@settings(max_examples=80, deadline=None)
@given(values=awkward)
def test_the_likelihood_never_falls_and_is_that_of_the_parameters(values):
    values = doubles(values)
    group = one_group(values)
    fits = [fit_beta_mixtures(values, group, groups=1, max_steps=steps) for steps in range(8)]
    reached = torch.cat([each.log_likelihood for each in fits])
    assert (reached.diff() >= 0).all()
    for each in fits:
        again = each.log_joint(values, group).logsumexp(1).mean(0, keepdim=True)
        torch.testing.assert_close(again, each.log_likelihood)


@settings(max_examples=80, deadline=None)
@given(values=awkward, max_steps=st.integers(0, 20))
def test_a_fit_is_two_proper_components_the_smaller_mean_first(values, max_steps):
    values = doubles(values)
    found = fit_beta_mixtures(values, one_group(values), groups=1, max_steps=max_steps)
    for name in NAMES:
        assert getattr(found, name).isfinite().all(), name
    assert found.means[0, 0] <= found.means[0, 1]
    torch.testing.assert_close(found.weights.sum(1), doubles([1.0]))
    assert (found.weights > 0).all()
    concentration = found.alphas + found.betas
    assert ((concentration >= 0.0099) & (concentration <= 10001)).all()
    posterior = found.posterior(values, one_group(values))
    assert ((posterior >= 0) & (posterior <= 1)).all()


def test_em_starts_from_two_triangles():
    """Without a step: Beta(1, 2) and Beta(2, 1), densities 2(1 − x) and 2x, with even weights:
    1 − x is the posterior."""
    values = doubles([0.1, 0.5, 0.8])
    found = fit_beta_mixtures(values, one_group(values), groups=1, max_steps=0)
    torch.testing.assert_close(found.posterior(values, one_group(values)), 1 - values)
    torch.testing.assert_close(found.log_likelihood, doubles([0.0]))


def test_the_first_step_matches_the_moments_of_the_first_posterior():
    values = drawn(300, 1).clamp(0.01, 0.99)
    group, sizes = one_group(values), doubles([300.0])
    found = fit_beta_mixtures(values, group, groups=1, max_steps=1)
    members = torch.stack([1 - values, values], 1)
    expected = match_moments(values, group, members, sizes)
    assert found.steps == 1
    for name, each in zip(NAMES, expected, strict=False):
        torch.testing.assert_close(getattr(found, name), each, msg=name)


def test_the_joint_density_is_torchs():
    torch.manual_seed(0)
    weights, alphas, betas = torch.rand(3, 3, 2, dtype=torch.float64) * 5 + 0.1
    weights = weights / weights.sum(1, keepdim=True)
    values, group = torch.rand(30, dtype=torch.float64) * 0.98 + 0.01, torch.arange(30) % 3
    found = BetaMixtures(weights, alphas, betas, torch.zeros(3), 0).log_joint(values, group)
    density = Beta(alphas[group], betas[group]).log_prob(values[:, None])
    torch.testing.assert_close(found, weights[group].log() + density)


def test_nought_and_one_and_what_lies_outside_count_as_a_thousandth_from_the_edge():
    """Beta(½, ½) has no finite density at 0 and 1."""
    model = mixtures([[0.5, 0.6]], [[0.5, 0.4]])
    found = model.log_joint(doubles([-3.0, 0.0, 1.0, 7.0]), torch.zeros(4, dtype=torch.long))
    near = model.log_joint(doubles([0.001, 0.001, 0.999, 0.999]), torch.zeros(4, dtype=torch.long))
    assert found.isfinite().all()
    torch.testing.assert_close(found, near)


class TestMatchMoments:
    def test_by_hand(self):
        """First, 0.2 and 0.4 by ¾ each: weight 1.5/4, mean 0.3, variance 0.01, so α + β =
        0.21/0.01 − 1 = 20. Second, the rest: weight 2.5/4, mean 1.55/2.5 = 0.62, mean square
        1.05/2.5 = 0.42, variance 0.42 − 0.3844 = 0.0356, α + β = 0.2356/0.0356 − 1 = 5.617978.
        """
        values = doubles([0.2, 0.4, 0.6, 0.8])
        members = doubles([[0.75, 0.25], [0.75, 0.25], [0.0, 1.0], [0.0, 1.0]])
        weights, alphas, betas = match_moments(values, one_group(values), members, doubles([4.0]))
        np.testing.assert_allclose(weights[0], [0.375, 0.625], atol=1e-9)
        np.testing.assert_allclose(alphas[0], [6, 0.62 * 5.617978], atol=1e-5)
        np.testing.assert_allclose(betas[0], [14, 0.38 * 5.617978], atol=1e-5)

    def test_no_component_is_narrower_than_ten_thousand(self):
        """Equal values have no variance: 0.3·10⁴ and 0.7·10⁴."""
        values = torch.full((5,), 0.3, dtype=torch.float64)
        _, alphas, betas = match_moments(
            values, one_group(values), torch.ones_like(values)[:, None], doubles([5.0])
        )
        np.testing.assert_allclose([alphas.item(), betas.item()], [3000, 7000])

    def test_no_component_is_flatter_than_a_hundredth(self):
        """0 and 1 count as 0.001 and 0.999: variance 0.499², 0.25/0.499² − 1 = 0.004."""
        values = doubles([0.0, 1.0])
        _, alphas, betas = match_moments(
            values, one_group(values), torch.ones_like(values)[:, None], doubles([2.0])
        )
        np.testing.assert_allclose([alphas.item(), betas.item()], [0.005, 0.005])


def test_many_mixtures_at_once_are_each_what_they_are_alone():
    """Groups of different size and shape in random order; each stops as it would alone."""
    parts = [drawn(150, 0), drawn(12, 1), drawn(61, 2, share=0.9), drawn(40, 3, share=0.0)]
    sizes = [len(part) for part in parts]
    order = torch.from_numpy(np.random.default_rng(9).permutation(sum(sizes)))
    group = torch.arange(4).repeat_interleave(torch.tensor(sizes))
    together = fit_beta_mixtures(torch.cat(parts)[order], group[order], groups=4, max_steps=15)
    steps = []
    for which, part in enumerate(parts):
        alone = fit_beta_mixtures(part, one_group(part), groups=1, max_steps=15)
        steps.append(alone.steps)
        for name in NAMES:
            torch.testing.assert_close(
                getattr(together, name)[which], getattr(alone, name)[0], rtol=1e-7, atol=1e-9
            )
    assert together.steps == max(steps)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(10, 80))
def test_the_order_of_values_does_not_matter(seed, size):
    values = drawn(size, seed)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(size))
    one = fit_beta_mixtures(values, one_group(values), groups=1)
    other = fit_beta_mixtures(values[order], one_group(values), groups=1)
    posteriors = [each.posterior(values, one_group(values)) for each in (one, other)]
    torch.testing.assert_close(*posteriors, rtol=0, atol=1e-7)
    torch.testing.assert_close(one.log_likelihood, other.log_likelihood)


def test_values_seen_in_a_mirror_are_the_mirrored_mixture():
    """x ↦ 1 − x: the components change places, and α with β."""
    values = drawn(200, 4)
    one = fit_beta_mixtures(values, one_group(values), groups=1)
    other = fit_beta_mixtures(1 - values, one_group(values), groups=1)
    torch.testing.assert_close(one.alphas, other.betas.flip(1))
    torch.testing.assert_close(one.weights, other.weights.flip(1))
    torch.testing.assert_close(one.means, 1 - other.means.flip(1))


def test_groups_without_a_mixture_are_no_obstacle():
    """An empty group, one value, equal values, and an ordinary group."""
    ordinary = drawn(30, 0)
    values = torch.cat([ordinary, doubles([0.4]), doubles([0.0] * 5), doubles([1.0] * 3)])
    group = torch.tensor([0] * 30 + [2] + [3] * 5 + [4] * 3)
    found = fit_beta_mixtures(values, group, groups=6)
    for name in NAMES:
        assert getattr(found, name).isfinite().all(), name
    alone = fit_beta_mixtures(ordinary, one_group(ordinary), groups=1)
    torch.testing.assert_close(found.alphas[0], alone.alphas[0])
    assert one_beta_log_likelihood(values, group, 6).isfinite().all()


def test_no_values_at_all_are_no_obstacle():
    nothing = torch.zeros(0, dtype=torch.float64)
    found = fit_beta_mixtures(nothing, one_group(nothing), groups=2)
    for name in NAMES:
        assert getattr(found, name).isfinite().all(), name


def test_the_likelihood_of_one_component_by_hand():
    """0.2 and 0.4 have mean 0.3 and variance 0.01: Beta(6, 14). 0.6 and 0.8: Beta(14, 6)."""
    values, group = doubles([0.2, 0.6, 0.4, 0.8]), torch.tensor([0, 1, 0, 1])
    low = Beta(doubles(6.0), doubles(14.0)).log_prob(doubles([0.2, 0.4])).mean()
    high = Beta(doubles(14.0), doubles(6.0)).log_prob(doubles([0.6, 0.8])).mean()
    found = one_beta_log_likelihood(values, group, 2)
    torch.testing.assert_close(found, torch.stack([low, high]))


class TestClampToMonotone:
    def test_by_hand(self):
        """Δα = 3, Δβ = 3: a peak at ½. Δα = −3, Δβ = −5: a trough at ⅜. Δα = 3, Δβ = −3: none."""
        model = mixtures([[2, 5], [5, 2], [2, 5]], [[3, 6], [6, 1], [6, 3]])
        assert (model.means.diff(dim=1) > 0).all()
        values = doubles([0.2, 0.4, 0.7]).repeat(3)
        held = model.clamp_to_monotone(values, torch.arange(3).repeat_interleave(3)).view(3, 3)
        expected = [[0.2, 0.4, 0.5], [0.375, 0.4, 0.7], [0.2, 0.4, 0.7]]
        torch.testing.assert_close(held, doubles(expected))

    @settings(max_examples=150, deadline=None)
    @given(
        alphas=st.tuples(st.floats(0.01, 50), st.floats(0.01, 50)),
        betas=st.tuples(st.floats(0.01, 50), st.floats(0.01, 50)),
        weight=st.floats(0.01, 0.99),
    )
    def test_a_smaller_value_is_never_less_likely_of_the_first(self, alphas, betas, weight):
        """Only values at which the posterior would rise are clamped."""
        model = mixtures([alphas], [betas], [[weight, 1 - weight]])
        assume(model.means[0, 0] < model.means[0, 1])
        values = torch.linspace(-0.2, 1.2, 281, dtype=torch.float64)
        group = one_group(values)
        held = model.clamp_to_monotone(values, group)
        assert (model.posterior(held, group).diff() <= 1e-9).all()
        inside = (values > 0.002) & (values < 0.998)
        step = torch.where(held > values, 1e-4, -1e-4)  # towards the turn, not beyond it
        moved = inside & ((held - values).abs() > 2e-4)
        nearer = model.posterior(values + step, group) - model.posterior(values, group)
        assert (nearer * step.sign() >= -1e-12)[moved].all()
        assert ((held - values).abs()[inside & ~moved] <= 2e-4).all()


class TestQuantileByGroup:
    @settings(max_examples=80, deadline=None)
    @given(
        rows=st.lists(st.tuples(st.integers(0, 3), st.floats(-100, 100)), min_size=1, max_size=50),
        share=st.floats(0, 1),
    )
    def test_it_is_numpys_quantile_of_each_group(self, rows, share):
        group = torch.tensor([row[0] for row in rows])
        values = doubles([row[1] for row in rows])
        found = quantile_by_group(group, values, 5, share)
        for which in range(5):
            own = values[group == which].numpy()
            expected = np.quantile(own, share) if len(own) else 0.0
            assert float(found[which]) == pytest.approx(expected, rel=1e-9, abs=1e-9)

    def test_by_hand(self):
        """A quarter of the way through 1, 3, 5 is 2; through 8, 0 is 2; nothing is 0."""
        values, group = doubles([5.0, 8.0, 1.0, 0.0, 3.0]), torch.tensor([0, 2, 0, 2, 0])
        assert quantile_by_group(group, values, 3, 0.25).tolist() == [2, 0, 2]

    def test_of_nothing_it_is_nought(self):
        nothing = torch.zeros(0, dtype=torch.float64)
        assert quantile_by_group(one_group(nothing), nothing, 2, 0.5).tolist() == [0, 0]
