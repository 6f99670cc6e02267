"""Convolutions with batch norm; frozen batch norms are folded into the convolutions."""

from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn


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
