"""The anchored confusion model: posterior of true labels, transition, frequencies, temperature."""

import numpy as np
import pytest
import torch
from hypothesis import given as given_values
from hypothesis import settings
from hypothesis import strategies as st

from ulc.blocks import label_posterior, row_noise
from ulc.blocks.label_posterior import AnchoredConfusion, deconvolve, spread_evenly
from ulc.blocks.noise_priors import Priors
from ulc.blocks.row_noise import Examples

K = 3
FREQUENCY = np.array([0.6, 0.3, 0.1])
TRANSITION = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]])
CPU = torch.device("cpu")


def simulate(rows=6000, *, spread=0.6, seed=0):
    """Inputs on a line, one Gaussian a class: exact P(true | x), given labels, true labels."""
    rng = np.random.default_rng(seed)
    true = rng.choice(K, rows, p=FREQUENCY)
    inputs = rng.normal(true, spread)
    density = np.exp(-((inputs[:, None] - np.arange(K)) ** 2) / (2 * spread**2)) * FREQUENCY
    given = np.array([rng.choice(K, p=TRANSITION[k]) for k in true])
    probability = torch.tensor(density / density.sum(1, keepdims=True)).float()
    return probability, torch.tensor(given), torch.tensor(true)


def fit(probability, given, *, verified=None, updates=5, **options):
    """A model and its posterior, fitted until it settles."""
    model = AnchoredConfusion(probability.shape[1], CPU, **options)
    examples = (probability.clamp(min=1e-30).log(), given, verified)
    for _ in range(updates):
        model.update(*examples)
    return model, model.posterior_of(*examples)


@pytest.fixture(scope="module")
def simulated():
    return simulate()


def test_it_recovers_transition_and_frequencies(simulated):
    """From exact predictions and 6,000 labels; pseudo-counts pull a little to one error rate."""
    model, _ = fit(*simulated[:2])
    np.testing.assert_allclose(model.transition, TRANSITION, atol=0.08)
    np.testing.assert_allclose(model.frequency, FREQUENCY, atol=0.04)


def test_the_posterior_is_calibrated(simulated):
    """Of the labels whose posterior is near p, about a share p is right."""
    probability, given, true = simulated
    _, posterior = fit(probability, given)
    clean = posterior.gather(1, given[:, None]).squeeze(1)
    right = (given == true).float()
    for low in (0.2, 0.4, 0.6, 0.8):
        inside = (clean >= low) & (clean < low + 0.2)
        assert inside.sum() > 100
        assert abs(float(clean[inside].mean() - right[inside].mean())) < 0.12


def test_its_class_frequencies_are_those_that_labels_and_transition_imply(simulated):
    """mean_i y_i = π and πC = shares of the given labels."""
    probability, given, _ = simulated
    model, posterior = fit(probability, given, updates=20)
    torch.testing.assert_close(posterior.mean(0), model.frequency, atol=0.01, rtol=0)
    shares = torch.bincount(given, minlength=K) / len(given)
    torch.testing.assert_close(model.frequency @ model.transition, shares, atol=0.01, rtol=0)


@pytest.mark.slow
def test_predictions_of_another_class_prior_give_the_same_posterior(simulated):
    """The factors a take back most of a prediction's own class frequencies."""
    probability, given, _ = simulated
    biased = probability * torch.tensor([3.0, 1.0, 0.2])
    biased /= biased.sum(1, keepdim=True)

    def difference(anchored):
        first, second = (
            fit(each, given, updates=20, anchored=anchored)[1] for each in (probability, biased)
        )
        return float((first - second).abs().mean())

    anchored = difference(anchored=True)
    assert anchored < 0.05
    assert anchored < difference(anchored=False) / 3


@pytest.mark.slow
def test_without_anchor_a_biased_prediction_makes_a_small_class_rarer(simulated):
    """What the anchor is for: class 2 is predicted a tenth as often as it should be."""
    probability, given, true = simulated
    biased = probability * torch.tensor([1.0, 1.0, 0.05])
    biased /= biased.sum(1, keepdim=True)
    share = float((true == 2).float().mean())
    _, anchored = fit(biased, given, updates=10)
    _, free = fit(biased, given, updates=10, anchored=False)
    assert abs(float(anchored[:, 2].mean()) - share) < abs(float(free[:, 2].mean()) - share)
    assert float(free[:, 2].mean()) < 0.75 * share


@pytest.mark.parametrize("power", [0.5, 2.0])
def test_predictions_of_another_temperature_give_the_same_posterior(simulated, monkeypatch, power):
    """But for the prior of the temperature, which is of no weight here."""
    monkeypatch.setattr(label_posterior, "TEMPERATURE_SPREAD", 1e6)
    probability, given, _ = simulated
    tempered = probability**power
    tempered /= tempered.sum(1, keepdim=True)
    model, posterior = fit(probability, given, updates=20)
    other, tempered_posterior = fit(tempered, given, updates=20)
    assert float((posterior - tempered_posterior).abs().mean()) < 0.02
    ratio = model.inverse_temperature / other.inverse_temperature
    assert float(ratio) == pytest.approx(power, rel=0.1)


def test_the_order_of_classes_and_of_rows_does_not_matter(simulated):
    probability, given, _ = (each[:500] for each in simulated)
    _, posterior = fit(probability, given, updates=1)
    order, classes = torch.randperm(500), torch.tensor([2, 0, 1])
    _, shuffled = fit(probability[order], given[order], updates=1)
    torch.testing.assert_close(shuffled, posterior[order], rtol=0, atol=1e-4)
    renamed = torch.empty(K, dtype=torch.int64)
    renamed[classes] = torch.arange(K)
    _, permuted = fit(probability[:, classes], renamed[given], updates=1)
    torch.testing.assert_close(permuted, posterior[:, classes], rtol=0, atol=1e-4)


def test_a_fit_starts_from_the_last_one(simulated):
    """With the same predictions a second update hardly changes anything, in few steps."""
    probability, given, _ = simulated
    model, posterior = fit(probability, given, updates=10)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    model.update(probability.log(), given, None)
    again = model.posterior_of(probability.log(), given, None)
    torch.testing.assert_close(again, posterior, rtol=0, atol=0.01)
    assert (int(state.pop("updates")), int(model.updates)) == (10, 11)
    for name, value in state.items():
        torch.testing.assert_close(model.state_dict()[name], value, rtol=0.05, atol=0.01, msg=name)


def test_verified_labels_are_certain(simulated):
    probability, given, _ = (each[:300] for each in simulated)
    verified = torch.arange(300) < 40
    _, posterior = fit(probability, given, verified=verified)
    one_hot = torch.nn.functional.one_hot(given[:40], K).float()
    torch.testing.assert_close(posterior[:40], one_hot)
    assert float(posterior[40:].max()) < 1


def test_a_class_without_labels_gets_nothing():
    probability, given, _ = simulate(800)
    four = torch.cat([probability, torch.full((800, 1), 1e-6)], 1)
    model, posterior = fit(four, given)
    assert float(posterior[:, 3].mean()) < 1e-3
    assert model.frequency.isfinite().all()


def test_without_noise_it_finds_none(simulated):
    """Unlike a mixture, which always splits."""
    _, _, true = simulated
    sharp = torch.nn.functional.one_hot(true, K) * 0.97 + 0.01
    _, posterior = fit(sharp, true)
    assert float(posterior.gather(1, true[:, None]).min()) > 0.9


def test_deconvolve_by_hand():
    """π = (.8, .2), C = ((.9, .1), (.3, .7)): shares (.78, .22)."""
    transition = torch.tensor([[0.9, 0.1], [0.3, 0.7]])
    found = deconvolve(torch.tensor([0.78, 0.22]), transition)
    torch.testing.assert_close(found, torch.tensor([0.8, 0.2]), rtol=0, atol=0.01)


def test_frequencies_are_found_behind_the_noise():
    transition, frequency = torch.tensor(TRANSITION), torch.tensor(FREQUENCY)
    found = deconvolve(frequency @ transition, transition)
    torch.testing.assert_close(found, frequency, rtol=0, atol=0.05)


def test_errors_are_spread_evenly():
    expected = torch.tensor([[0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]])
    torch.testing.assert_close(spread_evenly(torch.eye(3)), expected)


@settings(max_examples=40, deadline=None)
@given_values(
    rows=st.lists(
        st.tuples(
            st.lists(st.floats(-200, 0, width=32), min_size=4, max_size=4), st.integers(0, 3)
        ),
        min_size=1,
        max_size=12,
    ),
    anchored=st.booleans(),
)
def test_whatever_the_predictions_it_gives_distributions(rows, anchored):
    logs = torch.tensor([row for row, _ in rows]).log_softmax(1)
    given = torch.tensor([label for _, label in rows])
    model = AnchoredConfusion(4, CPU, anchored=anchored)
    for _ in range(2):
        model.update(logs, given, None)
    posterior = model.posterior_of(logs, given, None)
    assert posterior.isfinite().all()
    assert (posterior >= 0).all()
    torch.testing.assert_close(posterior.sum(1), torch.ones(len(rows)), rtol=0, atol=1e-4)
    torch.testing.assert_close(model.transition.sum(1), torch.ones(4))
    for value in model.state_dict().values():
        assert value.isfinite().all()


def test_it_begins_with_the_same_noise_in_every_class():
    """One label in ten is wrong, and names each other class as often."""
    begun = AnchoredConfusion(5, torch.device("cpu"))
    expected = torch.full((5, 5), 0.1 / 4).fill_diagonal_(0.9)
    torch.testing.assert_close(begun.transition, expected)
    torch.testing.assert_close(begun.frequency, torch.full((5,), 0.2))


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("priors", [Priors(), Priors(slope=None, affinity=None)])
def test_pieces_change_only_the_rounding(simulated, monkeypatch, known, priors):
    probability, given, _ = (each[:301] for each in simulated)
    options = {
        "verified": torch.arange(301) % 7 == 0 if known else None,
        "priors": priors, "dtype": torch.float64,
    }  # fmt: skip
    whole, at_once = fit(probability.double(), given, **options)
    monkeypatch.setattr(row_noise, "NUMBERS_AT_ONCE", 25 * K)
    model, in_pieces = fit(probability.double(), given, **options)
    torch.testing.assert_close(in_pieces, at_once, rtol=1e-9, atol=1e-12)
    for name, value in model.state_dict().items():
        expected = whole.state_dict()[name]
        torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-12, msg=name)


@pytest.mark.parametrize(("numbers", "sizes"), [(1, [2, 2, 2, 1]), (3 * K, [3, 3, 1])])
def test_a_piece_has_two_rows_at_least_and_every_row_is_in_one(
    simulated, monkeypatch, numbers, sizes
):
    """Log-probabilities below −20 are −20."""
    probability, given, _ = (each[:7] for each in simulated)
    monkeypatch.setattr(row_noise, "NUMBERS_AT_ONCE", numbers)
    logs, verified = 10 * probability.log(), torch.arange(7) < 3
    pieces = list(Examples(logs, given, verified).pieces())
    assert [len(labels) for _, labels, _ in pieces] == sizes
    assert float(logs.min()) < -30
    for place, whole in enumerate((logs.clamp(min=-20), given, verified)):
        assert torch.equal(torch.cat([piece[place] for piece in pieces]), whole)
