"""A small convolutional network for small images on a CPU."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ulc.networks.grid import ByPlace, GridLinear

GRID = 7  # features are pooled to a grid, not to one value: where something lies matters


class SmallCNN(nn.Module):
    """(B, C, H, W) images to (B, 8·width) features: two strided convolutions, one dense layer."""

    channels_last = True  # in memory: images and activations

    def __init__(self, shape: tuple[int, ...], width: int = 16) -> None:
        super().__init__()
        self.early_stages = Convolutions(
            nn.Conv2d(shape[0], width, 5, 2, 2, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, 2 * width, 3, 2, 1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(inplace=True),
            # 28 pixels come out as the grid itself; pooling them would only cost time.
            nn.Identity() if shape[1:] == (4 * GRID, 4 * GRID) else nn.AdaptiveAvgPool2d(GRID),
            ByPlace(),
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
    """Layers in order; each convolution, which has no bias, is followed by its batch norm."""

    def forward(self, values: Tensor) -> Tensor:
        """Where a batch norm is frozen, it is a part of the convolution before it."""
        layers = iter(self)
        for layer in layers:
            if isinstance(layer, nn.Conv2d):
                values = normed(layer, next(layers), values)
            else:
                values = layer(values)
        return values


def normed(convolution: nn.Conv2d, norm: nn.Module, values: Tensor) -> Tensor:
    """Batch norm of a convolution, by scaled weights if its statistics do not move."""
    if norm.training or not isinstance(norm, nn.BatchNorm2d):
        return norm(convolution(values))
    mean, variance = cast("Tensor", norm.running_mean), cast("Tensor", norm.running_var)
    scale = norm.weight * (variance + norm.eps).rsqrt()
    weight = convolution.weight * scale[:, None, None, None]
    bias = norm.bias - mean * scale
    return F.conv2d(values, weight, bias, convolution.stride, convolution.padding)
