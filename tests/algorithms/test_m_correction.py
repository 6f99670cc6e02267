"""M-correction, equation by equation (Arazo et al., ICML 2019)."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from stubs import catch_losses, spy_on_batches

from ulc.algorithms import m_correction as module
from ulc.algorithms.m_correction import MCorrection
from ulc.blocks.loss_mixture import BetaLossMixture
from ulc.blocks.per_sample import example_losses
from ulc.testing import Case, toy_data

K = 3


def build(**options):
    return Case(MCorrection, "vector", options).build(toy_data("vector"))


@pytest.fixture
def mixing(monkeypatch):
    """λ = 0.7; the partners are the rows in reverse order."""
    monkeypatch.setattr(module, "draw_lambda", lambda alpha: 0.7)
    monkeypatch.setattr(module, "draw_partner", lambda rows, lam: torch.arange(len(rows)).flip(0))


class Says:
    """Mixtures that return fixed clean probabilities and record the losses."""

    def __init__(self, clean):
        self.clean = clean

    def clean_probability(self, losses, group):
        self.losses = losses
        return self.clean


def only_batch(algorithm):
    (batch,) = algorithm.data.batches(61)
    return batch


def log_p(network, inputs):
    with torch.no_grad():
        return network(inputs).logits.log_softmax(1)


def cross_entropies(log_probability, labels):
    return F.nll_loss(log_probability, labels, reduction="none")


def penalty(log_probability):
    """KL of the uniform distribution from the mean prediction."""
    mean = log_probability.exp().mean(0)
    return float((1 / K * (1 / K / mean).log()).sum())


@pytest.mark.usefixtures("mixing")
def test_warm_up_is_mixup_with_given_labels():
    """λ·CE(y₁) + (1 − λ)·CE(y₂) of the mixed input; no penalty."""
    algorithm = build()
    batch = only_batch(algorithm)
    network = copy.deepcopy(algorithm.learner.network)
    log = log_p(network, 0.7 * batch.inputs + 0.3 * batch.inputs.flip(0))
    expected = 0.7 * cross_entropies(log, batch.given)
    expected = expected + 0.3 * cross_entropies(log, batch.given.flip(0))
    torch.testing.assert_close(algorithm.mixup_loss(batch).detach(), expected.mean())


@pytest.mark.usefixtures("mixing")
def test_hard_bootstrapping_by_hand():
    """λ[(1−B₁)CE(y₁) + B₁CE(z₁)] + (1−λ)[(1−B₂)CE(y₂) + B₂CE(z₂)] + 0.5·penalty."""
    algorithm = build(prior_weight=0.5)
    batch = only_batch(algorithm)
    network = copy.deepcopy(algorithm.learner.network)
    noisy = torch.linspace(0.1, 0.9, 61)
    own = log_p(network, batch.inputs).argmax(1)
    log = log_p(network, 0.7 * batch.inputs + 0.3 * batch.inputs.flip(0))

    def bootstrapped(given, own, noisy):
        return (1 - noisy) * cross_entropies(log, given) + noisy * cross_entropies(log, own)

    expected = 0.7 * bootstrapped(batch.given, own, noisy)
    expected = expected + 0.3 * bootstrapped(batch.given.flip(0), own.flip(0), noisy.flip(0))
    found = algorithm.hard_loss(batch, Says((1 - noisy).double()))
    assert float(found.detach()) == pytest.approx(
        float(expected.mean()) + 0.5 * penalty(log), rel=1e-4
    )


@pytest.mark.parametrize("since", [0, 1])
def test_dynamic_mixup_weighs_the_likelier_clean_input_more(monkeypatch, since):
    """Inputs by (1−B₁)/((1−B₁)+(1−B₂)), given labels by λ = 0.7, in the first two epochs."""
    algorithm = build(bootstrapping="dynamic", dynamic_epochs=2)
    batch = only_batch(algorithm)
    network = copy.deepcopy(algorithm.learner.network)
    clean = torch.linspace(0.1, 0.9, 61)
    monkeypatch.setattr(module, "draw_lambda", lambda alpha: 0.7)
    monkeypatch.setattr(torch, "randperm", lambda count, device=None: torch.arange(count).flip(0))
    weight = (clean / (clean + clean.flip(0)))[:, None]
    log = log_p(network, weight * batch.inputs + (1 - weight) * batch.inputs.flip(0))
    expected = 0.7 * cross_entropies(log, batch.given)
    expected = expected + 0.3 * cross_entropies(log, batch.given.flip(0))
    found = algorithm.dynamic_loss(batch, Says(clean.double()), since)
    torch.testing.assert_close(found.detach(), expected.mean())


def test_dynamic_bootstrapping_by_hand(monkeypatch):
    """Half and half of targets (1−B)·y + B·softmax(logits / temperature), + penalty."""
    algorithm = build(bootstrapping="dynamic", dynamic_epochs=2, cooling_epochs=4)
    batch = only_batch(algorithm)
    network = copy.deepcopy(algorithm.learner.network)
    clean = torch.linspace(0.1, 0.9, 61)
    monkeypatch.setattr(torch, "randperm", lambda count, device=None: torch.arange(count).flip(0))
    weight = (clean / (clean + clean.flip(0)))[:, None]
    with torch.no_grad():
        logits = network(batch.inputs).logits
    temperature = 1 - 0.25 * 0.999
    own = (logits / temperature).softmax(1)
    target = clean[:, None] * torch.eye(K)[batch.given] + (1 - clean[:, None]) * own
    log = log_p(network, weight * batch.inputs + (1 - weight) * batch.inputs.flip(0))
    fit = -(0.5 * (target + target.flip(0)) * log).sum(1).mean()
    found = algorithm.dynamic_loss(batch, Says(clean.double()), 3)
    assert float(found.detach()) == pytest.approx(float(fit) + penalty(log), rel=1e-4)


def test_the_temperature_falls_in_a_line():
    """From 1 to 0.001 over four epochs after two of dynamic mixup alone."""
    algorithm = build(dynamic_epochs=2, cooling_epochs=4)
    found = [algorithm.temperature(since) for since in (2, 3, 4, 6, 50)]
    assert found == pytest.approx([1, 0.75025, 0.5005, 0.001, 0.001])


def test_a_label_is_doubted_by_its_loss_in_evaluation_mode():
    """Clamped to [1e-4, 1 − 1e-4]."""
    algorithm = build()
    batch = only_batch(algorithm)
    mixtures = Says(torch.tensor([0.0, 1.0, 0.3]).repeat(21)[:61].double())
    noisy = algorithm.noisy_probability(batch, mixtures)
    torch.testing.assert_close(noisy[:3], torch.tensor([1 - 1e-4, 1e-4, 0.7]))
    algorithm.eval()
    expected = cross_entropies(log_p(algorithm.learner.network, batch.inputs), batch.given)
    torch.testing.assert_close(mixtures.losses, expected.double())


@pytest.mark.parametrize(
    ("kind", "phases"),
    [
        ("hard", ["mixup_loss", "mixup_loss", "hard_loss", "hard_loss"]),
        ("dynamic", ["mixup_loss", "mixup_loss", "dynamic_loss", "dynamic_loss"]),
    ],
)
def test_what_is_done_when(monkeypatch, kind, phases):
    """After two epochs of warm-up; the mixture is fitted to the losses as the epoch begins."""
    algorithm = build(bootstrapping=kind, warmup_epochs=2, batch_size=61)
    done = []
    for name in ("mixup_loss", "hard_loss", "dynamic_loss"):
        method = getattr(algorithm, name)
        monkeypatch.setattr(
            algorithm,
            name,
            lambda *rest, name=name, method=method: done.append(name) or method(*rest),
        )
    fitted, fit = [], BetaLossMixture.fit
    monkeypatch.setattr(
        BetaLossMixture, "fit", lambda self, *rest: fitted.append(rest[0]) or fit(self, *rest)
    )
    for epoch in range(4):
        losses = example_losses(algorithm.learner, algorithm.data).double()
        algorithm.run_epoch(epoch)
        if epoch >= 2:
            torch.testing.assert_close(fitted[-1], losses)
    assert done == phases
    assert len(fitted) == 2


def test_mixup_keeps_the_drawn_share(monkeypatch):
    """λ ~ Beta(32, 32), not max(λ, 1 − λ)."""
    drawn = []
    monkeypatch.setattr(module, "draw_lambda", lambda alpha: drawn.append(alpha) or 0.2)
    algorithm = build(batch_size=61)
    catch_losses(monkeypatch, [algorithm.learner])
    seen = []
    monkeypatch.setattr(
        module, "draw_partner", lambda rows, lam: seen.append(lam) or torch.arange(len(rows))
    )
    algorithm.run_epoch(0)
    assert (drawn, seen) == ([32.0], [0.2])


def test_the_judgement_is_a_mixture_on_present_losses(monkeypatch):
    algorithm = build(warmup_epochs=1)
    for epoch in range(3):
        algorithm.run_epoch(epoch)
    losses = example_losses(algorithm.learner, algorithm.data)
    expected = BetaLossMixture(per_class=False).fit_predict(losses, algorithm.data.given, K)
    judgement = algorithm.judge()
    np.testing.assert_allclose(judgement.clean_probability, expected.clean_probability, atol=1e-4)
    assert judgement.score_kind == "mixture"


def test_what_is_recorded():
    """After warm-up also the mean clean probability, and whether the fit is reliable."""
    algorithm = build(warmup_epochs=1)
    assert set(algorithm.run_epoch(0)) == {"loss"}
    losses = example_losses(algorithm.learner, algorithm.data)
    record = algorithm.run_epoch(1)
    belief = BetaLossMixture(per_class=False).fit_predict(losses, algorithm.data.given, K)
    assert record["clean"] == pytest.approx(float(belief.clean_probability.mean()), abs=1e-5)
    assert record["reliable"] in (0.0, 1.0)


def test_a_run_sees_every_example_once_an_epoch(monkeypatch):
    algorithm = build()
    batches = spy_on_batches(monkeypatch, algorithm.data)
    algorithm.run_epoch(0)
    assert sorted(torch.cat([batch.index for batch in batches]).tolist()) == list(range(61))


def test_the_defaults_are_the_authors():
    config = MCorrection.config_class()
    found = (
        config.bootstrapping, config.warmup_epochs, config.dynamic_epochs, config.cooling_epochs,
        config.mixup_alpha, config.prior_weight, config.batch_size, config.sgd.lr,
        config.sgd.weight_decay, config.sgd.milestones,
    )  # fmt: skip
    assert found == ("hard", 105, 5, 89, 32.0, 1.0, 128, 0.1, 1e-4, (100, 250))
