"""Label noise that depends on the row: its likelihood and the stored model."""

import numpy as np
import pytest
from hypothesis import given as given_values
from hypothesis import settings
from hypothesis import strategies as st

from ulc.labels.confusion import ConfusionModel, RowNoise, RowTerms

K = 3
TRANSITION = ((0.7, 0.2, 0.1), (0.1, 0.8, 0.1), (0.0, 0.5, 0.5))


@pytest.fixture
def rows():
    """Predictions and given labels of 50 rows."""
    rng = np.random.default_rng(1)
    return rng.dirichlet(np.ones(K), 50), rng.integers(0, K, 50)


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


def test_without_slope_and_affinity_it_is_the_confusion_matrix(rows):
    plain = ConfusionModel(temperature=0.8, transition=TRANSITION)
    almost = plain.model_copy(update={"slope": 1e-12})  # takes the other path
    np.testing.assert_allclose(almost.posterior(*rows), plain.posterior(*rows), atol=1e-6)


@pytest.mark.parametrize(
    "one", [{"slope": 1.0}, {"affinity": 1.0}, {"slope": 1.0, "affinity": 1.0}]
)
def test_slope_or_affinity_alone_makes_the_noise_depend_on_the_row(rows, one):
    """The same given label has another chance in a row with other predictions."""
    expected, _ = rows
    plain = ConfusionModel(temperature=1.0, transition=TRANSITION)
    by_row = plain.model_copy(update=one)
    same = np.ones(len(expected), int)
    assert np.ptp(plain.likelihood(expected, same), axis=0) == pytest.approx(0)
    assert np.ptp(by_row.likelihood(expected, same), axis=0).max() > 0.01


def test_it_is_stored_as_json(rows):
    model = ConfusionModel(
        temperature=0.8, transition=TRANSITION, factor=(0.9, 1.0, 1.1),
        slope=1.3, affinity=0.2, difficulty=0.4,
    )  # fmt: skip
    again = ConfusionModel.model_validate_json(model.model_dump_json())
    assert again == model
    np.testing.assert_array_equal(again.posterior(*rows), model.posterior(*rows))
