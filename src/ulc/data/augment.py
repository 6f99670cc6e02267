"""Augmentation: random changes that keep the class, drawn for each example separately."""

from collections.abc import Callable

import torch
from torch import Tensor

from ulc.data.randaugment import cutout, rand_augment

Augment = Callable[[Tensor], Tensor]  # (B, …) stored inputs to changed inputs of the same shape


def weak_augmentation(
    shape: tuple[int, ...], shift: int | None = None, crop: int | None = None
) -> Augment:
    """Return the weak augmentation: images are cropped and flipped, vectors get Gaussian noise.

    shape: shape of one input, (C, H, W) or (D,)
    shift: largest move of an image by cropping, in pixels; None: an eighth of the width
    crop: height and width of the part of an image that is kept; None: its size is kept
    """
    if crop is not None:
        return lambda images: cut_and_flip(images, size=crop)
    if len(shape) == 3:
        # An eighth, because 4 of 32 pixels are usual for CIFAR.
        padding = max(1, shape[-1] // 8) if shift is None else shift
        return lambda images: crop_and_flip(images, padding=padding)
    return lambda vectors: jitter(vectors, strength=0.1)


def strong_augmentation(
    shape: tuple[int, ...], shift: int | None = None, crop: int | None = None
) -> Augment:
    """Return the strong augmentation; the parameters are those of `weak_augmentation`.

    Images: weak augmentation, RandAugment, cutout. Vectors: more noise, random features set to 0.
    """
    if len(shape) == 3:
        weak = weak_augmentation(shape, shift, crop)
        return lambda images: cutout(rand_augment(weak(images)))
    return lambda vectors: drop_features(jitter(vectors, strength=0.3), share=0.2)


def crop_and_flip(images: Tensor, *, padding: int) -> Tensor:
    """Pad (B, C, H, W) images with black, crop each at a random place, flip it with probability ½.

    padding: black pixels on each side; a crop has the size of the image before padding

    Fast for images that are channels-last in memory; the result is channels-last, too.
    """
    count, channels, height, width = images.shape
    device = images.device
    top, left = torch.randint(2 * padding + 1, (2, count), device=device)
    mirrored = torch.rand(count, device=device) < 0.5
    rows = images.permute(0, 2, 3, 1)
    padded = rows.new_zeros(2, count, height + 2 * padding, width + 2 * padding, channels)
    inner = padded[:, :, padding : padding + height, padding : padding + width]
    inner[0], inner[1] = rows, rows.flip(2)
    windows = padded.flatten(3).unfold(2, height, 1).unfold(3, width * channels, channels)
    left = torch.where(mirrored, 2 * padding - left, left)  # position in the mirrored image
    views = windows[mirrored.long(), torch.arange(count, device=device), top, left]
    return views.unflatten(2, (width, channels)).permute(0, 3, 1, 2)


def cut_and_flip(images: Tensor, *, size: int) -> Tensor:
    """Cut a square at a random place of each (B, C, H, W) image, flip it with probability ½.

    size: height and width of the square; the result is channels-last in memory
    """
    count, channels, height, width = images.shape
    device = images.device
    top = torch.randint(height - size + 1, (count,), device=device)
    left = torch.randint(width - size + 1, (count,), device=device)
    mirrored = torch.rand(count, device=device) < 0.5
    rows = images.permute(0, 2, 3, 1).contiguous().flatten(2)
    windows = rows.unfold(1, size, 1).unfold(2, size * channels, channels)
    views = windows[torch.arange(count, device=device), top, left].unflatten(2, (size, channels))
    views = torch.where(mirrored[:, None, None, None], views.flip(2), views)
    return views.permute(0, 3, 1, 2)


def jitter(vectors: Tensor, *, strength: float) -> Tensor:
    """Add Gaussian noise with standard deviation `strength` to (B, D) normalised vectors."""
    return torch.add(vectors, torch.randn_like(vectors), alpha=strength)


def drop_features(vectors: Tensor, *, share: float) -> Tensor:
    """Set each feature of (B, D) vectors to 0, which is its mean, with probability `share`."""
    return torch.where(torch.rand_like(vectors) < share, 0.0, vectors)
