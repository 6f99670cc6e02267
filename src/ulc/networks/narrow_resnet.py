"""Narrow residual network: a backbone for small images on a CPU."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ulc.networks.convolutions import Convolutions

BLOCKS = (1, 2, 2)  # number of blocks of each stage


class Block(nn.Module):
    """Residual block of two convolutions (He et al. 2016); the sum is activated.

    A block that widens also halves the image; its shortcut takes means of 2 × 2 pixels, so that no
    pixel is lost (ResNet-D, He et al. 2019). Batch norms follow their convolutions, so that frozen
    ones can be folded into them.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.residual = Convolutions(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride == 2:
            self.shortcut = Convolutions(
                nn.AvgPool2d(2, ceil_mode=True),  # a mean of fewer pixels at an odd border
                nn.Conv2d(inputs, outputs, 1, bias=False),
                nn.BatchNorm2d(outputs),
            )

    def forward(self, values: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, outputs, H / stride, W / stride), rounded up."""
        return F.relu(self.residual(values).add_(self.shortcut(values)), inplace=True)


class NarrowResNet(nn.Module):
    """(B, C, H, W) images to (B, 8·width) pooled features: a stem and three stages of blocks.

    Each stage halves the image, the first one too. On maps as large as the image a processor waits
    for memory, so only the stem has their size.
    """

    channels_last = True  # memory format of images and activations

    def __init__(self, shape: tuple[int, ...], width: int = 16) -> None:
        super().__init__()
        self.stem = Convolutions(
            nn.Conv2d(shape[0], width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        )
        self.stages = nn.ModuleList()
        for blocks in BLOCKS:
            others = [Block(2 * width, 2 * width) for _ in range(1, blocks)]
            self.stages.append(nn.Sequential(Block(width, 2 * width), *others))
            width *= 2
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        """Images to pooled features."""
        return self.last_stage(self.early_stages(images))

    def early_stages(self, images: Tensor) -> Tensor:
        """Apply the stem and all stages but the last."""
        values: Tensor = self.stem(images)
        for stage in self.stages[:-1]:
            values = stage(values)
        return values

    def last_stage(self, values: Tensor) -> Tensor:
        """Apply the last stage, and pool over pixels."""
        return self.stages[-1](values).mean((2, 3))
