"""New labels score like training labels of the same class with similar losses."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from ulc.errors import InputError
from ulc.labels.judgement import Judgement
from ulc.labels.unseen import NEAREST, judge_unseen, spread_rest

NOTHING = np.nan


def predictions(chosen, given, classes=3):
    """Distributions that give each label the probability `chosen`."""
    rest = (1 - np.asarray(chosen)) / (classes - 1)
    table = np.repeat(rest[:, None], classes, axis=1)
    table[np.arange(len(given)), given] = chosen
    return table


def trained(chosen, given, clean, classes=3):
    given = np.asarray(given)
    nothing = np.full(len(given), NOTHING)
    return Judgement(
        given, np.asarray(clean), predictions(chosen, given, classes), nothing, nothing
    )


def judged(training, chosen, given):
    given = np.asarray(given)
    return judge_unseen(training, predictions(chosen, given), given).clean_probability


@pytest.fixture
def training():
    """Scores of class 0: as predicted; of class 1: 0; of the only row of class 2: 0.7."""
    chosen = np.concatenate([np.linspace(0.01, 0.99, 99), np.linspace(0.01, 0.99, 99), [0.2]])
    given = np.repeat([0, 1, 2], [99, 99, 1])
    clean = np.where(given == 0, chosen, np.where(given == 1, 0.0, 0.7))
    return trained(chosen, given, clean)


def test_a_label_is_believed_as_its_neighbours_of_the_same_class(training):
    chosen = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(judged(training, chosen, [0, 0, 0]), chosen, atol=0.02)
    np.testing.assert_array_equal(judged(training, chosen, [1, 1, 1]), 0)


def test_it_is_the_mean_of_the_few_nearest():
    """Of five, by hand: (1 + 0 + 1 + 0 + 1) / 5."""
    clean = np.array([1, 0, 1, 0, 1, 0, 0, 0.0])
    training = trained(np.linspace(0.9, 0.2, 8), [0] * 8, clean)
    assert judged(training, [0.95], [0]) == pytest.approx(3 / 5)
    assert judged(training, [0.2], [0]) == pytest.approx(1 / 5)


@drawn(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_the_nearest_are_those_that_a_search_through_all_finds(seed, rows):
    rng = np.random.default_rng(seed)
    chosen, clean = rng.uniform(0.05, 1, rows), rng.random(rows)
    asked = rng.uniform(chosen.min(), 1, 9)  # within the losses of training
    distance = np.abs(np.log(asked)[:, None] - np.log(chosen))
    wanted = clean[distance.argsort(1)[:, :NEAREST]].mean(1)
    found = judged(trained(chosen, np.zeros(rows, int), clean), asked, np.zeros(9, int))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_a_class_with_one_training_row_is_believed_as_that(training):
    np.testing.assert_allclose(judged(training, [0.2, 0.5, 0.99], [2, 2, 2]), 0.7, rtol=1e-6)


def test_beyond_the_largest_training_loss_the_score_decays():
    training = trained([0.5, 0.6, 0.9], [0, 0, 0], [0.6, 0.6, 0.6])
    found = judged(training, [0.5, 0.25, 0.05], [0, 0, 0])
    np.testing.assert_allclose(found, [0.6, 0.3, 0.06], rtol=1e-5)


def test_a_model_that_memorised_its_labels_still_doubts_new_ones():
    """All training scores are near 1: without the decay, every new label would score near 1."""
    chosen = np.linspace(0.95, 0.999, 50)
    training = trained(chosen, np.zeros(50, int), chosen)
    found = judged(training, [0.99, 0.4, 0.001], [0, 0, 0])
    np.testing.assert_allclose(found, [0.99, 0.4, 0.001], rtol=0.01)


def test_a_class_without_training_rows_is_believed_as_predicted():
    training = trained([0.9, 0.9], [0, 1], [0.1, 0.1])
    np.testing.assert_allclose(judged(training, [0.3, 0.8], [2, 2]), [0.3, 0.8])


@drawn(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_it_falls_with_the_loss_where_it_does_so_in_training(seed, rows):
    rng = np.random.default_rng(seed)
    chosen = rng.choice(np.linspace(0.05, 0.95, 10), rows)  # many of the same loss
    training = trained(chosen, np.zeros(rows, int), chosen**2)
    found = judged(training, np.linspace(0.01, 0.99, 60), np.zeros(60, int))
    assert (np.diff(found) >= -1e-6).all()
    assert found.max() <= (chosen**2).max() + 1e-6


@drawn(st.integers(0, 2**32 - 1))
def test_the_order_of_the_training_rows_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    chosen, given = rng.choice([0.1, 0.2, 0.5, 0.9], 60), rng.integers(0, 3, 60)
    clean, order = rng.random(60), rng.permutation(60)
    wanted, asked = rng.random(20), rng.integers(0, 3, 20)
    one = judged(trained(chosen, given, clean), wanted, asked)
    other = judged(trained(chosen[order], given[order], clean[order]), wanted, asked)
    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_uncertainties_are_passed_on_and_are_nan_by_default(training):
    given = np.array([0, 1])
    prediction = predictions([0.5, 0.5], given)
    told = judge_unseen(training, prediction, given, epistemic=np.array([0.1, 0.2]))
    np.testing.assert_array_equal(told.epistemic, [0.1, 0.2])
    assert np.isnan(told.aleatoric).all()
    np.testing.assert_array_equal(told.prediction, prediction)


def test_scores_from_training_labels_keep_the_kind_of_these(training):
    omega = replace(training, score_kind="omega")
    assert judge_unseen(omega, np.full((1, 3), 1 / 3), np.array([0])).score_kind == "omega"


def test_no_labels_are_no_opinion(training):
    none = np.zeros(0, int)
    assert judge_unseen(training, np.zeros((0, 3)), none).clean_probability.shape == (0,)


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_that_the_model_does_not_know_is_refused(training, label):
    with pytest.raises(InputError, match=rf"row 1 has label {label}, which the model does not"):
        judge_unseen(training, np.full((2, 3), 1 / 3), np.array([0, label]))


def test_predictions_of_another_shape_are_refused(training):
    with pytest.raises(InputError, match=r"shape \(2, 4\); give 3 probabilities for each of the 2"):
        judge_unseen(training, np.full((2, 4), 1 / 4), np.array([0, 1]))


def test_a_posterior_keeps_the_score_and_divides_the_rest_as_predicted():
    prediction = np.array([[0.5, 0.3, 0.2], [0.1, 0.0, 0.9], [1.0, 0.0, 0.0]])
    posterior = spread_rest(np.array([0.2, 0.6, 1.0]), prediction, np.array([0, 2, 0]))
    expected = [[0.2, 0.48, 0.32], [0.4, 0, 0.6], [1, 0, 0]]
    np.testing.assert_allclose(posterior, expected, atol=1e-6)
