"""Views: random changes that keep the class, drawn for each example by itself."""

from collections.abc import Callable

import torch
from torch import Tensor

from ulc.data.randaugment import cutout, rand_augment

Augment = Callable[[Tensor], Tensor]


def weak_augmentation(shape: tuple[int, ...], shift: int | None = None) -> Augment:
    """Crop and flip for images (C, H, W), jitter for vectors (D,)."""
    if len(shape) == 3:
        # CIFAR's 4 pixels of 32, in proportion.
        padding = max(1, shape[-1] // 8) if shift is None else shift
        return lambda images: crop_and_flip(images, padding=padding)
    return lambda vectors: jitter(vectors, strength=0.1)


def strong_augmentation(shape: tuple[int, ...], shift: int | None = None) -> Augment:
    """The weak one and RandAugment and cutout for images; more jitter and gaps for vectors."""
    if len(shape) == 3:
        weak = weak_augmentation(shape, shift)
        return lambda images: cutout(rand_augment(weak(images)))
    return lambda vectors: drop_features(jitter(vectors, strength=0.3), share=0.2)


def crop_and_flip(images: Tensor, *, padding: int) -> Tensor:
    """Pad (B, C, H, W) with black, cut a window of the old size, mirror half at random.

    Each image at its own place. Rows of pixels are copied with all their channels, which is fast
    where channels come last in memory; those of the views do.
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
    left = torch.where(mirrored, 2 * padding - left, left)  # seen from the other side
    views = windows[mirrored.long(), torch.arange(count, device=device), top, left]
    return views.unflatten(2, (width, channels)).permute(0, 3, 1, 2)


def jitter(vectors: Tensor, *, strength: float) -> Tensor:
    """Add Gaussian noise of standard deviation `strength` (features have one overall)."""
    return torch.add(vectors, torch.randn_like(vectors), alpha=strength)


def drop_features(vectors: Tensor, *, share: float) -> Tensor:
    """Set each feature to its mean, zero, with this probability."""
    return torch.where(torch.rand_like(vectors) < share, 0.0, vectors)
