"""Backbone for small images on a CPU."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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


class Convolutions(nn.Sequential):
    """Sequence of layers in which a batch norm follows each convolution (without bias)."""

    def forward(self, values: Tensor) -> Tensor:
        """Apply the layers; fold frozen batch norms into their convolutions."""
        layers = iter(self)
        for layer in layers:
            if isinstance(layer, nn.Conv2d):
                values = convolve_and_normalise(layer, next(layers), values)
            else:
                values = layer(values)
        return values


def convolve_and_normalise(convolution: nn.Conv2d, norm: nn.Module, values: Tensor) -> Tensor:
    """Convolution and batch norm; in evaluation mode as one convolution with scaled weights."""
    if norm.training or not isinstance(norm, nn.BatchNorm2d):
        return norm(convolution(values))
    mean, variance = cast("Tensor", norm.running_mean), cast("Tensor", norm.running_var)
    scale = norm.weight * (variance + norm.eps).rsqrt()
    weight = convolution.weight * scale[:, None, None, None]
    bias = norm.bias - mean * scale
    return F.conv2d(values, weight, bias, convolution.stride, convolution.padding)
