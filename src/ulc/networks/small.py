"""Backbone for small images on a CPU."""

import torch
from torch import Tensor, nn

from ulc.networks.convolutions import Convolutions
from ulc.networks.grid import FlattenChannelsLast, GridLinear

GRID = 7  # feature maps are pooled to GRID × GRID, because the position of a feature matters


class SmallCNN(nn.Module):
    """(B, C, H, W) images to (B, 8·width) features: two strided convolutions, one dense layer."""

    channels_last = True  # memory format of images and activations

    def __init__(self, shape: tuple[int, ...], width: int = 16) -> None:
        super().__init__()
        self.early_stages = Convolutions(
            nn.Conv2d(shape[0], width, 5, 2, 2, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, 2 * width, 3, 2, 1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(inplace=True),
            # Images of 28 × 28 pixels need no pooling: their feature maps are GRID × GRID.
            nn.Identity() if shape[1:] == (4 * GRID, 4 * GRID) else nn.AdaptiveAvgPool2d(GRID),
            FlattenChannelsLast(),
        )
        self.last_stage = nn.Sequential(
            GridLinear(2 * width, GRID, 8 * width),
            nn.BatchNorm1d(8 * width),
            nn.ReLU(inplace=True),
        )
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        """Images to features."""
        return self.last_stage(self.early_stages(images))
