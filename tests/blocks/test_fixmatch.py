"""FixMatch: confident guesses on weak views become labels of strong views."""

import math

import pytest
import torch
from torch import nn

from ulc.blocks.fixmatch import fixmatch_loss
from ulc.blocks.mixmatch import TargetedViews
from ulc.blocks.uncertainty import plain_log_probability
from ulc.networks.classifier import Output


class Says(nn.Module):
    """A learner whose logits are its inputs; it records the inputs of each call."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, inputs):
        self.seen.append(inputs)
        return Output(inputs, inputs)


def known():
    """Two weak views of one example: log p is (−.3133, −1.3133) and (−2.1269, −.1269)."""
    return TargetedViews(
        (torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])), torch.tensor([[0.8, 0.2]])
    )


def unknown(*surest):
    """One strong view each, p = (¾, ¼); guesses of class 1."""
    view = torch.tensor([[math.log(3), 0.0]]).repeat(len(surest), 1)
    return TargetedViews((view,), torch.tensor([[1 - p, p] for p in surest]))


def loss(unknown, confidence=0.95, log_probability=plain_log_probability):
    return fixmatch_loss(Says(), known(), unknown, confidence, log_probability)


def test_both_parts_by_hand():
    """Trusted: .8·.3133 + .2·1.3133 = .5133 and .8·2.1269 + .2·.1269 = 1.7269; mean 1.1201.
    Doubtful: the guess is sure, and the strong view gives it ¼: log 4."""
    found = loss(unknown(0.99))
    assert float(found.trusted) == pytest.approx(1.1201, abs=1e-4)
    assert float(found.doubtful) == pytest.approx(math.log(4), abs=1e-6)


def test_a_guess_is_a_label_however_sure_it_is():
    torch.testing.assert_close(loss(unknown(0.96)).doubtful, loss(unknown(1.0)).doubtful)


def test_an_unsure_guess_counts_as_nought_in_the_mean_over_all_rows():
    """One sure guess of four: log 4 / 4."""
    found = loss(unknown(0.6, 0.99, 0.9, 0.94))
    assert float(found.doubtful) == pytest.approx(math.log(4) / 4, abs=1e-6)


def test_where_no_guess_is_sure_nothing_is_learned_from_it():
    views = unknown(0.6, 0.7)
    views.views[0].requires_grad_()
    found = loss(views)
    found.doubtful.backward()
    assert float(found.doubtful.detach()) == 0
    assert (views.views[0].grad == 0).all()


@pytest.mark.parametrize("confidence", [0.6, 0.75, 0.95, 1.0])
def test_a_guess_at_the_confidence_counts(confidence):
    assert loss(unknown(confidence), confidence).doubtful > 0
    assert loss(unknown(confidence - 1e-4), confidence).doubtful == 0


def test_every_strong_view_has_its_own_examples_guess():
    """Views (0, log 3) and (log 3, 0) of each of two examples; only the second's guess, class 0,
    is sure: −log ¼ in its first view and −log ¾ in its second, of four rows."""
    first, second = torch.tensor([[0.0, math.log(3)]]), torch.tensor([[math.log(3), 0.0]])
    views = first.repeat(2, 1), second.repeat(2, 1)
    found = loss(TargetedViews(views, torch.tensor([[0.5, 0.5], [1.0, 0.0]])))
    assert float(found.doubtful) == pytest.approx((math.log(4) + math.log(4 / 3)) / 4, abs=1e-6)


def test_both_sets_go_through_the_network_in_one_pass_and_its_logits_come_back():
    learner, doubtful = Says(), unknown(0.99, 0.6)
    found = fixmatch_loss(learner, known(), doubtful, 0.95, plain_log_probability)
    (seen,) = learner.seen
    assert torch.equal(seen, torch.cat([*known().views, *doubtful.views]))
    assert torch.equal(found.logits, seen)


def test_the_loss_is_learned_through_the_log_probability_asked_for():
    """Uniform whatever the logits: log 2 for a trusted row and for a sure guess."""
    uniform = torch.full((3, 2), 0.5).log()
    found = loss(unknown(0.99), log_probability=lambda output: uniform)
    assert float(found.trusted) == pytest.approx(math.log(2))
    assert float(found.doubtful) == pytest.approx(math.log(2))


def test_the_gradient_reaches_the_strong_views_and_not_the_guesses():
    """Of the only sure row p − label = (¾ − 0, ¼ − 1), over two rows."""
    doubtful = unknown(0.99, 0.6)
    doubtful.views[0].requires_grad_()
    doubtful.target.requires_grad_()
    loss(doubtful).doubtful.backward()
    expected = torch.tensor([[0.375, -0.375], [0.0, 0.0]])
    torch.testing.assert_close(doubtful.views[0].grad, expected)
    assert doubtful.target.grad is None or (doubtful.target.grad == 0).all()
