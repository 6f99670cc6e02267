"""A teacher: the running average of a network's weights."""

import copy

import torch
from torch import Tensor, nn

from ulc.networks.classifier import Classifier, Output


class Teacher(nn.Module):
    """Follows a network; batch-norm statistics come along, so it can be evaluated as it is."""

    def __init__(self, network: Classifier) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).requires_grad_(False)

    @torch.no_grad()
    def follow(self, network: Classifier, keep: float) -> None:
        """Keep the share `keep` of the old average; whole numbers (counters) are copied."""
        theirs = network.state_dict()
        for name, mine in self.network.state_dict().items():
            if mine.is_floating_point():
                # What is equal stays: a mask of a user's network may hold infinities.
                same = mine == theirs[name]
                mine.copy_(torch.where(same, mine, mine.lerp(theirs[name], 1 - keep)))
            else:
                mine.copy_(theirs[name])

    @torch.no_grad()
    def forward(self, inputs: Tensor) -> Output:
        """What the average says; no gradient reaches it."""
        return self.network(inputs)
