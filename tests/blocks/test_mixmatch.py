"""Guess, sharpen, mix."""

import math

import pytest
import torch
from hypothesis import given as given_values
from hypothesis import settings
from hypothesis import strategies as st
from torch import nn

from ulc.blocks.learner import Learner, evaluating
from ulc.blocks.mixmatch import TargetedViews, guess, mixmatch_loss, sharpen
from ulc.blocks.uncertainty import plain_log_probability
from ulc.config import SGD
from ulc.networks.classifier import Classifier, HeadSpec, Output
from ulc.networks.mlp import MLP


class Says(nn.Module):
    """A learner whose logits are its inputs; it records them."""

    def forward(self, inputs):
        self.seen = inputs
        return Output(inputs, inputs)


def new_learner(seed, **heads):
    torch.manual_seed(seed)
    return Learner(Classifier(MLP((6,), width=8), 8, 3, HeadSpec(**heads)), SGD())


def buffers(learner):
    return {name: value.clone() for name, value in learner.named_buffers()}


class TestSharpen:
    def test_by_hand(self):
        """(.6, .3, .1)² = (.36, .09, .01), of which the sum is .46."""
        found = sharpen(torch.tensor([[0.6, 0.3, 0.1]]), 0.5)
        torch.testing.assert_close(found, torch.tensor([[0.36, 0.09, 0.01]]) / 0.46)

    def test_at_temperature_one_nothing_changes(self):
        probability = torch.tensor([[0.6, 0.3, 0.1]])
        torch.testing.assert_close(sharpen(probability, 1.0), probability)

    @settings(max_examples=80, deadline=None)
    @given_values(
        logits=st.lists(st.floats(-30, 30, width=32), min_size=2, max_size=6),
        temperature=st.floats(0.01, 5),
    )
    def test_it_stays_a_distribution_and_keeps_the_order(self, logits, temperature):
        probability = torch.tensor([logits]).softmax(1)
        found = sharpen(probability, temperature)
        assert (found >= 0).all()
        torch.testing.assert_close(found.sum(1), torch.ones(1))
        ordered = found[0, probability[0].argsort()]
        assert (ordered.diff() >= -1e-6).all()

    def test_a_sure_probability_stays_sure(self):
        sure = torch.tensor([[0.0, 1.0, 0.0]])
        assert torch.equal(sharpen(sure, 0.5), sure)

    def test_many_classes_at_a_low_temperature_do_not_vanish(self):
        """(1/1000)^(1/0.05) = 1e-60 is 0 in single precision."""
        found = sharpen(torch.full((1, 1000), 1e-3), 0.05)
        torch.testing.assert_close(found, torch.full((1, 1000), 1e-3))


class TestGuess:
    def test_it_is_the_mean_over_learners_and_views(self):
        first, second = new_learner(0), new_learner(1)
        views = torch.randn(4, 6), torch.randn(4, 6)
        with evaluating(first, second):
            found = guess([first, second], views)
            with torch.no_grad():
                parts = [
                    learner(view).logits.softmax(1) for learner in (first, second) for view in views
                ]
        torch.testing.assert_close(found, torch.stack(parts).mean(0))
        assert not found.requires_grad

    @pytest.mark.parametrize("place", ["feature", "last_stage"])
    def test_it_drops_nothing_even_in_training(self, place):
        learner = new_learner(0, dropout=0.5, dropout_place=place)
        learner.train()
        views = [torch.randn(4, 6)]
        state = torch.get_rng_state()
        found = guess([learner], views)
        assert torch.equal(state, torch.get_rng_state())
        torch.testing.assert_close(found, guess([learner], views))
        assert learner.network.dropout.training

    def test_each_learner_guesses_in_its_own_mode(self):
        """The learner uses batch statistics and updates its running ones; its peer, in evaluation
        mode, uses its running statistics and does not change them."""
        learner, peer = new_learner(0), new_learner(1)
        before, peers_before = buffers(learner), buffers(peer)
        view = 3 + 2 * torch.randn(5, 6)
        with evaluating(peer):
            found = guess([learner, peer], [view])
        assert not torch.equal(
            learner.network.backbone.last_stage[1].running_mean,
            before["network.backbone.last_stage.1.running_mean"],
        )
        for name, value in peer.named_buffers():
            assert torch.equal(value, peers_before[name]), name
        with torch.no_grad():
            by_batch = learner(view).logits.softmax(1)
            with evaluating(peer):
                by_running = peer(view).logits.softmax(1)
        torch.testing.assert_close(found, (by_batch + by_running) / 2)
        assert peer.training


class TestMixMatchLoss:
    known = TargetedViews(
        (torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])), torch.tensor([[0.8, 0.2]])
    )
    unknown = TargetedViews(
        (torch.tensor([[0.0, 0.0]]), torch.tensor([[math.log(3), 0.0]])),
        torch.tensor([[0.9, 0.1]]),
    )

    def test_unmixed_by_hand(self):
        """λ = 1; the logits are the inputs.

        Trusted, soft cross entropy, target (.8, .2): log p of (1, 0) is (−.3133, −1.3133), so
        .8·.3133 + .2·1.3133 = .5133; of (0, 2) is (−2.1269, −.1269): 1.7269. Mean 1.1201.
        Doubtful, target (.9, .1): p = (½, ½) is off by .4 twice, p = (¾, ¼) by .15 twice; the
        mean over two rows and two classes is (2·.16 + 2·.0225) / 4 = .09125.
        """
        mixed = mixmatch_loss(
            Says(), self.known, self.unknown, alpha=0.0, log_probability=plain_log_probability
        )
        assert float(mixed.trusted) == pytest.approx(1.1201, abs=1e-4)
        assert float(mixed.doubtful) == pytest.approx(0.09125, abs=1e-5)
        rows = torch.cat([*self.known.views, *self.unknown.views])
        assert torch.equal(mixed.logits, rows)

    def test_mixed_inputs_and_targets_go_together(self, monkeypatch):
        """λ = ¾, each row with the opposite one: partners 3, 2, 1, 0, across both sets."""
        monkeypatch.setattr("ulc.blocks.mixmatch.draw_dominant_lambda", lambda alpha: 0.75)
        monkeypatch.setattr(torch, "randperm", lambda n, device=None: torch.arange(n).flip(0))
        learner = Says()
        mixed = mixmatch_loss(
            learner, self.known, self.unknown, alpha=4.0, log_probability=plain_log_probability
        )
        rows = torch.cat([*self.known.views, *self.unknown.views])
        target = torch.tensor([[0.8, 0.2], [0.8, 0.2], [0.9, 0.1], [0.9, 0.1]])
        inputs = 0.75 * rows + 0.25 * rows.flip(0)
        mixed_target = 0.75 * target + 0.25 * target.flip(0)
        log_p = inputs.log_softmax(1)
        torch.testing.assert_close(learner.seen, inputs)
        expected = -(mixed_target[:2] * log_p[:2]).sum() / 2
        torch.testing.assert_close(mixed.trusted, expected)
        expected = (log_p[2:].exp() - mixed_target[2:]).square().sum() / 4
        torch.testing.assert_close(mixed.doubtful, expected)

    def test_the_loss_is_learned_through_the_log_probability_asked_for(self):
        """Uniform whatever the logits: cross entropy log 2, squared error .16."""
        uniform = torch.full((4, 2), 0.5).log()
        mixed = mixmatch_loss(
            Says(), self.known, self.unknown, alpha=0.0, log_probability=lambda output: uniform
        )
        assert float(mixed.trusted) == pytest.approx(math.log(2))
        assert float(mixed.doubtful) == pytest.approx(0.16)

    def test_sets_of_different_size_mix(self):
        torch.manual_seed(0)
        known = TargetedViews((torch.randn(5, 3), torch.randn(5, 3)), torch.rand(5, 3).softmax(1))
        unknown = TargetedViews((torch.randn(2, 3), torch.randn(2, 3)), torch.rand(2, 3).softmax(1))
        mixed = mixmatch_loss(
            Says(), known, unknown, alpha=4.0, log_probability=plain_log_probability
        )
        assert mixed.logits.shape == (14, 3)
        assert mixed.trusted.isfinite()
        assert mixed.doubtful.isfinite()
