"""The mean softmax of noisy logits, computed in pieces."""

import math

import pytest
import torch

from ulc.blocks import noisy_softmax, uncertainty
from ulc.blocks.noisy_softmax import mean_noisy_log_softmax
from ulc.blocks.uncertainty import monte_carlo_dropout
from ulc.networks.classifier import Classifier, HeadSpec
from ulc.networks.mlp import MLP


def by_definition(logits, std, normal):
    return (logits + std * normal).log_softmax(1).logsumexp(0) - math.log(len(normal))


@pytest.mark.parametrize("cached", [1, 2 * 5 * 4, 2**18])
def test_value_and_gradients_are_those_of_the_definition_in_pieces_of_any_size(cached, monkeypatch):
    monkeypatch.setattr(noisy_softmax, "CACHED", cached)
    torch.manual_seed(0)
    logits, std, normal, weight = (
        torch.randn(*shape, dtype=torch.float64) for shape in [(5, 4), (5, 4), (3, 5, 4), (5, 4)]
    )
    found = []
    for function in (mean_noisy_log_softmax, by_definition):
        inputs = [logits.clone().requires_grad_(), std.clone().requires_grad_()]
        value = function(*inputs, normal)
        found.append([value, *torch.autograd.grad((weight * value).sum(), inputs)])
    torch.testing.assert_close(*found)


def test_improbable_classes_keep_finite_logarithms():
    """Probabilities of e^−200 are 0 in float32."""
    logits = torch.tensor([[0.0], [-200.0]], requires_grad=True)
    value = mean_noisy_log_softmax(logits, torch.zeros(2, 1), torch.zeros(3, 2, 1))
    assert value[:, 0].tolist() == pytest.approx([0, -200])
    value.sum().backward()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("noisy", [False, True])
def test_dropout_passes_in_groups_are_those_all_at_once(noisy, monkeypatch):
    torch.manual_seed(0)
    network = Classifier(MLP((6,), width=8), 8, 3, HeadSpec(dropout=0.3, logit_noise=noisy)).eval()
    inputs = torch.randn(4, 6)
    found = []
    for at_once in (2**20, 2 * 3 * 4, 1):
        monkeypatch.setattr(uncertainty, "NUMBERS_AT_ONCE", at_once)
        found.append(vars(monte_carlo_dropout(network, inputs, [1, 2, 3, 4, 5])))
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[0], found[2])
