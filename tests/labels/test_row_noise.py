"""Label noise that depends on the row: its likelihood, its fit, and what it finds."""

import numpy as np
import pytest
from hypothesis import given as given_values
from hypothesis import settings
from hypothesis import strategies as st

from ulc.labels.confusion import ConfusionModel, RowNoise, RowTerms
from ulc.labels.row_noise import RowNoiseEM, deconvolve

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


def score(model, probability, given):
    return model.posterior(probability, given)[np.arange(len(given)), given]


@given_values(
    st.lists(st.floats(-2, 2), min_size=K, max_size=K), st.floats(-3, 3), st.floats(-1, 2)
)
@settings(max_examples=30, deadline=None)
def test_the_chances_of_all_labels_sum_to_one(log_odds, slope, affinity):
    rng = np.random.default_rng(0)
    expected = rng.dirichlet(np.ones(K), 20)
    pairs = np.array([[0, 0.3, 0.7], [0.5, 0, 0.5], [1, 0, 0]])
    terms = RowTerms.of(expected, RowNoise(np.array(log_odds), pairs, slope, affinity))
    total = sum(terms.likelihood(np.full(20, label)) for label in range(K))
    assert total == pytest.approx(1)


def test_worked_by_hand():
    """One row of two classes, e = (0.8, 0.2); the other row is sure, so the mean entropy is half.

    h = (0.7219 − 0) / 2 above its mean; logit ρ = 0 + 1 · 0.361, ρ = 0.589.
    """
    expected = np.array([[0.8, 0.2], [1.0, 0.0]])
    pairs = np.array([[0.0, 1], [1, 0]])
    terms = RowTerms.of(expected, RowNoise(np.zeros(2), pairs, 1.0, 0.5))
    assert terms.difficulty == pytest.approx([0.361, -0.361], abs=1e-3)
    assert terms.likelihood(np.array([1, 0]))[0] == pytest.approx([0.589, 0.411], abs=1e-3)


def test_without_slope_and_affinity_it_is_the_confusion_matrix():
    transition = ((0.7, 0.2, 0.1), (0.1, 0.8, 0.1), (0.0, 0.5, 0.5))
    plain = ConfusionModel(temperature=0.8, transition=transition)
    almost = plain.model_copy(update={"slope": 1e-12})  # takes the other path
    rng = np.random.default_rng(1)
    probability, given = rng.dirichlet(np.ones(K), 50), rng.integers(0, K, 50)
    np.testing.assert_allclose(
        almost.posterior(probability, given), plain.posterior(probability, given), atol=1e-6
    )


def test_it_finds_the_noise_of_difficult_rows_that_a_confusion_matrix_misses():
    probability, given, true = simulate(slope=2.0)
    wrong = (given != true).mean()
    rows, matrix = (
        ConfusionModel.fit_rows(probability, given),
        ConfusionModel.fit(probability, given),
    )
    assert rows.slope > 1
    missed = [abs(1 - score(each, probability, given).mean() - wrong) for each in (rows, matrix)]
    assert missed[0] < 0.04 < missed[1]


@pytest.mark.parametrize("rate", [0.05, 0.4])
def test_of_even_noise_it_finds_neither_slope_nor_affinity(rate):
    probability, given, true = simulate(rate=rate)
    model = ConfusionModel.fit_rows(probability, given)
    assert abs(model.slope) < 0.4
    assert abs(model.affinity) < 0.15
    clean = score(model, probability, given)
    assert 1 - clean.mean() == pytest.approx((given != true).mean(), abs=0.03)
    for low in (0.0, 0.5, 0.8):  # calibrated: of labels with score p, about p are right
        inside = (clean >= low) & (clean < low + 0.2)
        assert clean[inside].mean() == pytest.approx((given == true)[inside].mean(), abs=0.08)


def test_clean_labels_stay_clean():
    probability, given, _ = simulate(rate=0)
    model = ConfusionModel.fit_rows(probability, given)
    assert (score(model, probability, given) < 0.5).mean() < 0.01


def test_certain_labels_count_as_right():
    probability, given, true = simulate(2_000, rate=0.3)
    certain = given == true
    told = ConfusionModel.fit_rows(probability, given, certain)
    assert RowNoiseEM(probability, given, certain).posterior(
        probability, RowTerms.of(probability, RowNoiseEM(probability, given).noise)
    )[certain, given[certain]] == pytest.approx(1)
    assert np.diag(told.transition).mean() > 0.5


def test_it_is_stored_as_json():
    probability, given, _ = simulate(500)
    model = ConfusionModel.fit_rows(probability, given)
    again = ConfusionModel.model_validate_json(model.model_dump_json())
    np.testing.assert_array_equal(
        again.posterior(probability, given), model.posterior(probability, given)
    )


def test_frequencies_are_found_behind_the_noise():
    transition = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]])
    frequency = np.array([0.6, 0.3, 0.1])
    assert deconvolve(frequency @ transition, transition) == pytest.approx(frequency, abs=0.05)


def test_a_class_that_nobody_gave_gets_the_smallest_factor():
    """Its frequency is 0; that of a class with one label is at least one row."""
    probability, given, _ = simulate(3000, rate=0.2)
    given = np.where(given == 2, 0, given)
    without = RowNoiseEM(probability, given)
    without.fit()
    assert without.factor.argmin() == 2
    assert without.factor[2] < 0.1 * without.factor[:2].min()
