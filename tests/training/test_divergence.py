"""Training that diverges: where, and in which examples."""

import math

import pytest
import torch

from ulc.errors import InputError
from ulc.training.divergence import check_values, name_examples


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_the_value_and_the_epoch_are_named(value):
    check_values({"loss": 1e30, "trusted": 0.0}, 4)
    with pytest.raises(InputError, match=f"^epoch 4: loss is {value}: .*lower the learning rate"):
        check_values({"trusted": 0.5, "loss": value}, 4)


def test_examples_are_named_as_far_as_they_are_known():
    assert name_examples([]) == ""
    some = name_examples([torch.tensor([5, 2]), torch.tensor([9])])
    assert some == " (training examples 5, 2, 9, counted from 0)"
    assert name_examples([torch.arange(1000)]).endswith(" more, counted from 0)")
