"""Clean probabilities of labels, from two-component mixtures on their losses."""

import numpy as np
import pytest
import torch
from hypothesis import given as given_values
from hypothesis import settings
from hypothesis import strategies as st
from sklearn.mixture import GaussianMixture

from ulc.blocks.loss_mixture import BetaLossMixture, GaussianLossMixture, one_gaussian_suffices
from ulc.blocks.mixture import fit_gaussian_mixtures, start_from_two_means


def quantiles(count, mean, deviation):
    """Quantiles of a Gaussian at evenly spread levels: a sample without randomness."""
    levels = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    return mean + deviation * torch.special.ndtri(levels)


def bimodal(clean, noisy, *, scale=1.0):
    """Losses of `clean` right labels around 0.5 and of `noisy` wrong ones around 3."""
    parts = [quantiles(clean, 0.5, 0.15), quantiles(noisy, 3.0, 0.4)]
    return scale * torch.cat(parts)


def labels(*sizes):
    return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))


def predict(losses, given, classes=None, model=GaussianLossMixture, **options):
    return model(**options).fit_predict(losses, given, classes or int(given.max()) + 1)


every_model = pytest.mark.parametrize(
    "model", [GaussianLossMixture, BetaLossMixture], ids=["gaussian", "beta"]
)


drawn_losses = st.lists(st.floats(0.0, 10.0, width=32), min_size=20, max_size=60)


@pytest.mark.parametrize(
    ("model", "sure"),
    [(GaussianLossMixture, 0.95), (BetaLossMixture, 0.8)],
    ids=["gaussian", "beta"],
)
def test_right_and_wrong_labels_of_a_class_are_told_apart(model, sure):
    """The losses are Gaussian; Beta components after ten steps are wider, so less certain."""
    losses = torch.cat([bimodal(80, 20), bimodal(15, 15, scale=3)])
    found = predict(losses, labels(100, 30), model=model)
    clean = found.clean_probability
    assert (clean[:80] > sure).all()
    assert (clean[80:100] < 1 - sure).all()
    assert (clean[100:115] > sure).all()
    assert (clean[115:] < 1 - sure).all()
    assert not found.fell_back.any()
    assert found.not_finite == 0


def test_one_mixture_for_all_fails_where_class_scales_differ():
    """Figure 1 of the paper: right labels of the small class cost as much as wrong ones of
    the large class, so a mixture of all losses rejects them; a mixture per class does not."""
    small = [quantiles(20, 2.6, 0.2), quantiles(10, 4.0, 0.2)]
    losses = torch.cat([bimodal(300, 100), *small])
    given = labels(400, 30)
    right_of_small = slice(400, 420)
    together = predict(losses, given, per_class=False).clean_probability
    apart = predict(losses, given, per_class=True).clean_probability
    assert (together[right_of_small] < 0.5).float().mean() > 0.9
    assert (apart[right_of_small] > 0.5).all()


def test_one_mixture_for_all_is_dividemixs():
    """Losses scaled to [0, 1] by all, GaussianMixture(2, max_iter=10, tol=1e-2,
    reg_covar=5e-4), posterior of the smaller mean; from our own start."""
    rng = np.random.default_rng(0)
    losses = torch.from_numpy(np.concatenate([rng.gamma(2, 0.2, 90), rng.gamma(9, 0.3, 40)]))
    given = torch.from_numpy(rng.integers(0, 4, 130))
    scaled = (losses - losses.min()) / (losses.max() - losses.min())
    start = start_from_two_means(scaled, torch.zeros_like(given), groups=1, floor=5e-4)
    model = GaussianMixture(
        2,
        max_iter=10,
        tol=1e-2,
        reg_covar=5e-4,
        weights_init=start.weights[0].numpy(),
        means_init=start.means[0, :, None].numpy(),
        precisions_init=1 / start.variances[0, :, None, None].numpy(),
    )
    model.fit(scaled[:, None].numpy())
    expected = model.predict_proba(scaled[:, None].numpy())[:, model.means_[:, 0].argmin()]
    found = predict(losses, given, per_class=False, monotone=False)
    np.testing.assert_allclose(found.clean_probability, expected, rtol=0, atol=1e-6)
    relabelled = predict(losses, (given + 1) % 4, per_class=False, monotone=False)
    assert torch.equal(found.clean_probability, relabelled.clean_probability)


def test_zero_losses_are_examples_without_a_label_in_one_mixture_for_all():
    """As in DivideMix's public code, whose array of losses keeps zeros for removed examples."""
    rng = np.random.default_rng(0)
    losses = torch.from_numpy(np.concatenate([rng.gamma(2, 0.2, 90), rng.gamma(9, 0.3, 40)]))
    given = torch.from_numpy(rng.integers(0, 4, 130))
    padded = torch.cat([losses, torch.zeros(70, dtype=losses.dtype)])
    of_padded = predict(padded, torch.zeros(200, dtype=torch.int64), per_class=False)
    found = predict(losses, given, per_class=False, zero_losses=70)
    assert torch.equal(found.clean_probability, of_padded.clean_probability[:130])
    assert not torch.equal(
        found.clean_probability, predict(losses, given, per_class=False).clean_probability
    )
    apart = predict(losses, given, zero_losses=70)
    assert torch.equal(apart.clean_probability, predict(losses, given).clean_probability)


@every_model
def test_a_class_is_judged_as_if_it_were_alone(model):
    losses = torch.cat([bimodal(40, 10), bimodal(25, 12, scale=4)])
    together = predict(losses, labels(50, 37), model=model).clean_probability
    alone = predict(losses[50:], labels(37), model=model, per_class=False).clean_probability
    torch.testing.assert_close(together[50:], alone, rtol=0, atol=1e-6)


@every_model
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize(
    "small",
    [
        torch.tensor([1.7]),
        torch.full((20,), 1.7),
        torch.tensor([1.7] * 12 + [1.7 + 1e-8] * 8, dtype=torch.float64),
        torch.linspace(0.2, 3, 9),
    ],
    ids=["one example", "constant losses", "next to constant losses", "fewer than ten"],
)
def test_an_unfit_class_is_judged_by_the_mixture_of_all(small, monotone, model):
    losses = torch.cat([bimodal(80, 20), small.double()])
    given = labels(100, len(small))
    options = {"monotone": monotone, "model": model}
    found = predict(losses, given, **options)
    assert found.fell_back.tolist() == [False, True]
    of_all = predict(losses, given, per_class=False, **options).clean_probability
    torch.testing.assert_close(found.clean_probability[100:], of_all[100:], rtol=0, atol=0)


def test_a_class_that_hardly_splits_falls_back():
    """One example of 150 apart from the rest is a weight of 0.7 %, below 1 %."""
    losses = torch.cat([bimodal(80, 20), quantiles(149, 0.4, 0.001), torch.tensor([3.0])])
    found = predict(losses, labels(100, 150))
    assert found.fell_back.tolist() == [False, True]


def test_a_class_whose_two_means_are_next_to_equal_falls_back():
    """A narrow heap with one loss far to either side: both halves have their mean in the heap."""
    heap = [quantiles(400, 1.0, 0.004), torch.tensor([0.0, 2.0])]
    found = predict(torch.cat([bimodal(80, 20), *heap]), labels(100, 402))
    assert found.fell_back.tolist() == [False, True]


@every_model
def test_a_class_without_examples_is_recorded_as_unfit(model):
    found = predict(bimodal(30, 10), labels(40), classes=3, model=model)
    assert found.fell_back.tolist() == [False, True, True]


def test_without_a_mixture_per_class_nothing_falls_back():
    found = predict(
        torch.cat([bimodal(30, 10), torch.tensor([1.0])]), labels(40, 1), per_class=False
    )
    assert not found.fell_back.any()


@every_model
def test_a_class_of_two_values_is_split_between_them(model):
    losses = torch.tensor([0.1] * 20 + [2.0] * 10)
    clean = predict(losses, labels(30), classes=2, model=model).clean_probability
    assert (clean[:20] > 0.99).all()
    assert (clean[20:] < 0.01).all()


@every_model
@pytest.mark.parametrize("per_class", [True, False])
def test_where_all_losses_are_equal_nothing_is_wrong(per_class, model):
    found = predict(torch.full((30,), 0.7), labels(20, 10), per_class=per_class, model=model)
    assert (found.clean_probability == 1).all()


@every_model
@pytest.mark.parametrize("per_class", [True, False])
@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_a_label_whose_loss_is_not_finite_is_not_believed(per_class, broken, model):
    losses, options = bimodal(60, 20), {"per_class": per_class, "model": model}
    whole = predict(losses, labels(40, 40), **options).clean_probability
    extra = torch.cat([losses, torch.tensor([broken, broken])])
    given = torch.cat([labels(40, 40), torch.tensor([0, 1])])
    found = predict(extra, given, **options)
    assert found.not_finite == 2
    assert (found.clean_probability[-2:] == 0).all()
    torch.testing.assert_close(found.clean_probability[:-2], whole, rtol=0, atol=0)


@every_model
@pytest.mark.parametrize("per_class", [True, False])
@pytest.mark.parametrize("guard", [True, False])
def test_where_no_loss_is_finite_nothing_is_believed(per_class, guard, model):
    losses, options = torch.full((20,), torch.nan), {"per_class": per_class, "model": model}
    found = predict(losses, labels(12, 8), one_component_guard=guard, **options)
    assert (found.clean_probability == 0).all()
    assert found.not_finite == 20


@every_model
@settings(max_examples=60, deadline=None)
@given_values(values=drawn_losses, per_class=st.booleans(), guard=st.booleans())
def test_a_smaller_loss_is_never_less_likely_clean(model, values, per_class, guard):
    losses = torch.tensor(values, dtype=torch.float64)
    given = torch.arange(len(losses)) % 2
    options = {"per_class": per_class, "one_component_guard": guard, "model": model}
    found = predict(losses, given, **options)
    clean = found.clean_probability
    assert ((clean >= 0) & (clean <= 1)).all()
    for k in range(2):
        ordered = clean[given == k][losses[given == k].argsort()]
        assert (ordered.diff() <= 1e-6).all()


def test_without_the_monotone_fix_a_very_small_loss_can_be_doubted():
    """Right labels in a narrow heap at 1, wrong ones widely spread around 1.5: far below the
    heap the wide Gaussian is the denser one."""
    losses = torch.cat([torch.tensor([0.0]), quantiles(100, 1.0, 0.03), quantiles(60, 1.5, 0.5)])
    given = labels(len(losses))
    plain = predict(losses, given, per_class=False, monotone=False).clean_probability
    fixed = predict(losses, given, per_class=False, monotone=True).clean_probability
    heap = (losses - 1.0).abs().argmin()
    assert plain[0] < 0.5 < plain[heap]
    assert fixed[0] >= fixed[heap]
    between = (losses > 1.03) & (losses < 1.4)
    torch.testing.assert_close(plain[between], fixed[between], rtol=0, atol=0)


def test_without_the_monotone_fix_a_very_large_loss_can_be_believed():
    """Wrong labels in a narrow heap, right ones widely spread below."""
    losses = torch.cat([quantiles(60, 1.5, 0.5), quantiles(100, 2.0, 0.03), torch.tensor([3.0])])
    given = labels(len(losses))
    plain = predict(losses, given, per_class=False, monotone=False).clean_probability
    fixed = predict(losses, given, per_class=False, monotone=True).clean_probability
    heap = (losses - 2.0).abs().argmin()
    assert plain[-1] > 0.5 > plain[heap]
    assert fixed[-1] <= fixed[heap]


@pytest.mark.parametrize("scale", [1.0, 0.05])
def test_one_gaussian_is_weighed_against_two_as_scikit_learns_bic_does(scale):
    """Samples from one heap to two; a small scale lets the variance floor of 5e-4 count."""
    answers = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        sample = rng.normal(size=40) + seed / 4 * (rng.random(40) < 0.4)
        values = torch.from_numpy(scale * (sample - sample.min()) / np.ptp(sample))
        group, sizes = torch.zeros(40, dtype=torch.long), torch.tensor([40])
        two = fit_gaussian_mixtures(values, group, groups=1, max_steps=200, tolerance=1e-7)
        rows = values[:, None].numpy()
        one = GaussianMixture(1, reg_covar=5e-4).fit(rows).bic(rows)
        theirs = GaussianMixture(2, reg_covar=5e-4)
        theirs.weights_, theirs.means_ = two.weights[0].numpy(), two.means[0, :, None].numpy()
        theirs.covariances_ = two.variances[0, :, None, None].numpy()
        theirs.precisions_cholesky_ = theirs.covariances_**-0.5
        answers.append(bool(one_gaussian_suffices(values, group, sizes, two)))
        assert answers[-1] == (one <= theirs.bic(rows))
    assert scale < 1 or 5 < sum(answers) < 24, "some one, some two"


def test_with_the_guard_a_class_of_one_gaussian_is_clean_throughout():
    """BIC: 200 quantiles of one Gaussian need no second one; two heaps do."""
    losses = torch.cat([quantiles(200, 1.0, 0.2), bimodal(150, 50)])
    given = labels(200, 200)
    plain = predict(losses, given)
    guarded = predict(losses, given, one_component_guard=True)
    assert guarded.one_component.tolist() == [True, False]
    assert not plain.one_component.any()
    assert (guarded.clean_probability[:200] == 1).all()
    assert (plain.clean_probability[:200] < 0.5).float().mean() > 0.1, "a mixture always splits"
    assert torch.equal(plain.clean_probability[200:], guarded.clean_probability[200:])


def test_the_guard_works_for_one_mixture_of_all_too():
    given = labels(100, 100)
    one = predict(quantiles(200, 1.0, 0.2), given, per_class=False, one_component_guard=True)
    assert one.one_component.all()
    assert (one.clean_probability == 1).all()
    two = predict(bimodal(150, 50), given, per_class=False, one_component_guard=True)
    assert not two.one_component.any()


@every_model
@settings(max_examples=40, deadline=None)
@given_values(
    seed=st.integers(0, 10**6),
    shift=st.floats(-5, 5),
    factor=st.floats(0.1, 10),
    per_class=st.booleans(),
    monotone=st.booleans(),
)
def test_neither_a_constant_nor_a_factor_on_all_losses_matters(
    model, seed, shift, factor, per_class, monotone
):
    rng = np.random.default_rng(seed)
    losses = torch.from_numpy(rng.gamma(2, 1, 60))
    given = labels(40, 20)
    options = {"per_class": per_class, "monotone": monotone, "model": model}
    one = predict(losses, given, **options)
    other = predict(factor * losses + shift, given, **options)
    torch.testing.assert_close(one.clean_probability, other.clean_probability, rtol=0, atol=1e-5)
    assert torch.equal(one.fell_back, other.fell_back)


@every_model
@settings(max_examples=20, deadline=None)
@given_values(seed=st.integers(0, 10**6), per_class=st.booleans())
def test_the_order_of_examples_does_not_matter(model, seed, per_class):
    rng = np.random.default_rng(seed)
    losses = torch.from_numpy(rng.gamma(2, 1, 60))
    given = torch.from_numpy(rng.integers(0, 3, 60))
    order = torch.from_numpy(rng.permutation(60))
    one = predict(losses, given, 3, model, per_class=per_class).clean_probability
    other = predict(losses[order], given[order], 3, model, per_class=per_class).clean_probability
    torch.testing.assert_close(one[order], other, rtol=0, atol=1e-6)


def test_permuting_class_names_permutes_the_belief():
    losses = torch.cat([bimodal(60, 20), bimodal(20, 10, scale=3), torch.tensor([1.0])])
    given = labels(80, 30, 1)
    renamed = torch.tensor([2, 0, 1])
    one, other = predict(losses, given), predict(losses, renamed[given])
    torch.testing.assert_close(one.clean_probability, other.clean_probability)
    assert torch.equal(one.fell_back, other.fell_back[renamed])


@every_model
def test_the_losses_stay_as_they_are(model):
    losses, given = bimodal(30, 10), labels(30, 10)
    before = losses.clone()
    predict(losses, given, model=model)
    assert torch.equal(losses, before)


def test_a_few_extreme_losses_do_not_move_a_beta_mixture():
    """The outermost 5 % on either side are left out of the fit, so their values do not matter."""
    losses = bimodal(80, 20).sort().values
    further = losses.clone()
    further[-4:] += 1000
    further[:4] -= 1000
    given = labels(100)
    one = predict(losses, given, model=BetaLossMixture).clean_probability
    other = predict(further, given, model=BetaLossMixture).clean_probability
    torch.testing.assert_close(one[4:-4], other[4:-4], rtol=0, atol=0)
    assert other[:4].min() >= other[4]
    assert other[-4:].max() <= other[-5]


def test_a_beta_mixture_needs_its_own_class_where_class_scales_differ():
    """As for Gaussians: right labels of the small class cost as much as wrong ones of the large."""
    losses = torch.cat([bimodal(300, 100), quantiles(20, 2.6, 0.1), quantiles(12, 4.0, 0.1)])
    options = {"given": labels(400, 32), "model": BetaLossMixture}
    together = predict(losses, per_class=False, **options).clean_probability[400:420]
    apart = predict(losses, per_class=True, **options).clean_probability[400:]
    assert (together < 0.5).all()
    assert (apart[:20] > 0.5).all()
    assert (apart[20:] < 0.5).all()


def test_with_the_guard_a_class_of_one_beta_is_clean_throughout():
    """Evenly spread losses are Beta(1, 1), which needs no second component; two heaps do."""
    losses = torch.cat([torch.linspace(0, 1, 200, dtype=torch.float64), bimodal(150, 50)])
    guarded = predict(losses, labels(200, 200), model=BetaLossMixture, one_component_guard=True)
    assert guarded.one_component.tolist() == [True, False]
    assert (guarded.clean_probability[:200] == 1).all()
    assert (guarded.clean_probability[350:] < 0.5).all()
