"""Laws of the confusion model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ulc.config import checked
from ulc.errors import InputError
from ulc.labels import confusion
from ulc.labels.confusion import (
    ConfusionModel,
    TransitionEM,
    mean_log_likelihood,
    symmetric_noise_log_likelihood,
    with_temperature,
)


def population(rate, rows=4000, classes=4, sharp=4.0, seed=0):
    """Predictions calibrated on the true labels, true labels, and given labels with noise."""
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
    assert noise.noise_rate(probability, labels) == pytest.approx(rate, abs=0.04)
    assert 0.6 < noise.temperature < 1.1


def test_the_temperature_undoes_over_and_underconfidence():
    probability, _, labels = population(0.2)
    for power in (0.6, 1.7):
        noise = ConfusionModel.fit(with_temperature(probability, 1 / power), labels)
        assert 0.7 * power < noise.temperature < 1.1 * power
        assert noise.noise_rate(with_temperature(probability, 1 / power), labels) == pytest.approx(
            0.2, abs=0.03
        )


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


def test_clean_labels_are_hardly_ever_doubted():
    """All labels are right, and the model is often wrong: fewer than 0.5 % are doubted."""
    probability, true, labels = population(0.0)
    noise = ConfusionModel.fit(probability, labels)
    doubted = noise.posterior(probability, labels).argmax(1) != labels
    assert doubted.mean() < 0.005 < 0.05 < (probability.argmax(1) != true).mean()


def test_noise_is_found_beside_a_model_that_has_learned_it():
    """The model predicts the frequencies of the given labels: 0.8, 0.1 and 0.1 in each class."""
    true = np.arange(600) % 3
    probability = 0.7 * np.eye(3)[true] + 0.1
    moved = np.arange(600) < 120
    given = np.where(moved, (true + 1 + np.arange(600) // 3 % 2) % 3, true)
    noise = ConfusionModel.fit(probability, given)
    doubted = noise.posterior(probability, given).argmax(1) != given
    assert (doubted == moved).all()


def test_a_class_without_rows_has_the_transition_of_its_pseudo_counts():
    """No label contradicts its row, so e = 0 and the 31 pseudo-labels of class 2 are correct."""
    em = TransitionEM(np.array([0, 1]), 3)
    found = em.fit_transition(np.eye(3)[:2], np.eye(3))
    assert found == pytest.approx(np.eye(3))


def test_one_step_of_em_by_hand():
    """Two rows of true class 0, given 0 and 1: n = [[1, 1], [0, 0]], e = 1 − 11/12."""
    em = TransitionEM(np.array([0, 1]), 2)
    certain = np.array([[1.0, 0.0], [1.0, 0.0]])  # the posterior does not depend on C: one step
    error = 1 / 12
    expected = [
        [(1 + 30 * (1 - error) + 1) / 33, (1 + 30 * error) / 33],
        [30 * error / 31, (30 * (1 - error) + 1) / 31],
    ]
    assert em.fit_transition(certain, em.initial_transition()) == pytest.approx(np.array(expected))


def test_pseudo_counts_keep_a_few_wrong_labels_from_deciding():
    probability, _, _ = population(0.0, rows=6)
    every_label_wrong = (probability.argmax(1) + 1) % 4
    noise = ConfusionModel.fit(probability, every_label_wrong)
    assert np.isfinite(noise.transition).all()
    assert np.diag(noise.transition).min() > 0.2


def test_the_temperature_is_the_lower_end_of_the_likelihood_interval():
    """At T the profile log-likelihood is within 1.92 of its maximum, 5 % below T it is not."""
    probability, _, labels = population(0.2, rows=800)
    em = TransitionEM(labels, 4)

    def log_likelihood(temperature):
        tempered = with_temperature(probability, temperature)
        transition = em.fit_transition(tempered, em.initial_transition())
        return len(labels) * mean_log_likelihood(tempered, labels, transition)

    found = ConfusionModel.fit(probability, labels).temperature
    best = max(map(log_likelihood, np.geomspace(0.25, 4, 60)))
    slack = 0.2  # of EM's tolerance and of the grid
    assert log_likelihood(found) >= best - 1.92 - slack
    assert log_likelihood(0.95 * found) < best - 1.92 + slack


def test_expected_classes_are_predictions_times_factors_by_hand():
    """(0.5·2, 0.5·1) and (0.2·2, 0.8·1), each divided by its sum."""
    model = ConfusionModel(temperature=1, transition=((1.0, 0.0), (0.0, 1.0)), factor=(2.0, 1.0))
    expected = model.expected(np.array([[0.5, 0.5], [0.2, 0.8]]))
    np.testing.assert_allclose(expected, [[2 / 3, 1 / 3], [1 / 3, 2 / 3]])


def test_a_temperature_is_sought_from_a_quarter_to_four():
    """Towards either end of the range if the function falls there; else at its minimum."""
    for wanted, expected in ((0.01, 0.25), (1.7, 1.7), (100, 4)):
        found, value = confusion.minimise_over_temperature(lambda x, w=wanted: (x - np.log(w)) ** 2)
        assert np.exp(found) == pytest.approx(expected, rel=0.05)
        assert value == pytest.approx((found - np.log(wanted)) ** 2)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 40), st.integers(2, 6), st.integers(0, 10_000))
def test_transition_and_posterior_are_distributions_for_any_input(rows, classes, seed):
    rng = np.random.default_rng(seed)
    probability = rng.dirichlet(np.full(classes, 0.1), rows)
    labels = rng.integers(0, classes, rows)
    noise = ConfusionModel.fit(probability, labels)
    assert np.array(noise.transition).sum(1) == pytest.approx(1)
    assert noise.posterior(probability, labels).sum(1) == pytest.approx(1, abs=1e-5)
    assert ConfusionModel.model_validate_json(noise.model_dump_json()) == noise


def test_em_raises_the_likelihood_and_stays_at_its_fixed_point():
    probability, _, labels = population(0.3, rows=500)
    em = TransitionEM(labels, 4)
    fitted = em.fit_transition(probability, em.initial_transition())
    before = mean_log_likelihood(probability, labels, em.initial_transition())
    assert mean_log_likelihood(probability, labels, fitted) > before
    assert em.fit_transition(probability, fitted) == pytest.approx(fitted, abs=2e-3)


def test_sums_by_given_class():
    values = np.array([[1.0, 2, 0, 0], [3, 4, 0, 0], [5, 6, 0, 0]])
    sums = TransitionEM(np.array([2, 0, 2]), 4).sum_by_given(values)
    assert sums[:, :2].tolist() == [[3, 4], [0, 0], [6, 8], [0, 0]]


def test_the_symmetric_likelihood_allows_for_wrong_labels_and_for_an_overconfident_model():
    probability, _, labels = population(0.2)
    value = symmetric_noise_log_likelihood(probability, labels)
    assert symmetric_noise_log_likelihood(
        with_temperature(probability, 0.5), labels
    ) == pytest.approx(value, abs=0.005)
    blunt = 0.7 * probability + 0.3 / 4  # knows less
    assert symmetric_noise_log_likelihood(with_temperature(blunt[:, ::-1], 1), labels) < value
    plain = np.log(with_temperature(probability, 0.3)[np.arange(len(labels)), labels]).mean()
    assert value > plain


def test_the_symmetric_likelihood_is_the_largest_over_rate_and_temperature():
    """By brute force over a grid."""
    probability, _, labels = population(0.2, rows=300)
    best = -np.inf
    for temperature in np.geomspace(0.25, 4, 60):
        tempered = with_temperature(probability, temperature)
        correct = tempered[np.arange(300), labels]
        for rate in np.linspace(0, 0.9, 91):
            chance = (1 - rate) * correct + rate * (1 - correct) / 3
            best = max(best, np.log(np.maximum(chance, 1e-300)).mean())
    assert symmetric_noise_log_likelihood(probability, labels) == pytest.approx(best, abs=2e-3)


def test_a_class_without_wrong_labels_has_none_on_difficult_rows_either():
    perfect = ((1.0, 0.0, 0.0), (0.0, 0.9, 0.1), (0.2, 0.0, 0.8))
    model = ConfusionModel(temperature=1, transition=perfect, slope=2.0, affinity=0.5)
    expected = np.array([[0.4, 0.3, 0.3], [0.98, 0.01, 0.01]])
    likelihood = np.stack([model.likelihood(expected, np.full(2, label)) for label in range(3)])
    np.testing.assert_allclose(likelihood.sum(0), 1)  # over the labels that could be given
    np.testing.assert_allclose(likelihood[:, :, 0].T, [[1, 0, 0]] * 2, atol=1e-9)


@pytest.mark.parametrize("compute", [ConfusionModel.posterior, ConfusionModel.log_likelihood])
def test_many_rows_are_computed_in_pieces(compute, monkeypatch):
    probability, _, labels = population(0.2, rows=301)
    factor, slope = (1.2, 0.9, 1.0, 0.9), {"slope": 1.5, "affinity": 0.7, "difficulty": 0.3}
    fitted = ConfusionModel.fit(probability, labels)
    noise = fitted.model_copy(update={"factor": factor, **slope})
    whole = compute(noise, probability, labels)
    monkeypatch.setattr(confusion, "NUMBERS_AT_ONCE", 4 * 50)
    np.testing.assert_allclose(compute(noise, probability, labels), whole, rtol=1e-6)


def test_the_number_of_em_steps_is_bounded(monkeypatch):
    """Also where they do not settle: what is returned is a transition."""
    probability, _, labels = population(0.3, rows=400)
    settled = TransitionEM(labels, 4)
    full = settled.fit_transition(probability, settled.initial_transition())
    monkeypatch.setattr(confusion, "EM_TOLERANCE", 0.0)
    for steps in (1, 5):
        monkeypatch.setattr(confusion, "MAX_EM_STEPS", steps)
        found = settled.fit_transition(probability, settled.initial_transition())
        assert found.sum(1) == pytest.approx(np.ones(4))
        assert np.abs(found - full).max() > 1e-4


@pytest.mark.parametrize(
    "changed",
    [
        {"transition": [[1.0, 0.0]]},
        {"transition": [[1.0], [0.0, 1.0]]},
        {"factor": [1.0, 1.0, 1.0]},
        {"temperature": 0.0},
    ],
)
def test_a_stored_model_that_does_not_fit_itself_is_refused(changed):
    good = {"temperature": 1.0, "transition": [[1.0, 0.0], [0.2, 0.8]], "factor": [1.0, 1.0]}
    assert checked(ConfusionModel, good, where="noise.json").temperature == 1
    with pytest.raises(InputError, match=r"noise.json: "):
        checked(ConfusionModel, good | changed, where="noise.json")


@pytest.mark.parametrize(("curvature", "low"), [(50.0, 0.3 - 0.196), (0.1, np.log(0.25))])
def test_the_lowest_likely_temperature_is_the_lower_end_of_its_interval(curvature, low):
    """c·(t − 0.3)² rises by 1.92 at 0.3 ± √(1.92 / c); a flat function ends at the lowest T."""
    found = confusion.lowest_likely_temperature(lambda t: 3 + curvature * (t - 0.3) ** 2)
    assert np.log(found) == pytest.approx(low, abs=2 * confusion.LOG_TEMPERATURE_TOLERANCE)
