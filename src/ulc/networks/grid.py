"""A dense layer on a grid of channels, without moving the channels about."""

import torch.nn.functional as F
from torch import Tensor, nn


class ByPlace(nn.Module):
    """(B, C, H, W) to (B, H·W·C): as images lie in memory with their channels last, uncopied.

    To flatten them the usual way copies them, and their gradients become slow.
    """

    def forward(self, grid: Tensor) -> Tensor:
        """Place by place, the channels of each together."""
        return grid.permute(0, 2, 3, 1).flatten(1)


class GridLinear(nn.Module):
    """(B, H·W·C) values by place to (B, features); the weights start as those of `nn.Linear`."""

    def __init__(self, channels: int, size: int, features: int) -> None:
        super().__init__()
        self.channels = channels
        start = nn.Linear(channels * size * size, features, bias=False).weight.detach()
        self.weight = nn.Parameter(self.by_place(start))  # (features, H·W, C)

    def forward(self, values: Tensor) -> Tensor:
        """Multiply."""
        return F.linear(values, self.weight.flatten(1))

    def by_place(self, flat: Tensor) -> Tensor:
        """(features, C·H·W) weights of flattened channels as this layer holds them."""
        return flat.unflatten(1, (self.channels, -1)).transpose(1, 2).contiguous()
