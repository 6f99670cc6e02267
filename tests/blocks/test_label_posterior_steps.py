"""Each update of the EM for label noise is a Newton step: compared with numerical derivatives."""

from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ulc.blocks import label_posterior
from ulc.blocks.label_posterior import AnchoredConfusion, deconvolve
from ulc.blocks.noise_priors import TEMPERATURES, Priors
from ulc.blocks.row_noise import Examples, ExpectedSums
from ulc.labels.confusion import RowNoise, RowTerms

CPU = torch.device("cpu")
K, ROWS = 3, 60
POOLED = torch.tensor(0.2, dtype=torch.float64)
STEP = 1e-3
ONE_MATRIX = Priors(slope=None, affinity=None)


def new_model(**options):
    return AnchoredConfusion(K, CPU, dtype=torch.float64, **options)


def changed(model, **values):
    """A copy of the model with other parameters."""
    copy = deepcopy(model)
    for name, value in values.items():
        buffer = getattr(copy, name)
        buffer.copy_(torch.as_tensor(value, dtype=buffer.dtype))
    return copy


@pytest.fixture
def state(monkeypatch):
    """An EM in the middle of its work, with what a step computes first."""
    monkeypatch.setattr(label_posterior, "FEWEST_ROWS", 20)
    rng = np.random.default_rng(0)
    probability = rng.dirichlet(np.ones(K), ROWS)
    drawn = (rng.random(ROWS)[:, None] > probability.cumsum(1)).sum(1).clip(0, K - 1)
    given = torch.tensor(np.where(rng.random(ROWS) < 0.2, (drawn + 1) % K, drawn))
    model = changed(
        new_model(priors=Priors(slope=1.0)), inverse_temperature=0.9, factor=[0.8, 1.0, 1.2]
    )
    logs = torch.tensor(probability).log()
    model.centre_difficulty(Examples(logs, given, None))
    model = changed(
        model,
        log_odds=[-1.0, -0.5, -1.5],
        pairs=[[0, 0.3, 0.7], [0.5, 0, 0.5], [0.9, 0.1, 0]],
        slope=0.3,
        affinity=0.2,
    )
    return expect(SimpleNamespace(model=model, logs=logs, given=given))


def expect(state):
    """The state with its expectation step: what the rows depend on, posterior and sums."""
    state.rows = state.model.row_terms(state.logs)
    state.posterior = state.model.posterior_of(state.logs, state.given, None)
    state.sums = state.model.expect(Examples(state.logs, state.given, None))
    return state


def sums_of(state, posterior):
    """What an expectation step would leave, had it found this posterior."""
    sums = ExpectedSums.zeros(state.model.pairs)
    sums.add(state.rows, state.given, posterior, state.model.pairs)
    return sums


def one_hot(classes):
    return torch.eye(K, dtype=torch.float64)[classes]


def derivatives(objective, at):
    """First and second derivative by central differences."""
    low, middle, high = (objective(at + move) for move in (-STEP, 0, STEP))
    return (high - low) / (2 * STEP), (high - 2 * middle + low) / STEP**2


def newton(objective, at):
    """First derivative over the size of the second."""
    slope, curvature = derivatives(objective, at)
    return slope / abs(curvature)


def noise_likelihood(state, **changes):
    """(N, K) P(given_i | true = k, x_i) by `ulc.labels.confusion`, with other parameters."""
    model = state.model
    known = {
        "log_odds": model.log_odds.numpy().copy(), "pairs": model.pairs.numpy().copy(),
        "slope": float(model.slope), "affinity": float(model.affinity),
    }  # fmt: skip
    expected = model.expected_class(state.logs).numpy()
    terms = RowTerms.of(expected, RowNoise(**known | changes), float(model.difficulty))
    return terms.likelihood(state.given.numpy())


def expected_log_likelihood(state, **changes):
    """Σ_i Σ_k posterior · log P(given_i | true = k, x_i), with other parameters of the noise."""
    likelihood = noise_likelihood(state, **changes)
    return (state.posterior.numpy() * np.log(np.maximum(likelihood, 1e-300))).sum()


def test_the_likelihood_is_that_of_a_stored_model(state):
    found = state.model.likelihood(state.rows, state.given)
    np.testing.assert_allclose(found, noise_likelihood(state), rtol=1e-7)


def test_the_affinity_takes_a_newton_step_with_its_prior(state):
    model, precision = state.model, 0.1 * ROWS

    def objective(affinity):
        fit = expected_log_likelihood(state, affinity=affinity)
        return fit - precision * affinity**2 / 2

    step = newton(objective, 0.2)
    assert 0.01 < abs(step) < 0.2
    model.update_affinity(state.sums, ROWS)
    assert float(model.affinity) == pytest.approx(0.2 + step, rel=1e-3)


@pytest.mark.parametrize(
    ("before", "push", "after"),
    [(0.0, 1, 0.2), (1.95, 1, 2.0), (0.0, -1, -0.2), (-0.95, -1, -1.0)],
)
def test_the_affinity_moves_by_a_fifth_at_most_and_stays_in_its_range(state, before, push, after):
    state.model = changed(state.model, affinity=before)
    logs = state.rows.affinity.logs
    likely = logs.gather(1, state.given[:, None]) > logs  # wrong labels name likely classes
    sums = sums_of(state, torch.where(likely == (push > 0), 1e9, 0.0).double())
    state.model.update_affinity(sums, ROWS)
    assert float(state.model.affinity) == pytest.approx(after)


def test_the_error_rates_take_newton_steps_with_their_pseudo_counts(state):
    model, pooled = state.model, float(POOLED)
    before = model.log_odds.numpy().copy()

    def objective(value, k):
        odds = before.copy()
        odds[k] = value
        chance = 1 / (1 + np.exp(-value))
        prior = 100 * (pooled * np.log(chance) + (1 - pooled) * np.log(1 - chance))
        return expected_log_likelihood(state, log_odds=odds) + prior + np.log(1 - chance)

    steps = [newton(lambda value, k=k: objective(value, k), before[k]) for k in range(K)]

    def of_slope(slope):
        return expected_log_likelihood(state, slope=slope) - ROWS * slope**2 / 2

    slope_step = newton(of_slope, 0.3)
    model.update_error(state.sums, POOLED, ROWS)
    assert model.log_odds.numpy() == pytest.approx(before + steps, rel=1e-3)
    assert float(model.slope) == pytest.approx(0.3 + slope_step, rel=1e-3)
    assert max(map(abs, [*steps, slope_step])) < 1


@pytest.mark.parametrize("push", [-1e9, 1e9])
def test_the_error_rates_and_their_slope_move_by_one_at_most(state, push):
    model, one = state.model, np.sign(push)
    before = model.log_odds.clone()
    pushed = {"excess": push * torch.ones(K), "slope_rise": torch.tensor(push)}
    model.update_error(replace(state.sums, **pushed), POOLED, ROWS)
    torch.testing.assert_close(model.log_odds, before + one)
    assert float(model.slope) == pytest.approx(0.3 + one)


def test_priors_for_each_row_count_as_for_the_fewest_rows_at_least(state, monkeypatch):
    """Of 60 rows the priors of 600 have ten times the precision."""
    monkeypatch.setattr(label_posterior, "FEWEST_ROWS", 600)
    model, precise = state.model, deepcopy(state.model)
    precise.priors = Priors(slope=10.0, affinity=1.0)
    model.update_affinity(state.sums, ROWS)
    model.update_error(state.sums, POOLED, ROWS)
    monkeypatch.setattr(label_posterior, "FEWEST_ROWS", 20)
    precise.update_affinity(state.sums, ROWS)
    precise.update_error(state.sums, POOLED, ROWS)
    torch.testing.assert_close(model.affinity, precise.affinity)
    torch.testing.assert_close(model.slope, precise.slope)


def test_the_power_takes_a_newton_step_on_the_likelihood_of_the_labels(state):
    """The prior of log(1/T) is normal around log(1/0.6) and counts as 1/N of the mean over rows.

    Its slope in the power u is −log(0.6·u) / (0.3² · u), its curvature is taken as 1 / (0.3² · u²).
    """
    at = 1.4
    state.model = model = changed(state.model, inverse_temperature=at)
    likelihood = noise_likelihood(expect(state))

    def fit(power):
        scaled = np.exp(power * state.logs.numpy()) * model.factor.numpy()
        return np.log((scaled / scaled.sum(1, keepdims=True) * likelihood).sum(1)).mean()

    slope, curvature = derivatives(fit, at)
    slope -= np.log(0.6 * at) / (0.3**2 * at * ROWS)
    step = slope / (abs(curvature) + 1 / (0.3**2 * at**2 * ROWS))
    assert 0.01 < abs(step) < at / 5
    model.update_temperature(state.sums, ROWS)
    assert float(model.inverse_temperature) == pytest.approx(at + step, rel=1e-3)


@pytest.mark.parametrize(("rows", "low", "high"), [(30, 0.5, 0.7), (30_000, 0.9, 1.1)])
def test_few_rows_have_the_typical_temperature_and_many_their_own(rows, low, high):
    """Predictions that are right (T = 1), of labels with 10 % symmetric noise."""
    rng = np.random.default_rng(0)
    probability = rng.dirichlet(np.full(K, 0.3), rows)
    true = (rng.random(rows)[:, None] > probability.cumsum(1)).sum(1).clip(0, K - 1)
    given = np.where(rng.random(rows) < 0.1, (true + rng.integers(1, K, rows)) % K, true)
    model = new_model()
    model.update(torch.tensor(np.maximum(probability, 1e-30)).log(), torch.tensor(given), None)
    assert low < model.stored().temperature < high


@pytest.mark.parametrize("push", [-1, 1])
def test_the_power_moves_by_a_fifth_at_most_and_stays_in_its_range(state, push):
    sure = one_hot(state.logs.argmax(1) if push > 0 else state.logs.argmin(1))
    sums = sums_of(state, sure)
    state.model.update_temperature(sums, ROWS)
    assert float(state.model.inverse_temperature) == pytest.approx(0.9 * (1 + push / 5))
    extreme = changed(state.model, inverse_temperature=3.9 if push > 0 else 0.26)
    extreme.update_temperature(sums, ROWS)
    assert float(extreme.inverse_temperature) == (4.0 if push > 0 else 0.25)


def test_pairs_are_scaled_to_the_expected_counts_by_hand(state):
    posterior, given, pseudo = state.posterior, state.given, 100 * float(POOLED)
    by_hand = np.zeros((K, K))
    for true in range(K):
        for label in range(K):
            wrong = [row for row in range(ROWS) if given[row] != true]
            count = sum(float(posterior[row, true]) for row in wrong if given[row] == label)
            chances = sum(
                float(posterior[row, true] / state.rows.affinity.total[row, true])
                * float(state.rows.affinity.preference[row, label])
                for row in wrong
            )
            if true != label:
                by_hand[true, label] = (count + pseudo / (K - 1)) / (chances + pseudo)
    state.model.update_pairs(state.sums, POOLED)
    np.testing.assert_allclose(state.model.pairs, by_hand / by_hand.sum(1, keepdims=True))


def test_factors_move_half_way_to_the_frequencies_that_the_labels_imply(state):
    """Half way: by the square root of the ratio of the frequencies."""
    model, posterior, pooled = state.model, state.posterior, float(POOLED)
    counts = posterior.T @ one_hot(state.given)
    shares = one_hot(state.given).mean(0)
    smoothed = counts + torch.eye(K)
    for true in range(K):
        for label in range(K):
            smoothed[true, label] += 100 * ((1 - pooled) if true == label else pooled / (K - 1))
    smoothed /= smoothed.sum(1, keepdim=True)
    wanted = deconvolve(shares, smoothed).clamp(min=1 / ROWS)
    factor = model.factor * (wanted / posterior.mean(0)).sqrt()
    model.update_frequencies(shares, state.sums.counts, POOLED)
    torch.testing.assert_close(model.frequency, wanted)
    torch.testing.assert_close(model.factor, factor / factor.mean())


def test_a_class_with_a_label_is_at_least_as_frequent_as_one_row(state):
    """Nobody gave class 2: its frequency is 0 and its factor the smallest."""
    shares = torch.tensor([1 - 1e-9, 1e-9, 0.0], dtype=torch.float64)
    counts = torch.diag(torch.tensor([ROWS - 2.0, 1.0, 1.0], dtype=torch.float64))
    for _ in range(60):
        state.model.update_frequencies(shares, counts, torch.zeros_like(POOLED))
    assert float(state.model.frequency[1]) == pytest.approx(1 / ROWS)
    assert float(state.model.frequency[2]) < 1e-9
    assert float(state.model.factor[2]) == pytest.approx(1e-3)


@pytest.mark.parametrize("anchored", [True, False])
def test_a_step_of_em_makes_each_update_once_from_the_same_posterior(state, monkeypatch, anchored):
    """Pooled error: the expected share of wrong labels, with ten right ones more."""
    monkeypatch.setattr(label_posterior, "MAX_STEPS", 1)
    model, given = state.model, state.given
    model.anchored = anchored
    by_hand = deepcopy(model)
    wrong = torch.where(one_hot(given) == 1, 0, state.posterior)
    pooled = wrong.sum() / (ROWS + 10)
    if anchored:
        by_hand.update_frequencies(one_hot(given).mean(0), state.sums.counts, pooled)
    by_hand.update_temperature(state.sums, ROWS)
    by_hand.update_error(state.sums, pooled, ROWS)
    by_hand.update_pairs(state.sums, pooled)
    by_hand.update_affinity(state.sums, ROWS)
    by_hand.updates.add_(1)
    model.update(state.logs, given, None)
    for name, value in by_hand.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value, msg=name)


def test_the_posterior_is_that_of_the_last_parameters(state):
    trust = state.model.update(state.logs, state.given, None)
    posterior = state.model.posterior_of(state.logs, state.given, None)
    assert torch.equal(trust, posterior[torch.arange(ROWS), state.given])
    rows = state.model.row_terms(state.logs)
    torch.testing.assert_close(posterior, state.model.posterior(rows, state.given, None))
    joint = rows.expected * state.model.likelihood(rows, state.given)
    torch.testing.assert_close(posterior, joint / joint.sum(1, keepdim=True))


def test_em_begins_with_even_noise_of_a_tenth_and_predictions_as_they_are(state):
    model = new_model()
    torch.testing.assert_close(model.log_odds.sigmoid(), torch.full((K,), 0.1).double())
    torch.testing.assert_close(model.pairs, (1 - torch.eye(K).double()) / 2)
    assert [float(each) for each in (model.slope, model.affinity)] == [0, 0]
    assert float(model.inverse_temperature) == 1
    assert model.factor.tolist() == [1] * K
    torch.testing.assert_close(model.expected_class(state.logs), state.logs.exp())


@pytest.mark.parametrize(
    ("updates", "moves"),
    [
        (0, [0.0]), (0, [1.0, 0.002, 0.0009]), (0, [-1.0, -0.0009]), (0, [0.002] * 60),
        (1, [0.002, 0.0009]), (1, [0.002] * 10), (7, [0.002] * 10),
    ],
)  # fmt: skip
def test_em_ends_when_it_stands_still_or_after_sixty_steps_and_later_ten(
    state, monkeypatch, updates, moves
):
    """Moves: largest change of a parameter, in each step; updates: how many there were before."""
    model, made = changed(state.model, updates=updates), []
    values = iter([value for move in moves for value in (0.0, move)])
    monkeypatch.setattr(model, "parameters_now", lambda: torch.tensor([0.0, next(values)]))
    update = model.update_affinity
    monkeypatch.setattr(model, "update_affinity", lambda *each: made.append(1) or update(*each))
    model.update(state.logs, state.given, None)
    assert len(made) == len(moves)
    assert int(model.updates) == updates + 1


def test_the_largest_change_of_any_parameter_counts(state):
    model = state.model

    def moved(**values):
        other = changed(model, **values)
        return float((other.parameters_now() - model.parameters_now()).abs().max())

    assert moved() == 0
    assert moved(slope=0.8) == pytest.approx(0.5)
    assert moved(affinity=-0.2) == pytest.approx(0.4)
    assert moved(factor=[0.8, 2.0, 1.2]) == pytest.approx(np.log(2))
    assert moved(log_odds=[-1.0, 0.0, -1.5]) == pytest.approx(0.5 - 1 / (1 + np.exp(0.5)))
    even = [[0, 0.5, 0.5], [0.5, 0, 0.5], [0.9, 0.1, 0]]
    assert moved(pairs=even) == pytest.approx(0.2 / (1 + np.exp(1.0)))


def test_the_stored_model_has_the_parameters_of_the_last_step(state):
    model, stored = state.model, state.model.stored()
    error = model.log_odds.sigmoid()
    for true in range(K):
        for label in range(K):
            wanted = 1 - error[true] if true == label else error[true] * model.pairs[true, label]
            assert stored.transition[true][label] == pytest.approx(float(wanted))
    assert stored.temperature == pytest.approx(1 / 0.9)
    assert stored.factor == pytest.approx([0.8, 1.0, 1.2])
    assert (stored.slope, stored.affinity) == pytest.approx((0.3, 0.2))
    assert stored.difficulty == pytest.approx(float(model.difficulty))
    probability, given = state.logs.exp().numpy(), state.given.numpy()
    expected = stored.expected(probability)
    np.testing.assert_allclose(expected, state.rows.expected, rtol=1e-6)
    likelihood = stored.likelihood(expected, given)
    np.testing.assert_allclose(
        likelihood, model.likelihood(state.rows, state.given).numpy(), rtol=1e-6
    )
    total = sum(stored.likelihood(expected, np.full(ROWS, label)) for label in range(K))
    np.testing.assert_allclose(total, 1)


@pytest.mark.parametrize("by_row", [True, False])
@pytest.mark.parametrize("steps", [0, 60])
def test_the_stored_model_has_the_same_posterior(state, monkeypatch, by_row, steps):
    """Before, and after the model is fitted."""
    monkeypatch.setattr(label_posterior, "MAX_STEPS", steps)
    model = state.model if by_row else new_model(priors=ONE_MATRIX)
    model.update(state.logs, state.given, None)
    posterior = model.posterior_of(state.logs, state.given, None)
    again = model.stored().posterior(state.logs.exp().numpy(), state.given.numpy())
    np.testing.assert_allclose(again, posterior, rtol=1e-5, atol=1e-7)


def test_another_centre_of_the_difficulty_is_the_same_model(state):
    """The odds of an error at the centre move along."""
    model, examples = state.model, Examples(state.logs, state.given, None)
    torch.testing.assert_close(state.rows.difficulty.mean(), torch.zeros_like(model.slope))
    moved = changed(
        model, difficulty=model.difficulty + 0.3, log_odds=model.log_odds + 0.3 * model.slope
    )
    before = moved.likelihood(moved.row_terms(state.logs), state.given)
    torch.testing.assert_close(before, model.likelihood(state.rows, state.given))
    moved.centre_difficulty(examples)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(moved.state_dict()[name], value, msg=name)
    after = moved.likelihood(moved.row_terms(state.logs), state.given)
    torch.testing.assert_close(after, before)


def test_the_centre_is_the_mean_difficulty_when_the_fit_began(state):
    """Difficulty: entropy of the expected class, as a share of log K."""
    e = state.model.expected_class(state.logs)
    mean = float(-(e * e.log()).sum(1).mean() / np.log(K))
    assert float(state.model.difficulty) == pytest.approx(mean)
    state.model.update(state.logs, state.given, None)
    assert float(state.model.difficulty) == pytest.approx(mean)


@pytest.mark.parametrize("slope", [1.0, None])
@pytest.mark.parametrize("affinity", [0.1, None])
def test_without_their_priors_slope_and_affinity_stay_zero(state, slope, affinity):
    model = new_model(priors=Priors(slope=slope, affinity=affinity))
    model.update(state.logs, state.given, None)
    assert (float(model.slope) == 0) is (slope is None)
    assert (float(model.affinity) == 0) is (affinity is None)


@pytest.mark.parametrize(
    ("none", "strong"),
    [
        (Priors(slope=1.0, affinity=None), Priors(slope=1.0, affinity=1e15)),
        (Priors(slope=None, affinity=0.1), Priors(slope=1e15, affinity=0.1)),
        (ONE_MATRIX, Priors(slope=1e15, affinity=1e15)),
    ],
)
def test_no_prior_is_the_same_as_one_that_keeps_the_parameter_at_zero(state, none, strong):
    models = [new_model(priors=priors) for priors in (none, strong)]
    for model in models:
        model.update(state.logs, state.given, None)
    posteriors = [model.posterior_of(state.logs, state.given, None) for model in models]
    torch.testing.assert_close(*posteriors, rtol=1e-9, atol=1e-12)
    without, kept = (model.state_dict() for model in models)
    for name, value in kept.items():
        torch.testing.assert_close(without[name], value, rtol=1e-9, atol=1e-12, msg=name)


def test_without_slope_and_affinity_every_row_has_the_same_confusion_matrix(state):
    model = new_model(priors=ONE_MATRIX)
    model.update(state.logs, state.given, None)
    found = model.likelihood(model.row_terms(state.logs), state.given)
    torch.testing.assert_close(found, model.transition.T[state.given])


@pytest.mark.parametrize(("reluctance", "power"), [(0.0, 1 / TEMPERATURES[0]), (10.0, 1 / 1.05)])
def test_the_temperature_is_low_only_if_labels_ask_for_it_enough(state, reluctance, power):
    """Labels that are always the likeliest class would make any prediction sharper."""
    model = state.model
    model.priors = Priors(low_temperature=1.05, reluctance=reluctance)
    sums = sums_of(state, one_hot(state.rows.expected.argmax(1)))
    for _ in range(60):
        model.update_temperature(sums, ROWS)
    assert float(model.inverse_temperature) == pytest.approx(power)


def test_below_the_low_temperature_reluctance_slows_the_power(state):
    """The prior is −reluctance · log(power): its slope is −reluctance / power."""
    at, rise, steps = 1.4, 0.005, []
    sums = replace(state.sums, power_rise=torch.tensor(ROWS * rise))
    for priors in (Priors(), Priors(low_temperature=0.9, reluctance=0.01)):
        model = changed(state.model, inverse_temperature=at)
        model.priors = priors
        model.update_temperature(sums, ROWS)
        steps.append(float(model.inverse_temperature) - at)
    free = rise - np.log(0.6 * at) / (0.3**2 * at * ROWS)
    assert 0 < steps[1] < steps[0] < at / 5
    assert steps[1] / steps[0] == pytest.approx((free - 0.01 / at) / free)


def test_above_the_low_temperature_reluctance_changes_nothing(state):
    reluctant, model = deepcopy(state.model), state.model
    reluctant.priors, model.priors = Priors(low_temperature=0.3, reluctance=10.0), Priors()
    for each in (reluctant, model):
        each.update_temperature(state.sums, ROWS)
    assert float(model.inverse_temperature) != 0.9
    assert reluctant.inverse_temperature == model.inverse_temperature
