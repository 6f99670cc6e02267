"""EM for many mixtures: scikit-learn's steps, for all groups at once."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from ulc.blocks.mixture import Components, fit_gaussian_mixtures, start_from_two_means

FLOOR = 5e-4


def doubles(values):
    return torch.tensor(values, dtype=torch.float64)


def two_gaussians(size, seed, *, share=0.7, low=0.2, high=0.7):
    rng = np.random.default_rng(seed)
    component = rng.random(size) < share
    values = np.where(component, rng.normal(low, 0.07, size), rng.normal(high, 0.15, size))
    return torch.from_numpy(values)


def by_scikit_learn(values, start, *, max_steps, tolerance):
    """GaussianMixture from the same start; components sorted by mean."""
    model = GaussianMixture(
        2,
        max_iter=max_steps,
        tol=tolerance,
        reg_covar=FLOOR,
        weights_init=start.weights[0].numpy(),
        means_init=start.means[0, :, None].numpy(),
        precisions_init=1 / start.variances[0, :, None, None].numpy(),
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(values[:, None].numpy())
    order = model.means_[:, 0].argsort()
    return {
        "weights": model.weights_[order],
        "means": model.means_[order, 0],
        "variances": model.covariances_[order, 0, 0],
        "posterior": model.predict_proba(values[:, None].numpy())[:, order[0]],
        "log_likelihood": model.lower_bound_,
        "steps": model.n_iter_,
    }


def assert_agree(mixtures, values, group, which, theirs):
    here = group == which
    posterior = mixtures.posterior(values[here], group[here]).numpy()
    np.testing.assert_allclose(posterior, theirs["posterior"], rtol=0, atol=1e-6)
    for name in ("weights", "means", "variances", "log_likelihood"):
        ours = getattr(mixtures, name)[which].numpy()
        np.testing.assert_allclose(ours, theirs[name], rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("max_steps", "tolerance"), [(1, 0.0), (10, 0.0), (60, 0.0), (100, 1e-2), (100, 1e-5)]
)
def test_one_mixture_is_scikit_learns(max_steps, tolerance):
    """A fixed number of steps (tolerance 0 never stops) and its stopping rule."""
    values = two_gaussians(150, 0)
    group = torch.zeros(150, dtype=torch.long)
    start = Components(doubles([[0.4, 0.6]]), doubles([[0.1, 0.5]]), doubles([[0.05, 0.02]]))
    ours = fit_gaussian_mixtures(
        values, group, groups=1, start=start, max_steps=max_steps, tolerance=tolerance, floor=FLOOR
    )
    theirs = by_scikit_learn(values, start, max_steps=max_steps, tolerance=tolerance)
    assert ours.steps == theirs["steps"]
    assert_agree(ours, values, group, 0, theirs)


@pytest.mark.parametrize(("max_steps", "tolerance"), [(10, 0.0), (100, 1e-2), (100, 1e-4)])
def test_many_mixtures_at_once_are_each_scikit_learns(max_steps, tolerance):
    """Groups of different size and shape in random order; each stops as it would alone."""
    sizes = (150, 12, 61, 30)
    parts = [
        two_gaussians(size, seed, share=share, high=high)
        for size, seed, share, high in zip(
            sizes, range(4), (0.7, 0.5, 0.9, 0.4), (0.7, 1.5, 0.4, 0.3), strict=True
        )
    ]
    order = torch.from_numpy(np.random.default_rng(9).permutation(sum(sizes)))
    values = torch.cat(parts)[order]
    group = torch.arange(4).repeat_interleave(torch.tensor(sizes))[order]
    start = start_from_two_means(values, group, groups=4, floor=FLOOR)
    ours = fit_gaussian_mixtures(
        values, group, groups=4, start=start, max_steps=max_steps, tolerance=tolerance, floor=FLOOR
    )
    steps = []
    for which in range(4):
        alone = Components(
            *(getattr(start, name)[[which]] for name in ("weights", "means", "variances"))
        )
        theirs = by_scikit_learn(
            values[group == which], alone, max_steps=max_steps, tolerance=tolerance
        )
        steps.append(theirs["steps"])
        assert_agree(ours, values, group, which, theirs)
    assert ours.steps == max(steps)
    assert tolerance == 0 or len(set(steps)) > 1, "the groups should stop at different steps"


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    size=st.integers(8, 60),
    share=st.floats(0.1, 0.9),
    high=st.floats(0.0, 1.0),
)
def test_the_likelihood_never_falls(seed, size, share, high):
    """EM never lowers the likelihood if the variance floor, which is no part of EM, is near 0."""
    values = two_gaussians(size, seed, share=share, high=high)
    group = torch.zeros(size, dtype=torch.long)
    reached = [
        float(
            fit_gaussian_mixtures(
                values, group, groups=1, max_steps=steps, tolerance=0.0, floor=1e-9
            ).log_likelihood
        )
        for steps in range(1, 12)
    ]
    assert (np.diff(reached) >= -1e-6).all()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), order_seed=st.integers(0, 10**6))
def test_the_order_of_examples_does_not_matter(seed, order_seed):
    values = torch.cat([two_gaussians(40, seed), two_gaussians(20, seed + 1)])
    group = torch.arange(2).repeat_interleave(torch.tensor([40, 20]))
    order = torch.from_numpy(np.random.default_rng(order_seed).permutation(60))
    one = fit_gaussian_mixtures(values, group, groups=2)
    other = fit_gaussian_mixtures(values[order], group[order], groups=2)
    for name in ("weights", "means", "variances", "log_likelihood"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=0, atol=1e-9)


def test_the_order_of_groups_does_not_matter():
    values = torch.cat([two_gaussians(40, 0), two_gaussians(20, 1)])
    group = torch.arange(2).repeat_interleave(torch.tensor([40, 20]))
    one = fit_gaussian_mixtures(values, group, groups=2)
    other = fit_gaussian_mixtures(values, 1 - group, groups=2)
    torch.testing.assert_close(one.means, other.means.flip(0))


def test_a_known_mixture_is_recovered():
    """85 % around 0.2 (deviation 0.05) and 15 % around 0.8 (0.1); 5,000 values.

    Three standard errors: of a weight √(.85·.15/5000) = .005, of a mean .05/√4250 = .0008 and
    .1/√750 = .0037.
    """
    rng = np.random.default_rng(3)
    clean = rng.random(5000) < 0.85
    drawn = np.where(clean, rng.normal(0.2, 0.05, 5000), rng.normal(0.8, 0.1, 5000))
    values = torch.from_numpy(drawn)
    group = torch.zeros(5000, dtype=torch.long)
    found = fit_gaussian_mixtures(
        values, group, groups=1, max_steps=100, tolerance=1e-6, floor=1e-6
    )
    np.testing.assert_allclose(found.weights[0], [0.85, 0.15], atol=0.015)
    np.testing.assert_allclose(found.means[0], [0.2, 0.8], atol=0.012)
    np.testing.assert_allclose(found.variances[0].sqrt(), [0.05, 0.1], atol=0.01)
    judged_clean = found.posterior(values, group).numpy() > 0.5
    assert (judged_clean == clean).mean() > 0.999


def test_without_a_word_em_takes_ten_steps_at_most():
    values, group = two_gaussians(80, 0), torch.zeros(80, dtype=torch.long)
    assert fit_gaussian_mixtures(values, group, groups=1, tolerance=0.0).steps == 10


def test_the_smaller_mean_comes_first():
    values = two_gaussians(80, 0)
    group = torch.zeros(80, dtype=torch.long)
    swapped = Components(doubles([[0.5, 0.5]]), doubles([[0.7, 0.2]]), doubles([[0.02, 0.02]]))
    found = fit_gaussian_mixtures(values, group, groups=1, start=swapped)
    assert found.means[0, 0] < found.means[0, 1]
    small, large = values.argmin()[None], values.argmax()[None]
    assert found.posterior(values[small], group[small]) > 0.9
    assert found.posterior(values[large], group[large]) < 0.1


def test_an_empty_group_and_a_group_of_one_are_no_obstacle():
    values = torch.cat([two_gaussians(30, 0), doubles([0.4])])
    group = torch.cat([torch.zeros(30, dtype=torch.long), torch.tensor([2])])
    found = fit_gaussian_mixtures(values, group, groups=3)
    for name in ("weights", "means", "variances", "log_likelihood"):
        assert getattr(found, name).isfinite().all(), name
    alone = fit_gaussian_mixtures(values[:30], group[:30], groups=1)
    torch.testing.assert_close(found.means[0], alone.means[0])


def test_the_first_split_is_two_means():
    """0, 0.1, 0.2 and 0.9, 1: Lloyd's algorithm from the extremes gives means 0.1 and 0.95."""
    values = doubles([0.0, 0.9, 0.1, 1.0, 0.2])
    start = start_from_two_means(values, torch.zeros(5, dtype=torch.long), groups=1, floor=0.0)
    np.testing.assert_allclose(start.means[0], [0.1, 0.95], atol=1e-12)
    np.testing.assert_allclose(start.weights[0], [0.6, 0.4], atol=1e-12)
    np.testing.assert_allclose(start.variances[0], [0.02 / 3, 0.0025], atol=1e-12)
