"""A teacher: the exponential moving average of a network's weights."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ulc.blocks.learner import evaluating
from ulc.blocks.teacher import Teacher
from ulc.networks.classifier import Classifier, HeadSpec
from ulc.networks.mlp import MLP


def new_network(seed=0):
    torch.manual_seed(seed)
    return Classifier(MLP((6,), width=8), 8, 3, HeadSpec())


def state(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def moved(network):
    """Other weights; running statistics and counters of three batches."""
    with torch.no_grad():
        for each in network.parameters():
            each.add_(torch.randn_like(each))
        for _ in range(3):
            network(3 + 2 * torch.randn(10, 6))
    return network


class Counting(TorchDispatchMode):
    """Counts operations."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


def test_an_update_takes_two_operations_for_any_number_of_tensors():
    """A GPU starts each operation by itself, and a deep network has hundreds of tensors."""
    network = new_network()
    teacher = Teacher(network)
    with Counting() as operations:
        teacher.update(network, 0.9)
    assert operations.count <= 2


@pytest.mark.parametrize("keep", [0.0, 0.75, 1.0])
def test_weights_and_statistics_are_averaged_and_counters_copied(keep):
    """keep·old + (1 − keep)·new; the counter of batches is copied, not averaged."""
    network = new_network()
    teacher = Teacher(network)
    old, new = state(teacher.network), state(moved(network))
    teacher.update(network, keep)
    found = state(teacher.network)
    counters = [name for name in found if not found[name].is_floating_point()]
    assert counters == ["backbone.last_stage.1.num_batches_tracked"]
    assert "backbone.last_stage.1.running_var" in found
    for name, value in found.items():
        expected = new[name] if name in counters else keep * old[name] + (1 - keep) * new[name]
        torch.testing.assert_close(value, expected, msg=name)
    assert int(found[counters[0]]) == 3


def test_what_was_first_fades_by_the_share_kept():
    """The network does not change: after n steps 0.9ⁿ of the start is left."""
    network = new_network()
    teacher = Teacher(network)
    start, there = network.head.weight.detach().clone(), moved(network).head.weight.detach()
    for _ in range(5):
        teacher.update(network, 0.9)
    expected = there + 0.9**5 * (start - there)
    torch.testing.assert_close(teacher.network.head.weight, expected)


def test_the_network_followed_is_untouched():
    network = new_network()
    teacher = Teacher(network)
    before = state(moved(network))
    teacher.update(network, 0.5)
    for value in teacher.network.state_dict().values():
        value.zero_()
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert all(each.requires_grad for each in network.parameters())
    assert all(each.grad is None for each in network.parameters())


def test_no_gradient_reaches_it():
    network = new_network()
    teacher = Teacher(network)
    teacher.update(network, 0.5)
    assert not any(each.requires_grad for each in teacher.parameters())
    inputs = torch.randn(4, 6, requires_grad=True)
    assert not teacher(inputs).logits.requires_grad
    assert not any(each.requires_grad for each in teacher.network.state_dict().values())


def test_a_teacher_that_keeps_nothing_says_what_the_network_says():
    """In evaluation mode, so its batch-norm statistics were copied, too."""
    network = new_network()
    teacher = Teacher(network)
    teacher.update(moved(network), 0.0)
    inputs = torch.randn(4, 6)
    with evaluating(teacher, network), torch.no_grad():
        torch.testing.assert_close(teacher(inputs).logits, network(inputs).logits)
