"""RandAugment and cutout on a batch of images, drawn for each image separately (FixMatch).

There are fourteen operations with FixMatch's ranges. Colour operations give Pillow's results;
shears do not move the centre. Each operation takes (B, C, H, W) floats in 0 … 255 and a (B,) level
in (0, 1), and returns the changed images.
"""

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ulc.data.constants import constant

GREY = 127.0
SMOOTHING = (1.0, 1.0, 1.0, 1.0, 5.0, 1.0, 1.0, 1.0, 1.0)  # 3 × 3, divided by 13, as in Pillow
LUMA = (0.299, 0.587, 0.114)  # weights of red, green and blue


def rand_augment(images: Tensor, rounds: int = 2) -> Tensor:
    """In each round, apply a random operation at a random level (0.1, 0.2, … 0.9) to each image."""
    changed = images.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
    for _ in range(rounds):
        chosen = torch.randint(len(OPERATIONS), (len(images),), device=images.device)
        level = torch.randint(1, 10, (len(images),), device=images.device) / 10
        for rows, operation in zip(rows_by_number(chosen), OPERATIONS, strict=True):
            if len(rows):
                changed[rows] = operation(changed[rows], level[rows]).clamp(0, 255).round()
    return changed.to(images.dtype)


def rows_by_number(chosen: Tensor) -> Sequence[Tensor]:
    """For each operation, the positions of the images that get it, in their order.

    The processor waits for a GPU once, to read how many they are.
    """
    numbers = torch.arange(len(OPERATIONS), device=chosen.device)
    counts = (chosen == numbers[:, None]).sum(1).tolist()
    return chosen.argsort(stable=True).split(counts)


def cutout(images: Tensor) -> Tensor:
    """Fill a rectangle with grey at a random place of each image.

    It has half the height and half the width of the image, less what lies outside the image.
    """
    count, _, height, width = images.shape
    down = torch.arange(height, device=images.device) - draw_centres(count, height, images)
    across = torch.arange(width, device=images.device) - draw_centres(count, width, images)
    hit_down = (down >= -(height // 4)) & (down < height // 2 - height // 4)
    hit_across = (across >= -(width // 4)) & (across < width // 2 - width // 4)
    hit = hit_down[:, None, :, None] & hit_across[:, None, None, :]
    return images.masked_fill(hit, GREY)


def draw_centres(count: int, size: int, images: Tensor) -> Tensor:
    """Draw (count, 1) random positions along a side of `size` pixels, on the device of `images`."""
    return torch.randint(size, (count, 1), device=images.device)


def identity(images: Tensor, level: Tensor) -> Tensor:  # noqa: ARG001 (all have one signature)
    """Return the images unchanged."""
    return images


def auto_contrast(images: Tensor, level: Tensor) -> Tensor:  # noqa: ARG001
    """Stretch the range of each channel of each image to 0 … 255."""
    low, high = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
    return torch.where(high > low, (images - low) * (255 / (high - low).clamp(min=1)), images)


def brightness(images: Tensor, level: Tensor) -> Tensor:
    """Blend each image with black, as `interpolate` does."""
    return interpolate(torch.zeros_like(images), images, level)


def colour(images: Tensor, level: Tensor) -> Tensor:
    """Blend each image with its grey version, as `interpolate` does."""
    return interpolate(grey_tones(images), images, level)


def contrast(images: Tensor, level: Tensor) -> Tensor:
    """Blend each image with one grey, the mean of its grey version, as `interpolate` does."""
    return interpolate(grey_tones(images).mean((1, 2, 3), keepdim=True), images, level)


def sharpness(images: Tensor, level: Tensor) -> Tensor:
    """Blend each image, except its border, with its smoothed version, as `interpolate` does."""
    channels = images.shape[1]
    kernel = (constant(SMOOTHING, images.device).view(3, 3) / 13).expand(channels, 1, 3, 3)
    smooth = images.clone()
    if min(images.shape[2:]) > 2:
        smooth[:, :, 1:-1, 1:-1] = F.conv2d(images, kernel, groups=channels)
    return interpolate(smooth, images, level)


def equalize(images: Tensor, level: Tensor) -> Tensor:  # noqa: ARG001
    """Equalise the histogram of each channel of each image."""
    count, channels, height, width = images.shape
    tones = images.long().reshape(count * channels, height * width)
    histogram = torch.zeros(len(tones), 256, dtype=torch.long, device=images.device)
    histogram.scatter_add_(1, tones, torch.ones_like(tones))
    step = (height * width - histogram.gather(1, tones.amax(1, keepdim=True))) // 255
    before = histogram.cumsum(1) - histogram
    table = ((before + step // 2) // step.clamp(min=1)).clamp(max=255)
    flat = torch.where(step > 0, table.gather(1, tones), tones)
    return flat.view(images.shape).to(images)


def posterize(images: Tensor, level: Tensor) -> Tensor:
    """Keep the upper bits of each pixel: four at the lowest level, seven at the highest."""
    bits = (level * 4).floor() + 4
    step = (2 ** (8 - bits)).view(-1, 1, 1, 1)
    return (images / step).floor() * step


def solarize(images: Tensor, level: Tensor) -> Tensor:
    """Invert pixels from 256 · (1 − level) upwards."""
    threshold = 256 - 256 * level.view(-1, 1, 1, 1)
    return torch.where(images < threshold, images, 255 - images)


def rotate(images: Tensor, level: Tensor) -> Tensor:
    """Rotate each image by 30 degrees times level, in a random direction."""
    angle = draw_sign(level) * math.radians(30)
    stretch = images.shape[2] / images.shape[3]
    cos, sin = angle.cos(), angle.sin()
    return apply_affine(images, ((cos, sin * stretch, None), (-sin / stretch, cos, None)))


def shear_x(images: Tensor, level: Tensor) -> Tensor:
    """Shear each image horizontally, by 0.3 times level, in a random direction."""
    return apply_affine(
        images,
        (
            (None, draw_sign(level) * 0.3 * images.shape[2] / images.shape[3], None),
            (None, None, None),
        ),
    )


def shear_y(images: Tensor, level: Tensor) -> Tensor:
    """Shear each image vertically, by 0.3 times level, in a random direction."""
    return apply_affine(
        images,
        (
            (None, None, None),
            (draw_sign(level) * 0.3 * images.shape[3] / images.shape[2], None, None),
        ),
    )


def translate_x(images: Tensor, level: Tensor) -> Tensor:
    """Move each image horizontally by 0.3 of its width times level, in a random direction."""
    return apply_affine(images, ((None, None, 2 * draw_sign(level) * 0.3), (None, None, None)))


def translate_y(images: Tensor, level: Tensor) -> Tensor:
    """Move each image vertically by 0.3 of its height times level, in a random direction."""
    return apply_affine(images, ((None, None, None), (None, None, 2 * draw_sign(level) * 0.3)))


OPERATIONS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    auto_contrast, brightness, colour, contrast, equalize, identity, posterize, rotate, sharpness,
    shear_x, shear_y, solarize, translate_x, translate_y,
)  # fmt: skip


def interpolate(other: Tensor, images: Tensor, level: Tensor) -> Tensor:
    """Blend images with `other`; the share of the image is 0.05 + 0.9 · level."""
    kept = (0.05 + 0.9 * level).view(-1, 1, 1, 1)
    return other + kept * (images - other)


def grey_tones(images: Tensor) -> Tensor:
    """Return (B, 1, H, W) grey images: luma if there are three channels, else their mean."""
    if images.shape[1] != 3:
        return images.mean(1, keepdim=True)
    weights = constant(LUMA, images.device).view(1, 3, 1, 1)
    return (images * weights).sum(1, keepdim=True)


def draw_sign(level: Tensor) -> Tensor:
    """Return each level with a random sign."""
    return torch.where(torch.rand(len(level), device=level.device) < 0.5, level, -level)


def apply_affine(images: Tensor, rows: tuple[tuple[Tensor | None, ...], ...]) -> Tensor:
    """Apply an affine map to each image: nearest pixel, black outside the image.

    rows: 2 × 3 matrix from output to input coordinates, both from −1 to 1; each entry has one value
        per image; None: as in the identity
    """
    matrix = torch.eye(2, 3, device=images.device).repeat(len(images), 1, 1)
    for i, row in enumerate(rows):
        for j, entry in enumerate(row):
            if entry is not None:
                matrix[:, i, j] = entry
    grid = F.affine_grid(matrix, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="nearest", padding_mode="zeros", align_corners=False)
