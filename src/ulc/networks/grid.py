"""Flattening and a dense layer for feature maps that are channels-last in memory."""

import torch.nn.functional as F
from torch import Tensor, nn


class FlattenChannelsLast(nn.Module):
    """Flatten (B, C, H, W) to (B, H·W·C), without a copy if the input is channels-last in memory.

    `nn.Flatten` would copy such an input and slow down its gradient.
    """

    def forward(self, grid: Tensor) -> Tensor:
        """Flatten; the channels of a pixel stay together."""
        return grid.permute(0, 2, 3, 1).flatten(1)


class GridLinear(nn.Module):
    """Linear layer without bias from (B, H·W·C) to (B, features).

    Its initial weights are those of `nn.Linear` on (B, C·H·W).
    """

    def __init__(self, channels: int, size: int, features: int) -> None:
        super().__init__()
        self.channels = channels
        start = nn.Linear(channels * size * size, features, bias=False).weight.detach()
        self.weight = nn.Parameter(self.to_channels_last(start))  # (features, H·W, C)

    def forward(self, values: Tensor) -> Tensor:
        """Apply the layer."""
        return F.linear(values, self.weight.flatten(1))

    def to_channels_last(self, flat: Tensor) -> Tensor:
        """(features, C·H·W) weights to (features, H·W, C)."""
        return flat.unflatten(1, (self.channels, -1)).transpose(1, 2).contiguous()
