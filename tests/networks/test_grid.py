"""A dense layer on a grid of channels."""

import torch
from torch import nn

from ulc.networks.grid import ByPlace, GridLinear
from ulc.networks.small import SmallCNN


def test_it_is_flattening_and_a_linear_layer():
    """The same function, start and gradients as the usual two layers, in another order."""
    torch.manual_seed(0)
    usual = nn.Linear(3 * 4 * 4, 5, bias=False)
    torch.manual_seed(0)
    layer = GridLinear(3, 4, 5)
    values = torch.randn(6, 3, 4, 4)
    ours = layer(ByPlace()(values.contiguous(memory_format=torch.channels_last)))
    theirs = usual(values.flatten(1))
    torch.testing.assert_close(ours, theirs)
    ours.square().sum().backward()
    theirs.square().sum().backward()
    torch.testing.assert_close(layer.weight.grad, layer.by_place(usual.weight.grad))


def test_nothing_is_copied_where_channels_come_last():
    values = torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    assert ByPlace()(values).data_ptr() == values.data_ptr()


def test_flat_weights_of_an_earlier_version_are_understood():
    torch.manual_seed(0)
    network = SmallCNN((1, 28, 28), width=2).eval()
    state = network.state_dict()
    name = "last_stage.0.weight"
    earlier = {**state, name: state[name].transpose(1, 2).flatten(1)}
    other = SmallCNN((1, 28, 28), width=2).eval()
    other.load_state_dict(earlier)
    images = torch.randn(3, 1, 28, 28)
    torch.testing.assert_close(other(images), network(images))
