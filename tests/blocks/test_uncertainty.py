"""Monte-Carlo dropout and learned noise on the logits."""

import math

import pytest
import torch
from hypothesis import given as given_values
from hypothesis import settings
from hypothesis import strategies as st
from torch import nn

from ulc.blocks.learner import Learner, evaluating
from ulc.blocks.uncertainty import (
    DOUBT_SCALINGS,
    CorruptedLogProbability,
    IntegratedPredictions,
    draw_mask_seeds,
    integrate_predictions,
    monte_carlo_dropout,
    normalised_entropy,
    plain_log_probability,
    scale_by_log_classes,
    scale_by_range,
)
from ulc.config import SGD
from ulc.networks.classifier import Classifier, HeadSpec, Output
from ulc.networks.mlp import MLP
from ulc.testing import toy_data

K = 3


def new_learner(**heads):
    torch.manual_seed(0)
    return Learner(Classifier(MLP((6,), width=8), 8, K, HeadSpec(**heads)), SGD())


def noisy(logits, instance_std, class_std):
    return Output(logits, logits, instance_std, class_std)


def integrated(prediction):
    """Integrated predictions from passes that all give `prediction`."""
    log = prediction.log()
    return IntegratedPredictions(log, -(prediction * log).nansum(1), None)


class TestMonteCarloDropout:
    @pytest.mark.parametrize("place", ["feature", "last_stage"])
    def test_batch_norm_is_frozen_and_modes_come_back(self, place):
        learner = new_learner(dropout=0.5, dropout_place=place)
        learner.train()
        before = {name: value.clone() for name, value in learner.named_buffers()}
        assert before
        integrate_predictions(learner, toy_data("vector"), passes=4)
        for name, value in learner.named_buffers():
            assert torch.equal(value, before[name]), name
        assert all(part.training for part in learner.modules())

    def test_without_dropout_one_pass_is_the_plain_prediction(self):
        learner, data = new_learner(), toy_data("vector")
        inputs = next(data.in_order()).inputs
        with evaluating(learner), torch.no_grad():
            expected = learner(inputs).logits.log_softmax(1)
        for passes in (1, 5):
            found = integrate_predictions(learner, data, passes).log_probability
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)

    @pytest.mark.parametrize("place", ["feature", "last_stage"])
    @pytest.mark.parametrize("logit_noise", [False, True])
    def test_passes_are_averaged_as_probabilities(self, place, logit_noise):
        """ŷ = (1/T)Σ_t softmax(v_t), the features masked by hand instead of the weights."""
        learner = new_learner(dropout=0.5, dropout_place=place, logit_noise=logit_noise)
        network, inputs = learner.network, next(toy_data("vector").in_order()).inputs
        with evaluating(learner), torch.no_grad():
            found = monte_carlo_dropout(network, inputs, members=[1, 2, 3])
            members, noises = [], []
            for seed in (1, 2, 3):
                generator, values = torch.Generator().manual_seed(seed), network.trunk(inputs)
                if place == "last_stage":
                    values = values * network.dropout.draw_mask(values, generator)
                    values = network.backbone.last_stage(values)
                features = values * network.dropout.draw_mask(values, generator)
                members.append(network.head(features).softmax(1))
                if logit_noise:
                    noises.append(nn.functional.softplus(network.noise_head(features)))
        assert not torch.allclose(members[0], members[1])
        torch.testing.assert_close(found.prediction, torch.stack(members).mean(0))
        entropies = [-(each * each.log()).sum(1) for each in members]
        torch.testing.assert_close(found.entropy_of_passes, torch.stack(entropies).mean(0))
        assert (found.instance_std is None) == (not logit_noise)
        if logit_noise:
            torch.testing.assert_close(found.instance_std, torch.stack(noises).mean(0))

    def test_every_example_meets_the_same_members(self):
        """Copies of an example get the same prediction in any batch."""
        learner = new_learner(dropout=0.5)
        members = draw_mask_seeds(learner.network, 4)
        inputs = torch.randn(6, 6).repeat(3, 1)
        network = learner.network.eval()
        whole = monte_carlo_dropout(network, inputs, members).prediction
        parts = [monte_carlo_dropout(network, each, members).prediction for each in inputs.split(5)]
        torch.testing.assert_close(torch.cat(parts), whole)
        torch.testing.assert_close(whole[:6], whole[12:])

    def test_members_are_drawn_anew_each_time(self):
        learner, data = new_learner(dropout=0.5), toy_data("vector")
        one, other = (integrate_predictions(learner, data, passes=3) for _ in range(2))
        assert not torch.allclose(one.log_probability, other.log_probability)

    def test_without_dropout_nothing_is_drawn(self):
        learner, data = new_learner(), toy_data("vector")
        state = torch.get_rng_state()
        integrate_predictions(learner, data, passes=3)
        assert torch.equal(torch.get_rng_state(), state)

    def test_the_trunk_is_computed_once(self):
        learner = new_learner(dropout=0.5)
        calls = count_calls(learner.network.backbone)
        monte_carlo_dropout(learner.network, torch.randn(5, 6), range(7))
        assert len(calls) == 1

    def test_with_dropout_before_the_last_stage_only_that_is_repeated(self):
        learner = new_learner(dropout=0.5, dropout_place="last_stage")
        early = count_calls(learner.network.backbone.early_stages)
        last = count_calls(learner.network.backbone.last_stage)
        monte_carlo_dropout(learner.network, torch.randn(5, 6), range(7))
        assert (len(early), len(last)) == (1, 7)

    def test_the_instance_noise_is_reported_as_a_standard_deviation(self):
        """The noise head starts with zero weights, so every example has the initial noise."""
        data = toy_data("vector")
        learner = new_learner(logit_noise=True, instance_std=0.4)
        found = integrate_predictions(learner, data, passes=2)
        expected = torch.full((len(data), K), 0.4)
        torch.testing.assert_close(found.instance_std, expected)
        assert integrate_predictions(new_learner(), data, passes=2).instance_std is None


class TestLoss:
    def test_it_is_minus_log_of_the_integrated_prediction_of_the_given_label(self):
        """Equation 1. ŷ = (.7, .2, .1) with label 1: −log .2 = 1.6094."""
        prediction = torch.tensor([[0.7, 0.2, 0.1], [0.05, 0.05, 0.9]])
        losses = integrated(prediction).given_losses(torch.tensor([1, 2]))
        torch.testing.assert_close(losses, torch.tensor([1.6094, 0.1054]), rtol=0, atol=1e-4)
        torch.testing.assert_close(integrated(prediction).prediction, prediction)

    def test_it_is_not_more_than_that_of_a_probability_of_1e_minus_8(self):
        log_probability = torch.tensor([[0.0, -400.0, -500.0]])
        found = IntegratedPredictions(log_probability, torch.zeros(1), None)
        losses = found.given_losses(torch.tensor([1]))
        torch.testing.assert_close(losses, torch.tensor([-math.log(1e-8)]))


class TestEntropy:
    def test_a_uniform_prediction_has_one_a_sure_one_none(self):
        logits = torch.tensor([[2.0, 2.0, 2.0], [1e4, 0.0, 0.0]])
        torch.testing.assert_close(
            normalised_entropy(logits.log_softmax(1)), torch.tensor([1.0, 0.0])
        )

    def test_by_hand(self):
        """(½, ½, 0⁺): log 2 / log 3 = 0.6309."""
        log_probability = torch.tensor([[0.5, 0.5, 1e-30]]).log()
        assert float(normalised_entropy(log_probability)) == pytest.approx(0.6309, abs=1e-4)

    @settings(max_examples=50, deadline=None)
    @given_values(
        rows=st.lists(
            st.lists(st.floats(-1e4, 1e4, width=32), min_size=4, max_size=4), min_size=1, max_size=5
        )
    )
    def test_it_lies_between_zero_and_one(self, rows):
        log_probability = torch.tensor(rows).log_softmax(1)
        found = IntegratedPredictions(log_probability, torch.zeros(len(rows)), None)
        for scaling in DOUBT_SCALINGS.values():
            for kind in ("entropy", "mutual_information"):
                doubt = scaling(found.doubt(kind), 4)
                assert doubt.shape == (len(rows),)
                assert ((doubt >= 0) & (doubt <= 1)).all()

    def test_mutual_information_is_nought_where_all_passes_say_the_same(self):
        """A toss-up that every pass calls a toss-up: ambiguous, but nothing to be learned."""
        same = integrated(torch.tensor([[0.5, 0.5]]))
        assert float(same.doubt("entropy")) == pytest.approx(math.log(2))
        assert float(same.doubt("mutual_information")) == pytest.approx(0, abs=1e-6)

    def test_mutual_information_is_the_entropy_where_the_passes_are_sure_and_disagree(self):
        """Half of the passes are sure of the one class, half of the other: H = log 2, mean 0."""
        torn = IntegratedPredictions(torch.tensor([[0.5, 0.5]]).log(), torch.zeros(1), None)
        assert float(torn.doubt("mutual_information")) == pytest.approx(math.log(2))

    def test_ranged_it_runs_from_the_surest_to_the_least_sure(self):
        """Three rows: (e − low) / (high − low)."""
        log_probability = torch.tensor([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]]).log_softmax(1)
        entropy = normalised_entropy(log_probability)
        low, middle, high = entropy.flip(0).tolist()
        expected = torch.tensor([1.0, (middle - low) / (high - low), 0.0])
        torch.testing.assert_close(scale_by_range(entropy, 2), expected)

    def test_ranged_it_is_nought_where_all_are_as_sure(self):
        assert (scale_by_range(torch.full((4,), 0.7), 3) == 0).all()


class TestLogitNoise:
    logits = torch.tensor([[1.0, -2.0, 0.5], [0.3, 0.1, -3.0]])

    @pytest.mark.parametrize("shared", [False, True])
    def test_without_variance_it_is_the_plain_log_softmax(self, shared):
        nothing = torch.zeros(2, K), torch.zeros(K, K)
        found = CorruptedLogProbability(5, shared=shared)(noisy(self.logits, *nothing))
        torch.testing.assert_close(found, self.logits.log_softmax(1))
        torch.testing.assert_close(
            plain_log_probability(Output(self.logits, self.logits)), self.logits.log_softmax(1)
        )

    @pytest.mark.parametrize("shared", [False, True])
    def test_it_is_a_log_probability(self, shared):
        output = noisy(self.logits, torch.ones(2, K), torch.ones(K, K))
        found = CorruptedLogProbability(4, shared=shared)(output)
        assert found.shape == (2, K)
        torch.testing.assert_close(found.logsumexp(1), torch.zeros(2))

    def test_the_local_variance_by_hand(self, monkeypatch):
        """Variance on logit i: s_i² + Σ_j S_ij²·v_j²; the sign of S does not matter.

        v = (1, −2, .5), s = (1, 2, 3), S² = ((1, 2, 4), (0, 1, 0), (3, 0, 0)):
        1 + 1·1 + 2·4 + 4·.25 = 11;  4 + 1·4 = 8;  9 + 3·1 = 12.
        With every normal draw 1 the logits are v + √variance.
        """
        classes = -torch.tensor([[1.0, 2.0, 4.0], [0.0, 1.0, 0.0], [3.0, 0.0, 0.0]]).sqrt()
        output = noisy(self.logits[:1], torch.tensor([[1.0, 2.0, 3.0]]), classes)
        monkeypatch.setattr(torch, "randn", ones)
        found = CorruptedLogProbability(2)(output)
        expected = self.logits[:1] + torch.tensor([[11.0, 8.0, 12.0]]).sqrt()
        torch.testing.assert_close(found, expected.log_softmax(1))

    def test_the_shared_draw_by_hand(self, monkeypatch):
        """v̂ = (I + δ)v + δ^x with δ = S, δ^x = s: every normal draw is 1.

        δ = ((1, 2, 0), (0, 1, 0), (3, 0, 0)), v = (1, −2, .5), δ^x = (1, 2, 3):
        δv = (1 − 4, −2, 3), so v̂ = v + (−2, 0, 6).
        """
        classes = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0], [3.0, 0.0, 0.0]])
        output = noisy(self.logits[:1], torch.tensor([[1.0, 2.0, 3.0]]), classes)
        monkeypatch.setattr(torch, "randn", ones)
        found = CorruptedLogProbability(2, shared=True)(output)
        expected = self.logits[:1] + torch.tensor([[-2.0, 0.0, 6.0]])
        torch.testing.assert_close(found, expected.log_softmax(1))

    @pytest.mark.parametrize("shared", [False, True])
    def test_each_logit_has_the_mean_and_variance_the_formula_says(self, shared):
        """Local and shared draws alike, from 8,000 single draws.

        log p_i − log p_j is the difference of two independent corrupted logits: mean v_i − v_j,
        variance V_i + V_j. A mean is off by √(V/8000), a variance by V·√(2/8000) = 1.6 %: four
        of these are allowed.
        """
        torch.manual_seed(0)
        logits, instance = self.logits[:1], torch.tensor([[0.7, 0.4, 0.3]])
        classes = torch.tensor([[0.5, 0.3, 0.4], [0.4, 0.2, 0.6], [0.3, 0.5, 0.7]])
        variance = (instance.square() + logits.square() @ classes.square().T)[0]
        corrupted = CorruptedLogProbability(1, shared=shared)
        output = noisy(logits, instance, classes)
        drawn = torch.cat([corrupted(output) for _ in range(8000)])
        for i, j in ((0, 1), (0, 2), (1, 2)):
            difference = drawn[:, i] - drawn[:, j]
            spread = float(variance[i] + variance[j])
            mean = float(logits[0, i] - logits[0, j])
            assert float(difference.mean()) == pytest.approx(mean, abs=4 * math.sqrt(spread / 8000))
            assert float(difference.var()) == pytest.approx(spread, rel=4 * math.sqrt(2 / 8000))

    def test_shared_is_one_draw_for_the_batch_local_one_for_each(self):
        twins = noisy(self.logits[[0, 0]], torch.zeros(2, K), torch.ones(K, K))
        torch.manual_seed(0)
        shared = CorruptedLogProbability(3, shared=True)(twins)
        torch.testing.assert_close(shared[0], shared[1])
        local = CorruptedLogProbability(3)(twins)
        assert not torch.allclose(local[0], local[1], atol=0.05)

    def test_draws_are_averaged_as_probabilities(self, monkeypatch):
        """log of the mean of two softmaxes, with draws of 1 and −1 on every logit."""
        signs = torch.tensor([1.0, -1.0])[:, None, None]
        monkeypatch.setattr(torch, "randn", lambda *shape, device=None: signs.expand(*shape))
        deviations = torch.tensor([[1.0, 2.0, 3.0]])
        output = noisy(self.logits[:1], deviations, torch.zeros(K, K))
        found = CorruptedLogProbability(2)(output)
        members = [(self.logits[:1] + sign * deviations).softmax(1) for sign in (1, -1)]
        torch.testing.assert_close(found, torch.stack(members).mean(0).log())

    @pytest.mark.parametrize("shared", [False, True])
    def test_gradients_reach_both_kinds_of_noise(self, shared):
        learner = new_learner(logit_noise=True)
        output = learner(torch.randn(4, 6))
        log_probability = CorruptedLogProbability(3, shared=shared)(output)
        log_probability[:, 0].sum().backward()
        network = learner.network
        for parameter in (
            network.class_std,
            network.noise_head.bias,
            network.noise_head.weight,
            network.head.weight,
        ):
            assert parameter.grad is not None
            assert parameter.grad.isfinite().all()
            assert parameter.grad.abs().sum() > 0

    def test_a_network_without_noise_is_told_so(self):
        for stds in ({}, {"instance_std": self.logits}, {"class_std": self.logits}):
            with pytest.raises(ValueError, match="no logit noise"):
                CorruptedLogProbability(3)(Output(self.logits, self.logits, **stds))


def ones(*shape, device=None):
    return torch.ones(*shape)


def count_calls(module: nn.Module) -> list[int]:
    calls: list[int] = []
    module.register_forward_hook(lambda *_: calls.append(1))
    return calls


def test_scaled_doubt_does_not_leave_its_range():
    """Rounding can make an entropy larger than log K, or negative."""
    doubt = torch.tensor([-0.1, 0.0, math.log(4) / 2, math.log(4), 1.5 * math.log(4)])
    assert scale_by_log_classes(doubt, 4).tolist() == pytest.approx([0, 0, 0.5, 1, 1])
    assert scale_by_range(doubt, 4).tolist()[::4] == [0, 1]
    assert scale_by_range(torch.ones(3), 4).tolist() == [0, 0, 0]
