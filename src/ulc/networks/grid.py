"""A dense layer on a grid of channels, without moving the channels about."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn


class ByPlace(nn.Module):
    """(B, C, H, W) to (B, H·W·C): as images lie in memory with their channels last, uncopied.

    To flatten them the usual way copies them, and makes the gradients of all layers below slow.
    """

    def forward(self, grid: Tensor) -> Tensor:
        """Place by place, the channels of each together."""
        return grid.permute(0, 2, 3, 1).flatten(1)


class GridLinear(nn.Module):
    """(B, H·W·C) values by place to (B, features); the weights start as those of `nn.Linear`."""

    def __init__(self, channels: int, size: int, features: int) -> None:
        super().__init__()
        self.shape = (channels, size, size)
        start = nn.Linear(channels * size * size, features, bias=False).weight.detach()
        self.weight = nn.Parameter(start.unflatten(1, self.shape))

    def forward(self, values: Tensor) -> Tensor:
        """Multiply; where the weights have their channels last too, nothing is copied."""
        return F.linear(values, self.weight.permute(0, 2, 3, 1).flatten(1))

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Models kept by version 0.1 hold the weights flat, channel by channel."""
        name = f"{prefix}weight"
        if name in state and state[name].ndim == 2:
            state[name] = state[name].unflatten(1, self.shape)
        super()._load_from_state_dict(state, prefix, *rest)
