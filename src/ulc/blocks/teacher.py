"""A teacher: the exponential moving average of a network's weights."""

import copy

import torch
from torch import Tensor, nn

from ulc.networks.classifier import Classifier, Output


class Teacher(nn.Module):
    """Moving average of a network's weights and batch-norm statistics; gets no gradient."""

    def __init__(self, network: Classifier) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).requires_grad_(False)

    @torch.no_grad()
    def update(self, network: Classifier, keep: float) -> None:
        """Set the average to keep·average + (1 − keep)·network; integer values are copied."""
        theirs = network.state_dict()
        for name, mine in self.network.state_dict().items():
            if mine.is_floating_point():
                # Equal values stay: between infinities (in masks) `lerp` would give NaN.
                same = mine == theirs[name]
                mine.copy_(torch.where(same, mine, mine.lerp(theirs[name], 1 - keep)))
            else:
                mine.copy_(theirs[name])

    @torch.no_grad()
    def forward(self, inputs: Tensor) -> Output:
        """Output of the averaged network, without gradient."""
        return self.network(inputs)
