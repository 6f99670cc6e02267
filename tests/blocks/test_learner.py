"""A network with its optimiser, and context managers that switch modes."""

import copy
import math

import pytest
import torch

from ulc.blocks.learner import (
    Learner,
    each_with_peer,
    evaluating,
    make_pair,
    mean_prediction,
)
from ulc.config import SGD, Adam
from ulc.networks.classifier import Classifier, HeadSpec
from ulc.networks.mlp import MLP


def new_learner(descent=None, **heads):
    network = Classifier(MLP((6,), width=8), 8, 3, HeadSpec(**heads))
    return Learner(network, descent or SGD())


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


def test_a_cosine_schedule_falls_from_the_rate_to_nearly_nought():
    """lr·(1 + cos(π·e/4))/2: 1, .8536, .5, .1464; afterwards the last value stays."""
    sgd = SGD(lr=0.1, cosine_epochs=4, milestones=(1,))
    rates = [sgd.learning_rate(epoch) for epoch in range(6)]
    assert rates == pytest.approx([0.1, 0.08536, 0.05, 0.01464, 0.01464, 0.01464], abs=1e-5)


def test_shared_noise_has_a_learning_rate_of_its_own():
    learner = new_learner(SGD(lr=0.1), logit_noise=True, noise_lr=5.0)
    for epoch in (0, 1, 150):
        learner.start_epoch(epoch)
        rate = 0.1 if epoch < 150 else 0.01
        found = [group["lr"] for group in learner.optimiser.param_groups]
        assert found == pytest.approx([rate, 5 * rate])


class TestAverage:
    """The average of weights that predicts, if the optimiser has `average_epochs`."""

    @staticmethod
    def step(learner):
        learner.descend(learner(torch.randn(8, 6)).logits.square().mean())

    def test_without_it_the_trained_network_predicts(self):
        learner = new_learner()
        assert learner.predictor is learner.network
        assert learner.average is None
        assert not any("average" in name for name in learner.state_dict())

    def test_in_the_first_epoch_it_is_the_plain_mean_of_all_steps(self):
        torch.manual_seed(0)
        learner = new_learner(SGD(average_epochs=2.0))
        learner.start_epoch(0)
        seen = []
        for _ in range(5):
            self.step(learner)
            seen.append(learner.network.head.weight.detach().clone())
        expected = torch.stack(seen).mean(0)
        torch.testing.assert_close(learner.predictor.head.weight, expected)

    def test_later_weights_fade_with_their_age_in_epochs(self):
        """Epochs of 20 steps, averaged over 0.5 epochs: a step fades by exp(−1/10)."""
        torch.manual_seed(0)
        learner = new_learner(SGD(average_epochs=0.5))
        for epoch in range(2):
            learner.start_epoch(epoch)
            for _ in range(20):
                self.step(learner)
        learner.start_epoch(2)
        before = learner.predictor.head.weight.detach().clone()
        self.step(learner)
        keep = math.exp(-1 / 10)
        expected = keep * before + (1 - keep) * learner.network.head.weight.detach()
        torch.testing.assert_close(learner.predictor.head.weight, expected)

    def test_batch_norm_statistics_are_averaged_too(self):
        learner = new_learner(SGD(average_epochs=1.0))
        learner.start_epoch(0)
        for _ in range(3):
            self.step(learner)
        trained, averaged = (
            dict(network.named_buffers()) for network in (learner.network, learner.predictor)
        )
        name = "backbone.last_stage.1.running_var"
        assert not torch.equal(trained[name], averaged[name])
        assert not torch.equal(averaged[name], torch.ones_like(averaged[name]))

    @pytest.mark.parametrize("descent", [SGD(average_epochs=1.0), Adam(average_epochs=1.0)])
    def test_a_restored_learner_averages_on(self, descent):
        torch.manual_seed(0)
        first, second = new_learner(descent), new_learner(descent)
        for epoch in range(2):
            first.start_epoch(epoch)
            self.step(first)
            self.step(first)
        second.load_state_dict(copy.deepcopy(first.state_dict()))
        for learner in (first, second):
            torch.manual_seed(1)
            learner.start_epoch(2)
            self.step(learner)
        assert_same_weights(first, second)


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


def test_a_step_is_adam_with_weight_decay_by_hand():
    """g = 1 + decay·w; m ← β₁m + (1 − β₁)g, v ← .999v + .001g²; w ← w − lr·m̂/(√v̂ + 10⁻⁸), where
    m̂ = m/(1 − β₁ⁿ) and v̂ = v/(1 − .999ⁿ) at step n."""
    learner = new_learner(Adam(lr=0.1, beta1=0.8, weight_decay=0.5))
    learner.start_epoch(0)
    weight = learner.network.head.weight
    expected = weight.detach().double()
    m, v = torch.zeros_like(expected), torch.zeros_like(expected)
    for n in range(1, 4):
        learner.descend(weight.sum())
        g = 1 + 0.5 * expected
        m, v = 0.8 * m + 0.2 * g, 0.999 * v + 0.001 * g * g
        expected = expected - 0.1 * (m / (1 - 0.8**n)) / ((v / (1 - 0.999**n)).sqrt() + 1e-8)
    torch.testing.assert_close(weight.detach(), expected.float(), rtol=1e-4, atol=1e-5)


def test_adam_is_told_its_rate_and_momentum_as_an_epoch_begins():
    """Constant in epochs 0 and 1, then 0.4, 0.3, 0.2, 0.1 with little momentum."""
    adam = Adam(lr=0.4, beta1=0.9, later_beta1=0.2, constant_epochs=2, falling_epochs=4)
    learner = new_learner(adam, logit_noise=True)
    told = []
    for epoch in range(6):
        learner.start_epoch(epoch)
        told.append([(group["lr"], group["betas"]) for group in learner.optimiser.param_groups])
    rates, momenta = [0.4, 0.4, 0.4, 0.3, 0.2, 0.1], [0.9] * 2 + [0.2] * 4
    for now, rate, momentum in zip(told, rates, momenta, strict=True):
        assert now == [(pytest.approx(rate), (momentum, 0.999))] * 2


def test_what_the_optimiser_is_told_holds_for_all_parameters_and_leaves_the_rest():
    learner = new_learner(SGD(lr=0.1, momentum=0.9, weight_decay=0.5), logit_noise=True)
    learner.set_options({"lr": 0.3})
    groups = learner.optimiser.param_groups
    told = [(group["lr"], group["momentum"], group["weight_decay"]) for group in groups]
    assert told == [(0.3, 0.9, 0.5), (0.3, 0.9, 0.0)]


def twins(descent):
    """Two learners with the same weights."""
    first, second = new_learner(descent), new_learner(descent)
    second.load_state_dict(first.state_dict())
    return first.eval(), second.eval()


def assert_same_weights(first, second):
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(one, other)


every_descent = pytest.mark.parametrize("descent", [SGD(lr=0.1), Adam()], ids=["sgd", "adam"])


@every_descent
def test_a_state_of_other_weights_is_refused(descent):
    """Also if they have the same number of values, which would get the wrong order."""
    learner = new_learner(descent)
    learner.descend(learner(torch.randn(4, 6)).logits.sum())
    state = copy.deepcopy(learner.get_extra_state())
    name = {"Momentum": "momentum_buffer", "Adam": "exp_avg"}[type(learner.optimiser).__name__]
    state["state"][0][name] = state["state"][0][name].flatten()
    with pytest.raises(ValueError, match="has the shape"):
        learner.set_extra_state(state)


@every_descent
def test_two_backward_passes_in_one_step_are_one_on_the_sum(descent):
    first, second = twins(descent)
    batches = torch.randn(2, 5, 6)
    for _ in range(2):
        with first.optimiser_step():
            for batch in batches:
                first(batch).logits.square().mean().backward()
        second.descend(sum(second(batch).logits.square().mean() for batch in batches))
    assert_same_weights(first, second)


@every_descent
def test_gradients_from_before_a_step_do_not_count(descent):
    first, second = twins(descent)
    inputs = torch.randn(5, 6)
    first(inputs).logits.exp().sum().backward()
    for learner in (first, second):
        learner.descend(learner(inputs).logits.square().mean())
    assert_same_weights(first, second)


def stop(gradient):
    raise RuntimeError("stop")


def test_after_an_error_inside_a_step_nothing_has_moved():
    first, second = twins(SGD(lr=0.1))
    loss = first(torch.randn(5, 6)).logits.sum()
    loss.register_hook(stop)
    with pytest.raises(RuntimeError, match="stop"):
        first.descend(loss)
    assert_same_weights(first, second)


@every_descent
def test_a_learner_goes_on_from_its_saved_state(descent):
    """The state holds momentum and Adam's moments: the next step is the same."""
    first, second = (new_learner(descent).eval() for _ in range(2))
    inputs = torch.randn(5, 6)
    for _ in range(2):
        first.descend(first(inputs).logits.square().mean())
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for learner in (first, second):
        learner.descend(learner(inputs).logits.square().mean())
    assert_same_weights(first, second)


def test_noise_variances_are_not_decayed():
    """A step on a constant loss changes only decayed weights: w ← w·(1 − lr·decay)."""
    learner = new_learner(SGD(lr=0.1, weight_decay=0.5), logit_noise=True)
    network = learner.network
    torch.nn.init.ones_(network.noise_head.weight)
    before = {name: value.detach().clone() for name, value in network.named_parameters()}
    learner.descend(sum(0 * each.sum() for each in network.parameters()))
    free = {"class_std", "noise_head.bias"}
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

    @pytest.mark.parametrize("dropout", [0.0, 0.5])
    @pytest.mark.parametrize("training", [True, False])
    def test_each_part_gets_its_own_mode_back_also_after_an_error(self, dropout, training):
        learner = new_learner(dropout=dropout)
        learner.train(training)
        learner.network.backbone.train(not training)
        before = modes(learner)
        with pytest.raises(RuntimeError, match="stop"), evaluating(learner):
            raise RuntimeError("stop")
        assert modes(learner) == before


def test_a_pair_is_two_learners_with_weights_of_their_own():
    first, second = make_pair(new_learner)
    assert not torch.equal(first.network.head.weight, second.network.head.weight)
    assert each_with_peer([first, second]) == [(first, second), (second, first)]


def test_a_pair_predicts_by_its_mean_logits():
    pair = make_pair(new_learner)
    inputs = torch.randn(4, 6)
    with evaluating(*pair), torch.no_grad():
        found = mean_prediction(pair, inputs)
        logits = (pair[0](inputs).logits + pair[1](inputs).logits) / 2
    torch.testing.assert_close(found, logits.softmax(1))


def test_options_without_a_rate_leave_every_rate_as_it_is():
    learner = new_learner(SGD(lr=0.1), logit_noise=True, noise_lr=5.0)
    learner.start_epoch(0)
    learner.set_options({"momentum": 0.3})
    groups = learner.optimiser.param_groups
    assert [group["momentum"] for group in groups] == [0.3, 0.3]
    assert [group["lr"] for group in groups] == pytest.approx([0.1, 0.5])
