"""Each update of the EM for noise by row is a Newton step: compared with numerical derivatives."""

from dataclasses import replace

import numpy as np
import pytest

from ulc.labels import row_noise
from ulc.labels.confusion import RowNoise, RowTerms
from ulc.labels.row_noise import LOWEST_TEMPERATURE, ONE_JUDGE, RowNoiseEM, deconvolve

K, ROWS, POOLED = 3, 60, 0.2
STEP = 1e-3


@pytest.fixture
def state(monkeypatch):
    """An EM in the middle of its work, with what a step computes first."""
    monkeypatch.setattr(row_noise, "FEWEST_ROWS", 20)
    rng = np.random.default_rng(0)
    probability = rng.dirichlet(np.ones(K), ROWS)
    drawn = (rng.random(ROWS)[:, None] > probability.cumsum(1)).sum(1).clip(0, K - 1)
    given = np.where(rng.random(ROWS) < 0.2, (drawn + 1) % K, drawn)
    em = RowNoiseEM(probability, given, priors=replace(ONE_JUDGE, slope=1.0))
    em.log_odds = np.array([-1.0, -0.5, -1.5])
    em.pairs = np.array([[0, 0.3, 0.7], [0.5, 0, 0.5], [0.9, 0.1, 0]])
    em.slope, em.affinity, em.power = 0.3, 0.2, 0.9
    em.factor = np.array([0.8, 1.0, 1.2])
    expected = em.expected()
    terms = RowTerms.of(expected, em.noise)
    return em, expected, terms, em.posterior(expected, terms)


def derivatives(objective, at):
    """First and second derivative by central differences."""
    low, middle, high = (objective(at + move) for move in (-STEP, 0, STEP))
    return (high - low) / (2 * STEP), (high - 2 * middle + low) / STEP**2


def newton(objective, at):
    """First derivative over the size of the second."""
    slope, curvature = derivatives(objective, at)
    return slope / abs(curvature)


def expected_log_likelihood(em, expected, posterior, **changes):
    """Σ_i Σ_k posterior · log P(given_i | true = k, x_i), with other parameters of the noise."""
    known = {"log_odds": em.log_odds, "pairs": em.pairs, "slope": em.slope, "affinity": em.affinity}
    likelihood = RowTerms.of(expected, RowNoise(**known | changes)).likelihood(em.given)
    return (posterior * np.log(np.maximum(likelihood, 1e-300))).sum()


def test_the_affinity_takes_a_newton_step_with_its_prior(state):
    em, expected, terms, posterior = state
    precision = 0.1 * ROWS

    def objective(affinity):
        fit = expected_log_likelihood(em, expected, posterior, affinity=affinity)
        return fit - precision * affinity**2 / 2

    step = newton(objective, em.affinity)
    assert 0.01 < abs(step) < 0.2
    em.update_affinity(terms, posterior * (1 - em.one_hot))
    assert em.affinity == pytest.approx(0.2 + step, rel=1e-3)


@pytest.mark.parametrize(
    ("before", "push", "after"),
    [(0.0, 1, 0.2), (1.95, 1, 2.0), (0.0, -1, -0.2), (-0.95, -1, -1.0)],
)
def test_the_affinity_moves_by_a_fifth_at_most_and_stays_in_its_range(state, before, push, after):
    em, _, terms, _ = state
    em.affinity = before
    logs = terms.logs
    likely = logs[np.arange(ROWS), em.given][:, None] > logs  # wrong labels name likely classes
    em.pairs = np.full((K, K), 1 / K)
    em.update_affinity(terms, np.where(likely == (push > 0), 1e9, 0) * (1 - em.one_hot))
    assert em.affinity == pytest.approx(after)


def test_the_error_rates_take_newton_steps_with_their_pseudo_counts(state):
    em, expected, terms, posterior = state
    before = em.log_odds.copy()

    def objective(value, k):
        odds = before.copy()
        odds[k] = value
        chance = 1 / (1 + np.exp(-value))
        prior = 100 * (POOLED * np.log(chance) + (1 - POOLED) * np.log(1 - chance))
        return (
            expected_log_likelihood(em, expected, posterior, log_odds=odds)
            + prior
            + np.log(1 - chance)
        )

    steps = [newton(lambda value, k=k: objective(value, k), before[k]) for k in range(K)]

    def of_slope(slope):
        fit = expected_log_likelihood(em, expected, posterior, slope=slope)
        return fit - ROWS * slope**2 / 2

    slope_step = newton(of_slope, em.slope)
    em.update_error(terms, posterior, posterior * (1 - em.one_hot), POOLED)
    assert em.log_odds == pytest.approx(before + np.clip(steps, -1, 1), rel=1e-3)
    assert em.slope == pytest.approx(0.3 + np.clip(slope_step, -1, 1), rel=1e-3)
    assert max(map(abs, [*steps, slope_step])) < 1


def test_the_power_takes_a_newton_step_on_the_likelihood_of_the_labels(state):
    """The prior of log(1/T) is normal around log(1/0.6) and counts as 1/N of the mean over rows.

    Its slope in the power u is −log(0.6·u) / (0.3² · u), its curvature is taken as 1 / (0.3² · u²).
    """
    em, _, terms, _ = state
    em.power = at = 1.4
    expected, likelihood = em.expected(), terms.likelihood(em.given)

    def fit(power):
        scaled = np.exp(power * em.logs + np.log(em.factor))
        return np.log((scaled / scaled.sum(1, keepdims=True) * likelihood).sum(1)).mean()

    slope, curvature = derivatives(fit, at)
    slope -= np.log(0.6 * at) / (0.3**2 * at * ROWS)
    step = slope / (abs(curvature) + 1 / (0.3**2 * at**2 * ROWS))
    assert 0.01 < abs(step) < at / 5
    em.update_temperature(expected, em.posterior(expected, terms))
    assert em.power == pytest.approx(at + step, rel=1e-3)


@pytest.mark.parametrize(("rows", "low", "high"), [(30, 0.5, 0.7), (30_000, 0.9, 1.1)])
def test_few_rows_have_the_typical_temperature_and_many_their_own(rows, low, high):
    """Predictions that are right (T = 1), of labels with 10 % symmetric noise."""
    rng = np.random.default_rng(0)
    probability = rng.dirichlet(np.full(K, 0.3), rows)
    true = (rng.random(rows)[:, None] > probability.cumsum(1)).sum(1).clip(0, K - 1)
    given = np.where(rng.random(rows) < 0.1, (true + rng.integers(1, K, rows)) % K, true)
    assert low < RowNoiseEM(probability, given).fit().temperature < high


@pytest.mark.parametrize("push", [-1, 1])
def test_the_power_moves_by_a_fifth_at_most_and_stays_in_its_range(state, push):
    em, expected, _, _ = state
    sure = np.eye(K)[em.logs.argmax(1) if push > 0 else em.logs.argmin(1)]
    em.update_temperature(expected, sure)
    assert em.power == pytest.approx(0.9 * (1 + push / 5))
    em.power = 3.9 if push > 0 else 0.26
    em.update_temperature(expected, sure)
    assert em.power == (4.0 if push > 0 else 0.25)


def test_pairs_are_scaled_to_the_expected_counts_by_hand(state):
    em, _, terms, posterior = state
    wrong = posterior * (1 - em.one_hot)
    counts = posterior.T @ em.one_hot
    pseudo = 100 * POOLED
    by_hand = np.zeros((K, K))
    for true in range(K):
        for label in range(K):
            chances = sum(
                wrong[row, true] / terms.total[row, true] * terms.preference[row, label]
                for row in range(ROWS)
            )
            if true != label:
                by_hand[true, label] = (counts[true, label] + pseudo / (K - 1)) / (chances + pseudo)
    em.update_pairs(terms, wrong, counts, POOLED)
    np.testing.assert_allclose(em.pairs, by_hand / by_hand.sum(1, keepdims=True))


def test_factors_move_half_way_to_the_frequencies_that_the_labels_imply(state):
    """Half way: by the square root of the ratio of the frequencies."""
    em, _, _, posterior = state
    counts = posterior.T @ em.one_hot
    smoothed = counts + np.eye(K)
    for true in range(K):
        for label in range(K):
            smoothed[true, label] += 100 * ((1 - POOLED) if true == label else POOLED / (K - 1))
    smoothed /= smoothed.sum(1, keepdims=True)
    wanted = np.maximum(deconvolve(em.shares, smoothed), 1 / ROWS)
    factor = np.array([0.8, 1.0, 1.2]) * np.sqrt(wanted / posterior.mean(0))
    em.update_factor(counts, posterior, POOLED)
    np.testing.assert_allclose(em.factor, factor / factor.mean())


def test_a_step_of_em_makes_each_update_once_from_the_same_posterior(state, monkeypatch):
    """Pooled error: the expected share of wrong labels, with ten right ones more."""
    em, expected, terms, posterior = state
    monkeypatch.setattr(row_noise, "STEPS", 1)
    by_hand = RowNoiseEM(np.exp(em.logs), em.given, priors=em.priors)
    by_hand.__dict__.update({name: np.copy(value) for name, value in em.__dict__.items()
                             if isinstance(value, np.ndarray)})  # fmt: skip
    by_hand.slope, by_hand.affinity, by_hand.power = em.slope, em.affinity, em.power
    wrong = np.where(em.one_hot == 1, 0, posterior)
    counts = np.array([[posterior[em.given == j, k].sum() for j in range(K)] for k in range(K)])
    pooled = wrong.sum() / (ROWS + 10)
    by_hand.update_affinity(terms, wrong)
    by_hand.update_pairs(terms, wrong, counts, pooled)
    by_hand.update_error(terms, posterior, wrong, pooled)
    by_hand.update_temperature(expected, posterior)
    by_hand.update_factor(counts, posterior, pooled)
    em.fit()
    for name in ("slope", "affinity", "power", "log_odds", "pairs", "factor"):
        np.testing.assert_allclose(getattr(em, name), getattr(by_hand, name), err_msg=name)


def test_em_begins_with_even_noise_of_a_tenth_and_ends_when_it_stands_still(monkeypatch):
    rng = np.random.default_rng(0)
    em = RowNoiseEM(rng.dirichlet(np.ones(K), ROWS), rng.integers(0, K, ROWS))
    assert 1 / (1 + np.exp(-em.log_odds)) == pytest.approx([0.1] * K)
    np.testing.assert_allclose(em.pairs, (1 - np.eye(K)) / 2)
    assert (em.slope, em.affinity, em.power, em.factor.tolist()) == (0, 0, 1, [1] * K)
    np.testing.assert_allclose(em.expected(), np.exp(em.logs))
    calls = []
    monkeypatch.setattr(em, "moved", lambda *before: calls.append(before) or 0.0)
    em.fit()
    assert len(calls) == 1
    assert calls[0][:2] == (0, 0)


def test_the_largest_change_counts(state):
    em, _, _, _ = state
    same = em.factor.copy()
    assert em.moved(em.slope, em.affinity, same) == 0
    assert em.moved(em.slope - 0.5, em.affinity, same) == pytest.approx(0.5)
    assert em.moved(em.slope, em.affinity + 0.4, same) == pytest.approx(0.4)
    assert em.moved(em.slope, em.affinity, same * [1, 2, 1]) == pytest.approx(np.log(2))


def test_the_model_has_the_parameters_of_the_last_step(state):
    em, expected, terms, _ = state
    model = em.model()
    error = 1 / (1 + np.exp(-em.log_odds))
    for true in range(K):
        for label in range(K):
            wanted = 1 - error[true] if true == label else error[true] * em.pairs[true, label]
            assert model.transition[true][label] == pytest.approx(wanted)
    assert model.temperature == pytest.approx(1 / 0.9)
    assert model.factor == pytest.approx(em.factor)
    assert model.difficulty == pytest.approx(terms.mean_difficulty)
    np.testing.assert_allclose(model.expected(np.exp(em.logs)), expected, rtol=1e-6)
    likelihood = model.likelihood(expected, em.given)
    np.testing.assert_allclose(likelihood, terms.likelihood(em.given), rtol=1e-6)
    total = sum(model.likelihood(expected, np.full(ROWS, label)) for label in range(K))
    np.testing.assert_allclose(total, 1)


@pytest.mark.parametrize(("reluctance", "power"), [(0.0, 1 / LOWEST_TEMPERATURE), (10.0, 1 / 1.05)])
def test_the_temperature_is_low_only_if_labels_ask_for_it_enough(state, reluctance, power):
    """Labels that are always the likeliest class would make any prediction sharper."""
    em, expected, _, _ = state
    em.priors = replace(ONE_JUDGE, low_temperature=1.05, reluctance=reluctance)
    likeliest = np.eye(K)[expected.argmax(1)]
    for _ in range(60):
        em.update_temperature(expected, likeliest)
    assert em.power == pytest.approx(power)


def test_above_the_low_temperature_reluctance_changes_nothing(state):
    em, expected, _, posterior = state
    em.priors = replace(ONE_JUDGE, low_temperature=0.3, reluctance=10.0)
    em.update_temperature(expected, posterior)
    reluctant, em.power, em.priors = em.power, 0.9, ONE_JUDGE
    em.update_temperature(expected, posterior)
    assert em.power == reluctant
