"""The narrow residual network: its arithmetic, its layout in memory, its frozen batch norms."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ulc.networks.narrow_resnet import BLOCKS, Block, NarrowResNet

SHAPES = [(3, 32, 32), (1, 28, 28), (1, 8, 8), (3, 9, 14)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def batch(shape, rows=3):
    images = torch.randn(rows, *shape, generator=torch.Generator().manual_seed(1))
    return images.contiguous(memory_format=torch.channels_last)


def trained(shape, width=2):
    """A network with parameters and running statistics as after some training."""
    torch.manual_seed(0)
    network = NarrowResNet(shape, width=width)
    with torch.no_grad():
        for part in network.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.weight.uniform_(0.5, 2)
                part.bias.normal_()
                part.running_mean.normal_()
                part.running_var.uniform_(0.1, 3)
    return network


def count_multiplications(network, shape):
    """Multiplications of all convolutions for one image."""
    counts = []
    for part in network.modules():
        if isinstance(part, nn.Conv2d):
            part.register_forward_hook(
                lambda layer, _, output: counts.append(layer.weight.numel() * output[0, 0].numel())
            )
    network.train()(batch(shape, rows=2))  # in evaluation folded convolutions call no hook
    return sum(counts)


def test_an_image_of_cifar_takes_at_most_22_million_multiplications():
    """By hand: 0.4 million in the stem, 3.7 in the first stage, 8.4 in each other stage."""
    stem = 9 * 3 * 16 * 32**2
    first = (9 * 16 * 32 + 9 * 32 * 32 + 16 * 32) * 16**2
    # A quarter of the pixels and twice the channels: the last stage takes as many as the second.
    second = (9 * 32 * 64 + 3 * 9 * 64 * 64 + 32 * 64) * 8**2
    counted = count_multiplications(NarrowResNet((3, 32, 32)), (3, 32, 32))
    assert counted == stem + first + 2 * second
    assert 20e6 < counted < 22e6


def test_four_times_the_pixels_take_four_times_the_multiplications():
    network = NarrowResNet((3, 16, 16), width=2)
    small, large = (
        count_multiplications(copy.deepcopy(network), (3, side, side)) for side in (16, 32)
    )
    assert large == 4 * small


@every_shape
@pytest.mark.parametrize("width", [2, 3])
def test_images_become_eight_widths_of_features(shape, width):
    assert NarrowResNet(shape, width=width)(batch(shape)).shape == (3, 8 * width)


@every_shape
@pytest.mark.parametrize("training", [True, False])
def test_the_stages_together_are_the_network(shape, training):
    network = trained(shape).train(training)
    parts = network.last_stage(network.early_stages(batch(shape)))
    assert torch.equal(parts, network(batch(shape)))


def test_the_last_stage_leaves_its_input_as_it_was():
    """Dropout passes use the output of the early stages several times."""
    network = trained((3, 16, 16)).eval()
    reached = network.early_stages(batch((3, 16, 16)))
    before = reached.clone()
    network.last_stage(reached)
    assert torch.equal(reached, before)


def test_each_stage_halves_the_image_and_doubles_the_width():
    network = NarrowResNet((3, 32, 32), width=2)
    values = network.stem(batch((3, 32, 32)))
    sizes = [values.shape[1:]]
    for stage in network.stages:
        values = stage(values)
        sizes.append(values.shape[1:])
    assert sizes == [(2, 32, 32), (4, 16, 16), (8, 8, 8), (16, 4, 4)]


def test_a_block_has_two_convolutions_and_a_third_where_its_shape_changes():
    parts = list(NarrowResNet((3, 32, 32), width=2).modules())
    count = 1 + 2 * sum(BLOCKS) + len(BLOCKS)
    for kind in (nn.Conv2d, nn.BatchNorm2d):
        assert sum(isinstance(part, kind) for part in parts) == count


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("training", [True, False])
def test_every_feature_map_has_its_channels_last_in_memory(channels, training):
    shape = (channels, 32, 32)
    network = trained(shape, width=4).train(training)
    assert network.channels_last
    seen = []
    for part in network.modules():
        if isinstance(part, (nn.Conv2d, Block)):
            part.register_forward_hook(lambda layer, _, output: seen.append(output))
    network(batch(shape))
    assert len(seen) >= sum(BLOCKS)
    assert all(each.is_contiguous(memory_format=torch.channels_last) for each in seen)


def test_the_shortcut_carries_the_input():
    """With the residual at nought only the shortcut is left, and its values are not negative."""
    block = Block(2, 2)
    nn.init.zeros_(block.residual[-1].weight)
    values = torch.randn(3, 2, 4, 4)
    assert torch.equal(block(values), F.relu(values))


def test_where_the_image_is_halved_the_shortcut_carries_means_of_its_pixels():
    """Four pixels inside, two or one at an odd border; no pixel is left out."""
    block = Block(1, 2).eval()
    nn.init.zeros_(block.residual[-1].weight)
    with torch.no_grad():
        block.shortcut[1].weight.copy_(torch.tensor([1.0, -1.0]).view(2, 1, 1, 1))
    values = torch.arange(9.0).view(1, 1, 3, 3)
    means = torch.tensor([[2.0, 3.5], [6.5, 8.0]]) / (1 + 1e-5) ** 0.5  # batch norm's own epsilon
    assert torch.allclose(block(values), torch.stack([means, torch.zeros(2, 2)])[None])


def layer_by_layer(network, images):
    """The features without folding: every convolution, then its batch norm."""

    def block(part, values):
        inner, outer = values, values
        for layer in part.residual:
            inner = layer(inner)
        for layer in part.shortcut.children():
            outer = layer(outer)
        return F.relu(inner + outer)

    values = images
    for layer in network.stem:
        values = layer(values)
    for stage in network.stages:
        for part in stage:
            values = block(part, values)
    return values.mean((2, 3))


@every_shape
def test_a_frozen_batch_norm_is_a_part_of_its_convolution(shape):
    network = trained(shape).eval()
    torch.testing.assert_close(network(batch(shape)), layer_by_layer(network, batch(shape)))


def test_in_training_values_gradients_and_statistics_are_those_layer_by_layer():
    """The sums in place do not change what is learned."""
    shape = (3, 16, 16)
    network = trained(shape)
    other = copy.deepcopy(network)
    ours, theirs = network(batch(shape)), layer_by_layer(other, batch(shape))
    torch.testing.assert_close(ours, theirs)
    ours.square().sum().backward()
    theirs.square().sum().backward()
    for one, same in zip(network.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one.grad, same.grad)
    for one, same in zip(network.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(one, same)


@pytest.mark.parametrize("frozen", [False, True])
def test_every_parameter_gets_a_gradient(frozen):
    network = trained((3, 16, 16)).train(not frozen)
    network(batch((3, 16, 16))).square().sum().backward()
    assert all(each.grad is not None and each.grad.any() for each in network.parameters())
