"""The small convolutional network: its dense layer on a grid, its frozen batch norms."""

import copy

import pytest
import torch
from torch import nn

from ulc.networks.grid import FlattenChannelsLast, GridLinear
from ulc.networks.small import SmallCNN


def test_it_is_flattening_and_a_linear_layer():
    """The same function, start and gradients as the usual two layers, in another order."""
    torch.manual_seed(0)
    usual = nn.Linear(3 * 4 * 4, 5, bias=False)
    torch.manual_seed(0)
    layer = GridLinear(3, 4, 5)
    values = torch.randn(6, 3, 4, 4)
    ours = layer(FlattenChannelsLast()(values.contiguous(memory_format=torch.channels_last)))
    theirs = usual(values.flatten(1))
    torch.testing.assert_close(ours, theirs)
    ours.square().sum().backward()
    theirs.square().sum().backward()
    torch.testing.assert_close(layer.weight.grad, layer.to_channels_last(usual.weight.grad))


def test_nothing_is_copied_where_channels_come_last():
    values = torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    assert FlattenChannelsLast()(values).data_ptr() == values.data_ptr()


def layer_by_layer(network, images):
    values = images
    for layer in network.early_stages:
        values = layer(values)
    return network.last_stage(values)


@pytest.mark.parametrize("frozen", [(), (1,), (1, 4)])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 12, 10)])
def test_a_frozen_batch_norm_is_a_part_of_its_convolution(shape, frozen):
    """The same values and running statistics as layer by layer, whichever norms are frozen."""
    torch.manual_seed(0)
    network = SmallCNN(shape, width=2)
    with torch.no_grad():
        for place in (1, 4):  # as after some training
            norm = network.early_stages[place]
            norm.weight.uniform_(0.5, 2)
            norm.bias.normal_()
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.1, 3)
    other = copy.deepcopy(network)
    for each in (network, other):
        for place in frozen:
            each.early_stages[place].eval()
    images = torch.randn(5, *shape)
    torch.testing.assert_close(network(images), layer_by_layer(other, images))
    for one, same in zip(network.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(one, same)
