"""PENCIL, equation by equation (Yi and Wu, CVPR 2019)."""

import math

import numpy as np
import pytest
import torch
from stubs import catch_losses, spy_on_batches

from ulc.algorithms.pencil import Pencil, final_learning_rate
from ulc.data.training import Batch
from ulc.networks.classifier import Output
from ulc.testing import Case, toy_data

K = 3


def build(**options):
    return Case(Pencil, "vector", options).build(toy_data("vector"))


def test_labels_start_firmly_at_the_given_one():
    """softmax(10, 0, 0): e^10 / (e^10 + 2) for the given label."""
    algorithm = build()
    labels = algorithm.label_logits.softmax(1)
    given = labels[torch.arange(61), algorithm.data.given]
    torch.testing.assert_close(given, torch.full((61,), np.exp(10) / (np.exp(10) + 2)).float())


def by_hand(logits, label_logits, given, alpha, beta):
    """KL(f ‖ y)/K − α·mean log y[given] + β·H(f)/K, written out in probabilities."""
    f, y = logits.softmax(1), label_logits.softmax(1)
    apart = (f * (f / y).log()).sum(1).mean()
    from_given = -y[torch.arange(len(y)), given].log().mean()
    unsure = -(f * f.log()).sum(1).mean()
    return apart / K + alpha * from_given + beta * unsure / K


def test_a_step_of_stage_two_by_hand(monkeypatch):
    """Loss, and a label step of λ times its gradient, for the labels of the batch alone.

    With three classes α = 0.3/3 = 0.1 and λ = 50·3 = 150.
    """
    algorithm = build(
        backbone_epochs=0, compatibility=0.3, certainty=0.7, label_rate=50.0, batch_size=61
    )
    torch.manual_seed(0)
    algorithm.label_logits += torch.randn(61, K)
    before = algorithm.label_logits.clone()
    outputs = []
    algorithm.learner.register_forward_hook(lambda *hook: outputs.append(hook[2].logits.detach()))
    batches = spy_on_batches(monkeypatch, algorithm.data)
    record = algorithm.run_epoch(0)
    (batch,) = batches
    labels = before[batch.index].requires_grad_()
    loss = by_hand(outputs[0], labels, batch.given, alpha=0.1, beta=0.7)
    loss.backward()
    assert record == {"loss": pytest.approx(float(loss.detach()), rel=1e-5)}
    expected = before[batch.index] - 150 * labels.grad
    torch.testing.assert_close(algorithm.label_logits[batch.index], expected)


def test_the_network_learns_in_stage_two():
    algorithm = build(backbone_epochs=0, label_rate=0.0)
    before = [each.clone() for each in algorithm.learner.parameters()]
    algorithm.run_epoch(0)
    after = list(algorithm.learner.parameters())
    assert any(not torch.equal(mine, old) for mine, old in zip(after, before, strict=True))


def test_in_stage_three_the_labels_stay_and_only_the_divergence_counts(monkeypatch):
    algorithm = build(backbone_epochs=0, correcting_epochs=0, batch_size=61)
    before = algorithm.label_logits.clone()
    outputs = []
    algorithm.learner.register_forward_hook(lambda *hook: outputs.append(hook[2].logits.detach()))
    losses = catch_losses(monkeypatch, [algorithm.learner])
    batches = spy_on_batches(monkeypatch, algorithm.data)
    algorithm.run_epoch(0)
    (batch,) = batches
    expected = by_hand(outputs[0], before[batch.index], batch.given, alpha=0.0, beta=0.0)
    assert float(losses[0]) == pytest.approx(float(expected), rel=1e-5)
    assert torch.equal(algorithm.label_logits, before)


def test_in_stage_one_the_labels_stay():
    algorithm = build(backbone_epochs=1)
    before = algorithm.label_logits.clone()
    algorithm.run_epoch(0)
    assert torch.equal(algorithm.label_logits, before)


@pytest.mark.parametrize("epoch", range(8))
def test_learning_rates_by_stage(epoch):
    """0.06 for 1 + 1 epochs, then 0.2, 0.02 and 0.002, two epochs each; then it stays."""
    algorithm = build(
        backbone_epochs=1, correcting_epochs=1, final_epochs=6, sgd={"milestones": ()}
    )
    algorithm.run_epoch(epoch)
    found = algorithm.learner.optimiser.param_groups[0]["lr"]
    assert found == pytest.approx([0.06, 0.06, 0.2, 0.2, 0.02, 0.02, 0.002, 0.002][epoch])


def test_the_rate_falls_at_thirds_of_any_length():
    """True division: five epochs have thirds at 5/3 and 10/3; never zero."""
    config = Pencil.config_class(final_epochs=5, final_lr=1.0)
    rates = [final_learning_rate(epoch, config) for epoch in range(7)]
    assert rates == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01, 0.01])


def test_it_moves_labels_that_the_network_contradicts():
    """A network that has learned the classes pulls wrong labels away, and leaves right ones."""
    data = toy_data("vector", (60, 60, 60), wrong=0.2)
    options = {
        "backbone_epochs": 15, "correcting_epochs": 30, "compatibility": 0.0, "label_rate": 700.0,
        "sgd": {"lr": 0.02, "milestones": ()},
    }  # fmt: skip
    algorithm, _ = Case(Pencil, "vector", options).trained(data, 45)
    centres = torch.stack([data.stored[data.given == k].median(0).values for k in range(K)])
    shown = torch.cdist(data.stored, centres).argmin(1)
    found = torch.from_numpy(algorithm.judge().suggested)
    assert (data.given == shown).float().mean() < 0.85
    assert (found == shown).float().mean() > 0.9


def test_the_judgement_is_the_label_distribution_once_it_is_learned():
    algorithm = build(backbone_epochs=1)
    algorithm.run_epoch(0)
    np.testing.assert_allclose(algorithm.judge().prediction, algorithm.predictions(), atol=1e-6)
    algorithm.run_epoch(1)
    np.testing.assert_allclose(
        algorithm.judge().prediction, algorithm.label_logits.softmax(1), atol=1e-6
    )


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_a_label_that_a_sure_network_contradicts_loses_its_majority(classes):
    """Whatever the number of classes, within stage 2's 130 epochs at the defaults.

    At rest the given class keeps 0.1/1.1 and what the network leaves it.
    """
    data = toy_data("vector", (6,) * classes, wrong=0.0)
    data.given[:] = 0
    algorithm = Case(Pencil, "vector", {"backbone_epochs": 0, "batch_size": 128}).build(data)
    logits = torch.zeros(len(data), classes)
    logits[:, 1] = math.log(19 * (classes - 1))  # 95 % for another class
    algorithm.learner.forward = lambda inputs: Output(logits[: len(inputs)] + nothing, inputs)
    nothing = torch.zeros((), requires_grad=True)
    (batch,) = (
        (Batch(torch.arange(128), (data.stored[:128],), data.given[:128]),)
        if (len(data) >= 128)
        else data.batches(128)
    )
    for _ in range(130):
        algorithm.train_with_labels(batch)
    label = algorithm.label_logits[batch.index].softmax(1)
    assert (label[:, 1] > 0.8).all()
    assert (label[:, 0] < 0.2).all()


def test_the_defaults_are_the_authors_but_for_the_pull_of_the_given_label():
    """At ten classes λ = 60·10; their α of 0.4 would hold every label where it is."""
    config = Pencil.config_class()
    found = (
        config.backbone_epochs, config.correcting_epochs, config.final_epochs,
        config.compatibility, config.certainty, config.label_rate, config.sharpness,
        config.final_lr, config.batch_size, config.sgd.lr, config.sgd.weight_decay,
        config.sgd.milestones,
    )  # fmt: skip
    assert found == (70, 130, 120, 0.1, 0.1, 60.0, 10.0, 0.2, 128, 0.06, 1e-4, ())
