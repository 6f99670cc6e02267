"""PreAct ResNet-18 as in DivideMix's code, which the ULC paper uses."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    """Pre-activation block of two convolutions; the shortcut starts at the activated input."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, values: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, outputs, H / stride, W / stride)."""
        active = F.relu(self.norm1(values), inplace=True)
        inner = self.conv2(F.relu(self.norm2(self.conv1(active)), inplace=True))
        return inner + self.shortcut(active)


class PreActResNet18(nn.Module):
    """(B, C, H, W) images to (B, 8·width) pooled features; no norm after the last stage."""

    channels_last = True  # memory format of images and activations

    def __init__(self, shape: tuple[int, ...], width: int = 64) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(shape[0], width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        )
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        self.stages = nn.ModuleList(
            nn.Sequential(Block(below, above, stride), Block(above, above, 1))
            for below, above, stride in zip(widths, widths[1:], (1, 2, 2, 2), strict=False)
        )
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        """Images to pooled features."""
        return self.last_stage(self.early_stages(images))

    def early_stages(self, images: Tensor) -> Tensor:
        """Apply all stages but the last."""
        values: Tensor = self.stem(images)
        for stage in self.stages[:-1]:
            values = stage(values)
        return values

    def last_stage(self, values: Tensor) -> Tensor:
        """Apply the last stage, and pool over pixels."""
        return self.stages[-1](values).mean((2, 3))
