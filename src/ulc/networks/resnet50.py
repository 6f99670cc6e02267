"""ResNet-50 for photographs; parameters are named as in torchvision, so that its files fit."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EXPANSION = 4  # outputs of a block for each of its inner channels


class Bottleneck(nn.Module):
    """Residual block of three convolutions; the middle one has the stride."""

    def __init__(self, inputs: int, inner: int, stride: int) -> None:
        super().__init__()
        outputs = EXPANSION * inner
        self.conv1 = nn.Conv2d(inputs, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, values: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, 4 · inner, H / stride, W / stride)."""
        inside = F.relu(self.bn1(self.conv1(values)), inplace=True)
        inside = F.relu(self.bn2(self.conv2(inside)), inplace=True)
        return F.relu(self.bn3(self.conv3(inside)) + self.downsample(values), inplace=True)


class ResNet50(nn.Module):
    """(B, C, H, W) images to (B, 32·width) pooled features."""

    channels_last = True  # memory format of images and activations

    def __init__(self, shape: tuple[int, ...], width: int = 64) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(shape[0], width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = new_stage(width, width, 3, 1)
        self.layer2 = new_stage(EXPANSION * width, 2 * width, 4, 2)
        self.layer3 = new_stage(2 * EXPANSION * width, 4 * width, 6, 2)
        self.layer4 = new_stage(4 * EXPANSION * width, 8 * width, 3, 2)
        for part in self.modules():
            # The meta device has no values, and imports much before it says so.
            if isinstance(part, nn.Conv2d) and not part.weight.is_meta:
                nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        """Images to pooled features."""
        return self.last_stage(self.early_stages(images))

    def early_stages(self, images: Tensor) -> Tensor:
        """Apply all stages but the last."""
        values = F.relu(self.bn1(self.conv1(images)), inplace=True)
        values = F.max_pool2d(values, 3, 2, 1)
        return self.layer3(self.layer2(self.layer1(values)))

    def last_stage(self, values: Tensor) -> Tensor:
        """Apply the last stage, and pool over pixels."""
        return self.layer4(values).mean((2, 3))


def new_stage(inputs: int, inner: int, blocks: int, stride: int) -> nn.Sequential:
    """Make a stage of blocks; the first one has the stride."""
    first = Bottleneck(inputs, inner, stride)
    others = (Bottleneck(EXPANSION * inner, inner, 1) for _ in range(blocks - 1))
    return nn.Sequential(first, *others)
