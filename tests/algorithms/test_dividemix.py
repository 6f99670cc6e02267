"""DivideMix, equation by equation (Li et al., ICLR 2020)."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from stubs import Believes, catch_losses, spy_on_batches, spy_on_division

from ulc.algorithms import configure
from ulc.algorithms import dividemix as module
from ulc.algorithms.dividemix import DivideMix
from ulc.blocks.losses import negative_entropy
from ulc.blocks.mixmatch import SemiSupervisedLoss
from ulc.blocks.per_sample import example_losses
from ulc.blocks.uncertainty import plain_log_probability
from ulc.errors import InputError
from ulc.testing import Case, toy_data

K = 3


def build(**options):
    return Case(DivideMix, "vector", options).build(toy_data("vector"))


@pytest.fixture
def masks(monkeypatch):
    return spy_on_division(monkeypatch, module)


def test_each_network_divides_for_its_peer(masks):
    """The mixture of the first network's losses says what the second one trusts; both
    divisions are made before either network learns."""
    algorithm = build(warmup_epochs=0)
    losses = [example_losses(learner, algorithm.data) for learner in algorithm.pair]
    half = torch.arange(61) < 30
    of_first, of_second = torch.where(half, 0.9, 0.1), torch.where(half, 0.2, 0.8)
    algorithm.loss_mixture = Believes(of_first, of_second)
    algorithm.run_epoch(0)
    for asked, expected in zip(algorithm.loss_mixture.asked, losses, strict=True):
        torch.testing.assert_close(asked, expected)
    assert torch.equal(algorithm.clean_probability, torch.stack([of_second, of_first]))
    assert torch.equal(masks[0], ~half)
    assert torch.equal(masks[1], half)


def test_labels_likelier_right_than_the_threshold_are_trusted(masks):
    """Strictly: p > τ."""
    algorithm = build(warmup_epochs=0, threshold=0.5)
    clean = torch.tensor([0.5, 0.5 - 1e-6, 0.5 + 1e-6]).repeat(21)[:61]
    algorithm.loss_mixture = Believes(clean, clean)
    algorithm.run_epoch(0)
    for mask in masks:
        assert mask.tolist() == [False, False, True] * 20 + [False]


def test_the_mixture_is_one_for_all_classes_and_as_the_authors_have_it():
    model = build().loss_mixture
    assert not model.per_class
    assert not model.monotone
    assert not model.one_component_guard


def test_what_is_mixed(monkeypatch):
    """Trusted: w·ỹ + (1 − w)·p with p the learner's own guess and w from its peer; doubtful:
    the guess of both. Both sharpened. The learner guesses in training mode, its peer not.

    w = .6 and .2, p = (.2, .2, .6), labels 2 and 0:
    .6·(0,0,1) + .4·p = (.08, .08, .84);  .2·(1,0,0) + .8·p = (.36, .16, .48).
    """
    algorithm = build(temperature=0.5)
    learner, peer = algorithm.pair
    asked, mixed, through = [], [], []

    def guess(learners, views):
        asked.append([(each, each.network.training) for each in learners])
        return torch.tensor([[0.2, 0.2, 0.6]]).expand(len(views[0]), K)

    monkeypatch.setattr(module, "guess", guess)

    def mixmatch_loss(*parts, **rest):
        mixed.append(parts)
        through.append(rest)

    monkeypatch.setattr(module, "mixmatch_loss", mixmatch_loss)
    clean = torch.zeros(61)
    clean[5], clean[9] = 0.6, 0.2
    known = SimpleNamespace(
        index=torch.tensor([5, 9]), given=torch.tensor([2, 0]), views=(torch.zeros(2, 6),) * 2
    )
    unknown = SimpleNamespace(views=(torch.ones(3, 6),) * 2)
    algorithm.semi_supervised_loss(learner, peer, clean, known, unknown)

    assert asked == [[(learner, True), (peer, False)], [(learner, True)]]
    assert peer.network.training
    ((taught, with_labels, without),) = mixed
    assert taught is learner
    refined = torch.tensor([[0.08, 0.08, 0.84], [0.36, 0.16, 0.48]]) ** 2
    torch.testing.assert_close(with_labels.target, refined / refined.sum(1, keepdim=True))
    guessed = torch.tensor([[0.04, 0.04, 0.36]]).expand(3, K) / 0.44
    torch.testing.assert_close(without.target, guessed)
    assert through == [{"alpha": 4.0, "log_probability": plain_log_probability}]


def test_only_the_learners_running_statistics_move():
    """A network's own guesses and steps update them; as a peer it is in evaluation mode."""
    algorithm = build(warmup_epochs=0, batch_size=60)
    before = [norm_mean(learner) for learner in algorithm.pair]
    steps = []
    original = algorithm.semi_supervised_loss

    def remember(learner, peer, *rest):
        peers = norm_mean(peer)
        mixed = original(learner, peer, *rest)
        assert torch.equal(norm_mean(peer), peers)
        steps.append(learner)
        return mixed

    algorithm.semi_supervised_loss = remember
    algorithm.run_epoch(0)
    assert {id(each) for each in steps} == {id(each) for each in algorithm.pair}
    for learner, mean in zip(algorithm.pair, before, strict=True):
        assert not torch.equal(norm_mean(learner), mean)


def norm_mean(learner):
    return learner.network.backbone.last_stage[1].running_mean.clone()


@pytest.mark.parametrize("epoch", [1, 3, 9])
def test_the_loss_is_put_together_step_by_step(monkeypatch, epoch):
    """L_x + λ_u(t)·L_u + λ_r·penalty, with L_x = L_u = 1.

    25 trusted examples in batches of 10: three steps, λ_u = 8·min((epoch + step/3 − 1)/4, 1).
    The penalty of the logits (0, 1, 2) is log Σe^v − mean v − log 3.
    """
    algorithm = build(
        warmup_epochs=1, rampup_epochs=4, batch_size=10, doubtful_weight=8.0, prior_weight=0.5
    )
    one = torch.ones(())
    mixed = SemiSupervisedLoss(one, one, torch.tensor([[0.0, 1.0, 2.0]]))
    losses = catch_losses(monkeypatch, algorithm.pair)
    monkeypatch.setattr(algorithm, "semi_supervised_loss", lambda *_: mixed)
    monkeypatch.setattr(module, "divide", lambda clean, *_: torch.arange(len(clean)) < 25)
    algorithm.run_epoch(epoch)
    penalty = math.log(1 + math.e + math.e**2) - 1 - math.log(3)
    expected = [1 + 8 * min((epoch + step / 3 - 1) / 4, 1) + 0.5 * penalty for step in range(3)]
    assert [float(loss) for loss in losses] == pytest.approx(expected * 2, rel=1e-5)


@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_warm_up_is_cross_entropy_with_an_entropy_term_where_asked(monkeypatch, weight):
    algorithm = build(warmup_entropy=weight, warmup_batch_size=61)
    outputs = []
    for learner in algorithm.pair:
        learner.register_forward_hook(lambda *hook: outputs.append(hook[2].logits.detach()))
    losses = catch_losses(monkeypatch, algorithm.pair)
    batches = spy_on_batches(monkeypatch, algorithm.data)
    algorithm.run_epoch(0)
    assert len(losses) == 2
    for loss, logits, batch in zip(losses, outputs, batches, strict=True):
        probability = logits.softmax(1)[torch.arange(61), batch.given]
        expected = -probability.log().mean() + weight * negative_entropy(logits)
        torch.testing.assert_close(loss, expected)


def test_losses_are_averaged_over_the_last_epochs_where_asked():
    """At 90 % noise: the mean of the losses scaled to [0, 1] by each network."""
    algorithm = build(warmup_epochs=0, loss_history=2)
    clean = torch.linspace(0, 1, 61)
    algorithm.loss_mixture = Believes(*[clean] * 4)
    scaled = []
    for epoch in range(2):
        losses = [example_losses(learner, algorithm.data) for learner in algorithm.pair]
        scaled.append([(each - each.min()) / (each.max() - each.min()) for each in losses])
        algorithm.run_epoch(epoch)
    asked = algorithm.loss_mixture.asked
    for side in range(2):
        torch.testing.assert_close(asked[side], scaled[0][side])
        torch.testing.assert_close(asked[2 + side], (scaled[0][side] + scaled[1][side]) / 2)


def test_the_judgement_is_the_mean_of_both_mixtures_and_both_networks():
    algorithm = build(warmup_epochs=1)
    algorithm.run_epoch(0)
    early = algorithm.judge()
    given = algorithm.data.given.numpy()
    np.testing.assert_array_equal(early.clean_probability, early.prediction[np.arange(61), given])
    assert early.score_kind == "algorithm"
    algorithm.run_epoch(1)
    judgement = algorithm.judge()
    assert judgement.score_kind == "mixture"
    np.testing.assert_allclose(
        judgement.clean_probability, algorithm.clean_probability.mean(0), rtol=1e-6
    )
    with torch.no_grad():
        algorithm.eval()
        inputs = next(algorithm.data.in_order()).inputs
        expected = algorithm.predict_proba(inputs)
    np.testing.assert_allclose(judgement.prediction, expected, atol=1e-6)


def test_the_defaults_are_the_authors():
    """CIFAR-10 at 50 % symmetric noise."""
    config = DivideMix.config_class()
    found = (
        config.warmup_epochs, config.threshold, config.temperature, config.mixup_alpha,
        config.doubtful_weight, config.rampup_epochs, config.prior_weight, config.batch_size,
        config.warmup_batch_size, config.sgd.lr, config.sgd.momentum, config.sgd.weight_decay,
        config.sgd.milestones, config.sgd.decay,
    )  # fmt: skip
    assert found == (10, 0.5, 0.5, 4.0, 25.0, 16, 1.0, 64, 128, 0.02, 0.9, 5e-4, (150,), 0.1)


def test_averaged_losses_need_the_losses_of_all_examples():
    with pytest.raises(InputError, match=r"loss_history averages losses of all .*; leave out one"):
        configure("dividemix", {"loss_history": 3, "epoch_examples": 8})
    configure("dividemix", {"loss_history": 3})
    configure("dividemix", {"epoch_examples": 8})
