"""Losses, by hand."""

import math

import pytest
import torch
import torch.nn.functional as F

from ulc.blocks.losses import (
    early_learning_penalty,
    kl_divergence,
    negative_entropy,
    prior_penalty,
    soft_cross_entropy,
)


def test_soft_cross_entropy_by_hand():
    """−(.8·log .5 + .2·log .5) = .6931 and −(.8·log .9 + .2·log .1) = .5448; mean .6190."""
    log_probability = torch.tensor([[0.5, 0.5], [0.9, 0.1]]).log()
    target = torch.tensor([[0.8, 0.2], [0.8, 0.2]])
    assert float(soft_cross_entropy(log_probability, target)) == pytest.approx(0.6190, abs=1e-4)


def test_soft_cross_entropy_of_hard_labels_is_cross_entropy():
    torch.manual_seed(0)
    logits, given = torch.randn(5, 4), torch.tensor([0, 3, 1, 1, 2])
    found = soft_cross_entropy(logits.log_softmax(1), F.one_hot(given, 4))
    torch.testing.assert_close(found, F.cross_entropy(logits, given))


def test_negative_entropy_by_hand():
    """Uniform over two: −log 2 = −.6931; (.9, .1): .9·log .9 + .1·log .1 = −.3251; mean."""
    logits = torch.tensor([[3.0, 3.0], [math.log(9), 0.0]])
    assert float(negative_entropy(logits)) == pytest.approx((-0.6931 - 0.3251) / 2, abs=1e-4)


def test_prior_penalty_by_hand():
    """Mean prediction of (.9, .1) and (.7, .3) is (.8, .2): ½·log(.5/.8) + ½·log(.5/.2)."""
    logits = torch.tensor([[0.9, 0.1], [0.7, 0.3]]).log()
    expected = 0.5 * math.log(0.5 / 0.8) + 0.5 * math.log(0.5 / 0.2)
    assert float(prior_penalty(logits)) == pytest.approx(expected, abs=1e-6)


def test_prior_penalty_is_nought_for_an_even_mean_and_positive_else():
    """The mean of two certain but opposite predictions is uniform."""
    assert float(prior_penalty(torch.tensor([[9.0, 0.0], [0.0, 9.0]]))) == pytest.approx(
        0, abs=1e-6
    )
    torch.manual_seed(0)
    assert float(prior_penalty(3 * torch.randn(3, 4))) > 0


def test_prior_penalty_and_its_gradient_are_finite_for_a_class_nobody_expects():
    """A class 200 below in every row has probability e^−200, which single precision does not
    hold; its logarithm is −200 all the same: −log 2 + (0 + 200) / 2."""
    logits = torch.tensor([[200.0, 0.0], [200.0, 0.0]], requires_grad=True)
    penalty = prior_penalty(logits)
    penalty.backward()
    assert float(penalty.detach()) == pytest.approx(100 - math.log(2), abs=1e-4)
    assert logits.grad.isfinite().all()


def test_kl_divergence_by_hand():
    """(.8, .2) against (.5, .5): .8·log 1.6 + .2·log .4 = .1927; against itself 0; mean."""
    p = torch.tensor([[0.8, 0.2], [0.8, 0.2]])
    q = torch.tensor([[0.5, 0.5], [0.8, 0.2]])
    assert float(kl_divergence(p.log(), q.log())) == pytest.approx(0.1927 / 2, abs=1e-4)


def test_kl_divergence_is_torchs_and_not_symmetric():
    torch.manual_seed(0)
    log_p, log_q = torch.randn(2, 6, 4).log_softmax(2)
    expected = F.kl_div(log_q, log_p, reduction="batchmean", log_target=True)
    torch.testing.assert_close(kl_divergence(log_p, log_q), expected)
    assert abs(kl_divergence(log_p, log_q) - kl_divergence(log_q, log_p)) > 1e-3


def test_early_learning_penalty_by_hand():
    """p = (¾, ¼): with memory (1, 0) log ¼, with (.2, .8) log(1 − .15 − .2) = log .65; mean."""
    logits = torch.tensor([[math.log(3), 0.0]] * 2)
    remembered = torch.tensor([[1.0, 0.0], [0.2, 0.8]])
    expected = (math.log(0.25) + math.log(0.65)) / 2
    assert float(early_learning_penalty(logits, remembered)) == pytest.approx(expected, abs=1e-6)


def test_early_learning_pulls_the_prediction_to_what_is_remembered():
    """A step down the penalty raises the remembered class and none of the others."""
    logits = torch.tensor([[0.3, -0.2, 0.1]], requires_grad=True)
    early_learning_penalty(logits, torch.tensor([[0.0, 1.0, 0.0]])).backward()
    assert (logits.grad < 0).tolist() == [[False, True, False]]


def test_early_learning_penalty_is_finite_for_a_sure_prediction_remembered():
    """1 − p·q would be 0; p is kept a ten-thousandth off 1, so the least is log 10⁻⁴."""
    logits = torch.tensor([[200.0, 0.0]], requires_grad=True)
    penalty = early_learning_penalty(logits, torch.tensor([[1.0, 0.0]]))
    penalty.backward()
    assert float(penalty.detach()) == pytest.approx(math.log(1e-4), abs=1e-2)
    assert logits.grad.isfinite().all()
