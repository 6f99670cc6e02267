"""Batch norm over the rows of several processes, which these tests play one after the other."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ulc.networks.batch_statistics import SharedBatchNorm, shared_batch_norm
from ulc.networks.processes import tensors_of


def exchange_of(parts):
    """The exchange between processes of which each has one of the parts."""
    sent = []
    for part in parts:
        shared_batch_norm(lambda own: sent.append(own) or own, part, None, None)
    return lambda _: torch.cat(sent)


def normal(*shape):
    return 5 + 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(0)).double()


@pytest.mark.parametrize("shape", [(12, 3), (12, 3, 4, 5)])
@pytest.mark.parametrize("sizes", [[12], [5, 7], [3, 2, 7]])
def test_parts_of_any_size_are_normalised_as_the_whole(shape, sizes):
    values = normal(*shape)
    weight, bias = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, -1.0]]).double()
    exchange = exchange_of(values.split(sizes))
    for affine in ((None, None), (weight, None), (None, bias), (weight, bias)):
        expected = F.batch_norm(values, None, None, *affine, training=True)
        found = [
            shared_batch_norm(exchange, part, None, None, *affine) for part in values.split(sizes)
        ]
        torch.testing.assert_close(torch.cat(found), expected)


def test_running_statistics_of_every_process_are_those_of_the_whole():
    values = normal(12, 3, 2)
    parts = values.split([5, 7])
    exchange = exchange_of(parts)
    alone = torch.zeros(3).double(), torch.ones(3).double()
    F.batch_norm(values, *alone, training=True, momentum=0.3)
    for part in parts:
        running = torch.zeros(3).double(), torch.ones(3).double()
        shared_batch_norm(exchange, part, *running, momentum=0.3)
        torch.testing.assert_close(running, alone)


def test_layers_in_training_share_their_statistics_and_others_do_not():
    values = normal(12, 3).float()
    parts = values.split([5, 7])
    layer, whole = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    expected = whole(values)[:5]
    with SharedBatchNorm(exchange_of(parts)):
        torch.testing.assert_close(layer(parts[0]), expected)
        torch.testing.assert_close(layer.running_var, whole.running_var)
        layer.eval()
        torch.testing.assert_close(layer(parts[0]), whole.eval()(parts[0]))


def test_the_buffers_of_a_module_are_what_the_first_process_decides():
    layer = nn.BatchNorm1d(3)
    assert [id(each) for each in tensors_of(layer)] == [id(each) for each in layer.buffers()]
    assert list(tensors_of("text")) == []
