"""Stochastic gradient descent with momentum, against torch's own."""

import copy

import pytest
import torch
from torch import nn

from ulc.blocks.momentum import Momentum


def weights():
    torch.manual_seed(3)
    return [nn.Parameter(torch.randn(shape)) for shape in [(5, 4), (4,), (3, 2, 2, 2)]]


def groups(parameters, decay=0.01):
    return [
        {"params": parameters[:2], "weight_decay": decay},
        {"params": parameters[2:], "weight_decay": 0.0},
    ]


def steps(optimiser, parameters, count, *, seed=0):
    """Take `count` steps with random gradients that the seed determines."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        for each in parameters:
            each.grad = torch.randn(each.shape, generator=generator)
        optimiser.step()


def assert_same(first, second):
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("fused", [True, False])
def test_it_steps_as_torch_does(momentum, fused):
    ours, theirs = weights(), weights()
    own = Momentum(groups(ours), lr=0.1, momentum=momentum)
    steps(own, ours, 4)
    peer = torch.optim.SGD(groups(theirs), lr=0.1, momentum=momentum, fused=fused)
    steps(peer, theirs, 4)
    assert_same(ours, theirs)


def test_by_hand():
    """w = 1, gradient 1, decay ½, μ = ½, rate 1: m = 1.5, w = −.5; m = .75 + .75, w = −2."""
    weight = nn.Parameter(torch.ones(1))
    own = Momentum([{"params": [weight], "weight_decay": 0.5}], lr=1.0, momentum=0.5)
    reached = []
    for _ in range(2):
        weight.grad = torch.ones(1)
        own.step()
        reached.append(weight.item())
    assert reached == [-0.5, -2.0]


def test_a_parameter_without_a_gradient_stays():
    parameters = weights()
    before = parameters[1].detach().clone()
    own = Momentum(groups(parameters), lr=0.1, momentum=0.9)
    parameters[0].grad = torch.ones(5, 4)
    own.step()
    assert torch.equal(parameters[1].detach(), before)


def test_it_goes_on_from_its_state_to_the_same_bits():
    whole, broken = weights(), weights()
    steps(Momentum(groups(whole), lr=0.1, momentum=0.9), whole, 2)
    first = Momentum(groups(broken), lr=0.1, momentum=0.9)
    steps(first, broken, 2)
    state = copy.deepcopy(first.state_dict())
    second = Momentum(groups(broken, decay=0.7), lr=5.0, momentum=0.1)
    second.load_state_dict(state)
    steps(second, broken, 3, seed=1)
    again = weights()
    unbroken = Momentum(groups(again), lr=0.1, momentum=0.9)
    steps(unbroken, again, 2)
    steps(unbroken, again, 3, seed=1)
    for one, other in zip(broken, again, strict=True):
        assert torch.equal(one, other)


def test_its_state_has_the_layout_of_torchs_sgd():
    """So it goes on from a state that torch's SGD saved."""
    ours, theirs = weights(), weights()
    peer = torch.optim.SGD(groups(theirs), lr=0.1, momentum=0.9, fused=True)
    steps(peer, theirs, 2)
    steps(Momentum(groups(ours), lr=0.1, momentum=0.9), ours, 2)
    own = Momentum(groups(ours), lr=3.0, momentum=0.0)
    own.load_state_dict(copy.deepcopy(peer.state_dict()))
    steps(own, ours, 3, seed=1)
    steps(peer, theirs, 3, seed=1)
    assert_same(ours, theirs)
