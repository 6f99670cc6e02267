"""Views: random changes that keep the class, drawn for each example by itself."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from ulc.data.randaugment import cutout, rand_augment

Augment = Callable[[Tensor], Tensor]


def weak_augmentation(shape: tuple[int, ...], shift: int | None = None) -> Augment:
    """Crop and flip for images (C, H, W), jitter for vectors (D,)."""
    if len(shape) == 3:
        # CIFAR's 4 pixels of 32, in proportion.
        padding = max(1, shape[-1] // 8) if shift is None else shift
        return lambda images: random_flip(random_crop(images, padding=padding))
    return lambda vectors: jitter(vectors, strength=0.1)


def strong_augmentation(shape: tuple[int, ...], shift: int | None = None) -> Augment:
    """The weak one and RandAugment and cutout for images; more jitter and gaps for vectors."""
    if len(shape) == 3:
        weak = weak_augmentation(shape, shift)
        return lambda images: cutout(rand_augment(weak(images)))
    return lambda vectors: drop_features(jitter(vectors, strength=0.3), share=0.2)


def random_crop(images: Tensor, *, padding: int) -> Tensor:
    """Pad (B, C, H, W) with black and cut a window of the old size, each at its own place."""
    count, _, height, width = images.shape
    padded = F.pad(images, (padding, padding, padding, padding))
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    places = torch.randint(2 * padding + 1, (2, count), device=images.device)
    return windows[torch.arange(count, device=images.device), :, places[0], places[1]]


def random_flip(images: Tensor) -> Tensor:
    """Mirror each image left to right with probability one half."""
    flipped = torch.rand(len(images), device=images.device) < 0.5
    return torch.where(flipped[:, None, None, None], images.flip(-1), images)


def jitter(vectors: Tensor, *, strength: float) -> Tensor:
    """Add Gaussian noise of standard deviation `strength` (features have one overall)."""
    return torch.add(vectors, torch.randn_like(vectors), alpha=strength)


def drop_features(vectors: Tensor, *, share: float) -> Tensor:
    """Set each feature to its mean, zero, with this probability."""
    return torch.where(torch.rand_like(vectors) < share, 0.0, vectors)
