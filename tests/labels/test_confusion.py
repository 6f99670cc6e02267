"""Laws of the model of label noise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ulc.labels.confusion import ByClass, ConfusionModel, cooled, explained, log_likelihood


def population(rate, rows=4000, classes=4, sharp=4.0, seed=0):
    """True labels, a model that is calibrated about them, and given labels of which some moved."""
    rng = np.random.default_rng(seed)
    logits = sharp * rng.normal(size=(rows, classes))
    probability = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    true = (rng.random((rows, 1)) > probability.cumsum(1)).sum(1).clip(max=classes - 1)
    moved = rng.random(rows) < rate
    given = np.where(moved, (true + rng.integers(1, classes, rows)) % classes, true)
    return probability, true, given


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.4])
def test_the_rate_is_found_beside_a_model_that_errs_by_itself(rate):
    probability, true, labels = population(rate)
    assert (probability.argmax(1) != true).mean() > 0.05  # the model is not perfect
    noise = ConfusionModel.fit(probability, labels)
    assert noise.rate(probability, labels) == pytest.approx(rate, abs=0.04)
    assert 0.6 < noise.temperature < 1.1


def test_a_model_that_is_too_sure_or_not_sure_enough_is_brought_back():
    probability, _, labels = population(0.2)
    for power in (0.6, 1.7):
        noise = ConfusionModel.fit(cooled(probability, 1 / power), labels)
        assert 0.7 * power < noise.temperature < 1.1 * power
        assert noise.rate(cooled(probability, 1 / power), labels) == pytest.approx(0.2, abs=0.03)


def test_the_transition_is_that_of_the_labels():
    probability, true, _ = population(0.0, rows=20_000)
    rng = np.random.default_rng(1)
    given = np.where((true == 0) & (rng.random(len(true)) < 0.5), 2, true)  # half of 0 become 2
    found = np.array(ConfusionModel.fit(probability, given).transition)
    expected = np.eye(4)
    expected[0] = [0.5, 0, 0.5, 0]
    assert found == pytest.approx(expected, abs=0.05)


def test_the_posterior_is_bayes_rule():
    noise = ConfusionModel(temperature=1.0, transition=((0.9, 0.1), (0.2, 0.8)))
    probability, labels = np.array([[0.3, 0.7]]), np.array([0])
    right = 0.3 * 0.9 / (0.3 * 0.9 + 0.7 * 0.2)
    assert noise.posterior(probability, labels) == pytest.approx(np.array([[right, 1 - right]]))


def test_clean_labels_are_left_in_peace():
    """Of labels that are all right, hardly one is likelier wrong, though the model errs often."""
    probability, true, labels = population(0.0)
    noise = ConfusionModel.fit(probability, labels)
    doubted = noise.posterior(probability, labels).argmax(1) != labels
    assert doubted.mean() < 0.005 < 0.05 < (probability.argmax(1) != true).mean()


def test_a_model_that_has_learned_the_noise_is_no_excuse_for_the_labels():
    """Its probabilities are those of the given labels, everywhere the same: 0.8, 0.1, 0.1."""
    true = np.arange(600) % 3
    probability = 0.7 * np.eye(3)[true] + 0.1
    moved = np.arange(600) < 120
    given = np.where(moved, (true + 1 + np.arange(600) // 3 % 2) % 3, true)
    noise = ConfusionModel.fit(probability, given)
    doubted = noise.posterior(probability, given).argmax(1) != given
    assert (doubted == moved).all()


def test_few_rows_claim_little():
    probability, _, _ = population(0.0, rows=6)
    every_label_wrong = (probability.argmax(1) + 1) % 4
    noise = ConfusionModel.fit(probability, every_label_wrong)
    assert np.isfinite(noise.transition).all()
    assert np.diag(noise.transition).min() > 0.2  # not even then is every label of a class wrong


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 40), st.integers(2, 6), st.integers(0, 10_000))
def test_whatever_comes_rows_are_distributions(rows, classes, seed):
    rng = np.random.default_rng(seed)
    probability = rng.dirichlet(np.full(classes, 0.1), rows)
    labels = rng.integers(0, classes, rows)
    noise = ConfusionModel.fit(probability, labels)
    assert np.array(noise.transition).sum(1) == pytest.approx(1)
    assert noise.posterior(probability, labels).sum(1) == pytest.approx(1, abs=1e-5)
    assert ConfusionModel.model_validate_json(noise.model_dump_json()) == noise


def test_em_settles_where_the_labels_are_likelier():
    probability, _, labels = population(0.3, rows=500)
    rows = ByClass(labels, 4)
    settled = rows.settled(probability, rows.start())
    before = log_likelihood(probability, labels, rows.start())
    assert log_likelihood(probability, labels, settled) > before
    again = rows.settled(probability, settled)
    assert again == pytest.approx(settled, abs=2e-3)


def test_sums_by_class():
    values = np.array([[1.0, 2, 0, 0], [3, 4, 0, 0], [5, 6, 0, 0]])
    sums = ByClass(np.array([2, 0, 2]), 4).sums(values)
    assert sums[:, :2].tolist() == [[3, 4], [0, 0], [6, 8], [0, 0]]


def test_what_is_explained_does_not_blame_a_model_for_wrong_labels_or_for_being_too_sure():
    probability, _, labels = population(0.2)
    value = explained(probability, labels)
    assert explained(cooled(probability, 0.5), labels) == pytest.approx(value, abs=0.005)
    blunt = 0.7 * probability + 0.3 / 4  # knows less
    assert explained(cooled(blunt[:, ::-1], 1), labels) < value
    plain = np.log(cooled(probability, 0.3)[np.arange(len(labels)), labels]).mean()
    assert value > plain
