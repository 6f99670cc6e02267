"""Label noise that depends on the row: what a fit of the confusion model finds."""

import numpy as np
import pytest
import torch

from ulc.blocks.label_posterior import AnchoredConfusion
from ulc.labels.confusion import ConfusionModel, RowNoise, RowTerms

K = 3


def simulate(rows=12_000, *, slope=0.0, affinity=0.0, rate=0.2, seed=0):
    """Exact P(true | x) of rows between three classes, given labels with such noise, true labels.

    The log-odds of an error are those of `rate` at mean difficulty.
    """
    rng = np.random.default_rng(seed)
    probability = rng.dirichlet(np.full(K, 0.25), rows)
    true = (rng.random(rows)[:, None] > probability.cumsum(1)).sum(1).clip(0, K - 1)
    log_odds = np.full(K, np.log(rate / (1 - rate))) if rate else np.full(K, -30.0)
    pairs = (1 - np.eye(K)) / (K - 1)
    terms = RowTerms.of(probability, RowNoise(log_odds, pairs, slope, affinity))
    chance = np.stack([terms.likelihood(np.full(rows, j))[np.arange(rows), true] for j in range(K)])
    given = (rng.random(rows) > chance.cumsum(0)).sum(0).clip(0, K - 1)
    return probability, given, true


def fit(probability, given, certain=None, **options):
    """The stored model after one fit, and its (N, K) posterior."""
    model = AnchoredConfusion(K, torch.device("cpu"), dtype=torch.float64, **options)
    logs = torch.tensor(np.maximum(probability, 1e-30)).log()
    verified = None if certain is None else torch.tensor(certain)
    model.update(logs, torch.tensor(given), verified)
    return model.stored(), model.posterior_of(logs, torch.tensor(given), verified).numpy()


def score(model, probability, given):
    return model.posterior(probability, given)[np.arange(len(given)), given]


def test_it_finds_the_noise_of_difficult_rows_that_a_confusion_matrix_misses():
    probability, given, true = simulate(slope=2.0)
    wrong = (given != true).mean()
    rows, _ = fit(probability, given)
    matrix = ConfusionModel.fit(probability, given)
    assert rows.slope > 1
    missed = [abs(1 - score(each, probability, given).mean() - wrong) for each in (rows, matrix)]
    assert missed[0] < 0.04 < missed[1]


@pytest.mark.parametrize("rate", [0.05, 0.4])
def test_of_even_noise_it_finds_neither_slope_nor_affinity(rate):
    probability, given, true = simulate(rate=rate)
    model, _ = fit(probability, given)
    assert abs(model.slope) < 0.4
    assert abs(model.affinity) < 0.15
    clean = score(model, probability, given)
    assert 1 - clean.mean() == pytest.approx((given != true).mean(), abs=0.03)
    for low in (0.0, 0.5, 0.8):  # calibrated: of labels with score p, about p are right
        inside = (clean >= low) & (clean < low + 0.2)
        assert clean[inside].mean() == pytest.approx((given == true)[inside].mean(), abs=0.08)


def test_clean_labels_stay_clean():
    probability, given, _ = simulate(rate=0)
    model, _ = fit(probability, given)
    assert (score(model, probability, given) < 0.5).mean() < 0.01


def test_certain_labels_count_as_right():
    probability, given, true = simulate(2_000, rate=0.3)
    certain = given == true
    told, posterior = fit(probability, given, certain)
    assert posterior[certain, given[certain]] == pytest.approx(1)
    assert np.diag(told.transition).mean() > 0.5


def test_a_stored_fit_has_the_same_posterior_after_it_was_written():
    probability, given, _ = simulate(500)
    model, posterior = fit(probability, given)
    again = ConfusionModel.model_validate_json(model.model_dump_json())
    np.testing.assert_array_equal(
        again.posterior(probability, given), model.posterior(probability, given)
    )
    np.testing.assert_allclose(again.posterior(probability, given), posterior, atol=1e-5)


def test_a_class_that_nobody_gave_gets_the_smallest_factor():
    """Its frequency is 0; that of a class with one label is at least one row."""
    probability, given, _ = simulate(3000, rate=0.2)
    given = np.where(given == 2, 0, given)
    without = np.array(fit(probability, given)[0].factor)
    assert without.argmin() == 2
    assert without[2] < 0.1 * without[:2].min()


def test_single_precision_finds_the_same_noise():
    """ULC+ computes in single, audits in double precision."""
    probability, given, _ = simulate(3000, slope=2.0)
    model = AnchoredConfusion(K, torch.device("cpu"))
    logs = torch.tensor(np.maximum(probability, 1e-30)).log().float()
    model.update(logs, torch.tensor(given), None)
    single = model.posterior_of(logs, torch.tensor(given), None)
    assert single.dtype == torch.float32
    _, double = fit(probability, given)
    np.testing.assert_allclose(single, double, atol=1e-3)
