"""ELR+, equation by equation (Liu et al., NeurIPS 2020)."""

import copy
import math

import numpy as np
import pytest
import torch
from stubs import catch_losses, spy_on_batches

from ulc.algorithms import elr_plus as module
from ulc.algorithms.elr_plus import ElrPlus
from ulc.testing import Case, toy_data

K = 3


def build(**options):
    return Case(ElrPlus, "vector", options).build(toy_data("vector"))


@pytest.mark.parametrize("refine", [False, True])
def test_the_loss_by_hand(monkeypatch, refine):
    """Inputs, labels and memory mixed ¾ : ¼ with the reversed batch; the memory of each network is
    0.3 of what its peer's teacher says (it starts at zero). Refined, the target is mixed label
    times mixed memory, normalised. Σ target·(−log p) + 2·mean log(1 − Σ memory·p).
    """
    algorithm = build(
        memory=0.7, penalty=2.0, penalty_rampup_steps=0, batch_size=61, refine_labels=refine
    )
    monkeypatch.setattr(module, "draw_dominant_lambda", lambda alpha: 0.75)
    monkeypatch.setattr(module, "draw_partner", lambda rows, lam: torch.arange(len(rows)).flip(0))
    networks = [copy.deepcopy(learner.network) for learner in algorithm.pair]
    losses = catch_losses(monkeypatch, algorithm.pair)
    batches = spy_on_batches(monkeypatch, algorithm.data)
    algorithm.run_epoch(0)
    for side, (batch, loss) in enumerate(zip(batches, losses, strict=True)):
        with torch.no_grad():
            said = networks[1 - side](batch.inputs).logits.softmax(1)
            mixed = 0.75 * batch.inputs + 0.25 * batch.inputs.flip(0)
            p = networks[side](mixed).logits.softmax(1)
        given = torch.eye(K)[batch.given]
        memory = 0.3 * said
        torch.testing.assert_close(algorithm.remembered[side, batch.index], memory)
        wanted = 0.75 * memory + 0.25 * memory.flip(0)
        target = 0.75 * given + 0.25 * given.flip(0)
        if refine:
            target = target * wanted / (target * wanted).sum(1, keepdim=True)
        fit = -(target * p.log()).sum(1).mean()
        penalty = (1 - (wanted * p).sum(1)).log().mean()
        assert float(loss) == pytest.approx(float(fit + 2 * penalty), rel=1e-4)


def test_the_memory_is_a_running_average_of_the_peers_teacher(monkeypatch):
    """β·old + (1 − β)·said: 0.7·0.5 + 0.3·said."""
    algorithm = build(memory=0.7, batch_size=61)
    algorithm.remembered.fill_(0.5)
    catch_losses(monkeypatch, algorithm.pair)
    peer = copy.deepcopy(algorithm.teachers[1])
    batches = spy_on_batches(monkeypatch, algorithm.data)
    algorithm.run_epoch(0)
    first = batches[0]
    expected = 0.35 + 0.3 * peer(first.inputs).logits.softmax(1)
    torch.testing.assert_close(algorithm.remembered[0, first.index], expected)


def test_the_penalty_grows_by_steps(monkeypatch):
    """λ·exp(−5(1 − t/2)²) in step t; with a target and a penalty of 1 each."""
    algorithm = build(penalty=3.0, penalty_rampup_steps=2, batch_size=20)
    one = torch.ones((), requires_grad=True)
    monkeypatch.setattr(algorithm, "mixed_losses", lambda *_: (one, one))
    losses = catch_losses(monkeypatch, algorithm.pair)
    algorithm.run_epoch(0)
    ramp = [math.exp(-5), math.exp(-5 / 4), 1.0]
    assert [float(loss) for loss in losses[:3]] == pytest.approx([1 + 3 * each for each in ramp])
    assert len(losses) == 6, "61 examples: three steps (the last single one joins) a network"


def test_a_teacher_follows_its_own_network(monkeypatch):
    """After one step w' the teacher has keep·w + (1 − keep)·w', keep = 0.9 after its ramp."""
    algorithm = build(average=0.9, average_rampup_steps=0, batch_size=61)
    before = [copy.deepcopy(learner.network).state_dict() for learner in algorithm.pair]
    algorithm.run_epoch(0)
    for teacher, learner, old in zip(algorithm.teachers, algorithm.pair, before, strict=True):
        mine, theirs = teacher.network.state_dict(), learner.network.state_dict()
        expected = 0.9 * old["head.weight"] + 0.1 * theirs["head.weight"]
        torch.testing.assert_close(mine["head.weight"], expected)
        assert not torch.equal(mine["head.weight"], theirs["head.weight"])


def test_early_on_a_teacher_is_almost_its_network():
    """The share it keeps ramps up from exp(−5)·0.997 = 0.0067."""
    algorithm = build(average_rampup_steps=1000, batch_size=61)
    start = algorithm.pair[0].network.head.weight.detach().clone()
    algorithm.run_epoch(0)
    now = algorithm.pair[0].network.head.weight
    kept = 0.997 * math.exp(-5)
    expected = kept * start + (1 - kept) * now
    torch.testing.assert_close(algorithm.teachers[0].network.head.weight, expected.detach())


def test_teachers_do_not_predict():
    algorithm = build()
    assert algorithm.networks() == [learner.network for learner in algorithm.pair]


def test_the_judgement_is_the_memory_normalised():
    """The memory sums to 1 − β^n after n epochs."""
    algorithm = build(memory=0.7)
    algorithm.run_epoch(0)
    torch.testing.assert_close(algorithm.remembered.sum(2), torch.full((2, 61), 0.3))
    algorithm.run_epoch(1)
    torch.testing.assert_close(algorithm.remembered.sum(2), torch.full((2, 61), 0.51))
    judgement = algorithm.judge()
    expected = (algorithm.remembered / 0.51).mean(0)
    np.testing.assert_allclose(judgement.prediction, expected, atol=1e-6)
    place = np.arange(61)
    np.testing.assert_array_equal(
        judgement.clean_probability, judgement.prediction[place, judgement.given]
    )


def test_the_defaults_are_the_authors():
    config = ElrPlus.config_class()
    found = (
        config.memory, config.penalty, config.penalty_rampup_steps, config.average,
        config.average_rampup_steps, config.mixup_alpha, config.refine_labels, config.batch_size,
        config.sgd.lr, config.sgd.weight_decay, config.sgd.milestones,
    )  # fmt: skip
    assert found == (0.7, 3.0, 0, 0.997, 40_000, 1.0, False, 128, 0.02, 5e-4, (150,))
