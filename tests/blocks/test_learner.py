"""A network with its optimiser, and the scopes in which it is used."""

import pytest
import torch

from ulc.blocks.learner import (
    Learner,
    both_ways,
    dropout_off,
    evaluating,
    make_pair,
    mean_prediction,
    only_dropout_on,
)
from ulc.config import SGD
from ulc.networks.classifier import Classifier, HeadSpec
from ulc.networks.mlp import MLP


def new_learner(sgd=None, **heads):
    network = Classifier(MLP((6,), width=8), 8, 3, HeadSpec(**heads))
    return Learner(network, sgd or SGD())


def modes(learner):
    return [part.training for part in learner.modules()]


def test_the_learning_rate_falls_at_the_milestones():
    """0.1, from epoch 2 a fifth of it, from epoch 4 a fifth of that."""
    learner = new_learner(SGD(lr=0.1, milestones=(2, 4), decay=0.2), logit_noise=True)
    rates = []
    for epoch in range(6):
        learner.start_epoch(epoch)
        rates.append([group["lr"] for group in learner.optimiser.param_groups])
    expected = [0.1, 0.1, 0.02, 0.02, 0.004, 0.004]
    assert rates == [[pytest.approx(rate)] * 2 for rate in expected]


def test_a_step_is_sgd_with_momentum_and_weight_decay_by_hand():
    """g = loss gradient + decay·w; m ← .9·m + g; w ← w − lr·m. Loss Σw, so its gradient is 1."""
    sgd = SGD(lr=0.1, momentum=0.9, weight_decay=0.01)
    learner = new_learner(sgd)
    learner.start_epoch(0)
    weight = learner.network.head.weight
    expected, momentum = weight.detach().clone(), torch.zeros_like(weight)
    for _ in range(3):
        loss = weight.sum()
        assert learner.descend(loss) == loss.detach()
        momentum = 0.9 * momentum + 1 + 0.01 * expected
        expected = expected - 0.1 * momentum
    torch.testing.assert_close(weight.detach(), expected)


def test_noise_variances_are_not_decayed():
    """A step on a flat loss moves only what is decayed: w ← w·(1 − lr·decay)."""
    learner = new_learner(SGD(lr=0.1, weight_decay=0.5), logit_noise=True)
    network = learner.network
    torch.nn.init.ones_(network.noise_head.weight)
    before = {name: value.detach().clone() for name, value in network.named_parameters()}
    learner.descend(sum(0 * each.sum() for each in network.parameters()))
    free = {"class_log_variance", "noise_head.bias"}
    for name, value in network.named_parameters():
        kept = 1.0 if name in free else 0.95
        torch.testing.assert_close(value.detach(), kept * before[name], msg=name)


def test_every_parameter_is_learned_once():
    learner = new_learner(logit_noise=True)
    grouped = [each for group in learner.optimiser.param_groups for each in group["params"]]
    assert len(grouped) == len({id(each) for each in grouped})
    assert {id(each) for each in grouped} == {id(each) for each in learner.parameters()}


class TestScopes:
    def test_evaluating(self):
        first, second = new_learner(dropout=0.5), new_learner(dropout=0.5)
        second.network.backbone.eval()
        before = modes(first), modes(second)
        with evaluating(first, second):
            assert not any(modes(first) + modes(second))
        assert (modes(first), modes(second)) == before

    def test_dropout_off(self):
        learner = new_learner(dropout=0.5)
        with dropout_off(learner):
            assert not learner.network.dropout.training
            assert learner.network.backbone.training
        assert all(modes(learner))

    def test_only_dropout_on(self):
        learner = new_learner(dropout=0.5)
        learner.eval()
        with only_dropout_on(learner):
            on = [part for part in learner.modules() if part.training]
            assert on == [learner.network.dropout]
        assert not any(modes(learner))

    @pytest.mark.parametrize("scope", [evaluating, dropout_off, only_dropout_on])
    @pytest.mark.parametrize("dropout", [0.0, 0.5])
    @pytest.mark.parametrize("training", [True, False])
    def test_each_part_gets_its_own_mode_back_also_after_an_error(self, scope, dropout, training):
        learner = new_learner(dropout=dropout)
        learner.train(training)
        learner.network.backbone.train(not training)
        before = modes(learner)
        with pytest.raises(RuntimeError, match="stop"), scope(learner):
            raise RuntimeError("stop")
        assert modes(learner) == before


def test_a_pair_is_two_learners_with_weights_of_their_own():
    first, second = make_pair(new_learner)
    assert not torch.equal(first.network.head.weight, second.network.head.weight)
    assert both_ways([first, second]) == [(first, second), (second, first)]


def test_a_pair_predicts_by_its_mean_logits():
    pair = make_pair(new_learner)
    inputs = torch.randn(4, 6)
    with evaluating(*pair), torch.no_grad():
        found = mean_prediction(pair, inputs)
        logits = (pair[0](inputs).logits + pair[1](inputs).logits) / 2
    torch.testing.assert_close(found, logits.softmax(1))
