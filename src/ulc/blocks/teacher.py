"""A teacher: the exponential moving average of a network's weights."""

import copy
from functools import cached_property

import torch
from torch import Tensor, nn

from ulc.networks.classifier import Classifier, Output


class Teacher(nn.Module):
    """Moving average of a network's weights and batch-norm statistics; gets no gradient."""

    def __init__(self, network: Classifier) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).requires_grad_(False)
        # Integers are counts; infinities are constants, such as masks. Both are copied.
        self.averaged = {
            name
            for name, value in self.network.state_dict().items()
            if value.is_floating_point() and bool(value.isfinite().all())
        }

    @torch.no_grad()
    def update(self, network: Classifier, keep: float) -> None:
        """Set the average to keep·average + (1 − keep)·network."""
        theirs = network.state_dict(keep_vars=True)
        averaged, copied = self.tensors
        torch._foreach_lerp_(list(averaged.values()), [theirs[name] for name in averaged], 1 - keep)
        if copied:
            torch._foreach_copy_(list(copied.values()), [theirs[name] for name in copied])

    @cached_property
    def tensors(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The tensors of the average by name: those to average, and those to copy."""
        mine = self.network.state_dict(keep_vars=True)
        averaged = {name: value for name, value in mine.items() if name in self.averaged}
        return averaged, {name: value for name, value in mine.items() if name not in averaged}

    @torch.no_grad()
    def forward(self, inputs: Tensor) -> Output:
        """Output of the averaged network, without gradient."""
        return self.network(inputs)
