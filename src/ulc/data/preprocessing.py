"""Normalisation of inputs, the same in training and prediction."""

from functools import cache
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor

from ulc.config import Spec
from ulc.data.constants import constant
from ulc.data.lazy.images import LazyImages
from ulc.data.lazy.survey import sum_channels
from ulc.data.sources.source import Source, check_inputs
from ulc.errors import InputError


class Preprocessing(Spec):
    """Mean and standard deviation by which inputs are normalised.

    Images: mean and std of each channel. Vectors: mean of each feature, and one std for all.

    shape: shape of one input
    crop: height and width of the part of an image that networks see: a random part in training,
        else the centre; None: the whole image
    """

    kind: Literal["image", "vector"]
    shape: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    crop: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        image = self.kind == "image"
        stds = self.shape[0] if image and self.shape else 1
        if len(self.shape) != (3 if image else 1) or min(self.shape) < 1:
            raise ValueError(f"shape {self.shape} is not that of {self.kind}s")
        if len(self.mean) != self.shape[0] or len(self.std) != stds or min(self.std) <= 0:
            raise ValueError("mean and std do not fit the shape")
        if self.crop is not None and (not image or self.crop > min(self.shape[1:])):
            raise ValueError(f"crop {self.crop} does not fit the shape {self.shape}")
        return self

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input as networks see it."""
        return self.shape if self.crop is None else (self.shape[0], self.crop, self.crop)

    @classmethod
    def fit(cls, source: Source) -> Self:
        """Take mean and std of images from the source (from the literature), else measure them."""
        shape = source.inputs.shape[1:]
        if source.inputs.ndim == 4:
            if source.mean is not None and source.std is not None:
                known = {"mean": source.mean, "std": source.std, "crop": source.crop}
                return cls(kind="image", shape=shape, **known)
            mean, std = measure_channels(source)
            return cls(
                kind="image", shape=shape, mean=tuple(mean), std=tuple(replace_zero_std(std))
            )
        if isinstance(source.inputs, LazyImages):
            raise TypeError("lazy inputs are images")
        mean = source.inputs.mean(0, dtype=np.float64)
        # One scale for all columns: scaling each column would enlarge the last principal
        # components of an embedding, which are mostly noise.
        squares = sum(
            ((source.inputs[part] - mean) ** 2).sum() for part in row_slices(source.inputs)
        )
        std = replace_zero_std(np.sqrt([squares / source.inputs.size]))
        return cls(kind="vector", shape=shape, mean=tuple(mean), std=tuple(std))

    def stored(self, inputs: NDArray[Any]) -> Tensor:
        """Convert inputs for keeping in memory: channels-last uint8 images, normalised vectors."""
        check_inputs(inputs, "inputs")
        if inputs.shape[1:] != self.shape:
            raise InputError(
                f"inputs have shape {inputs.shape[1:]}, but the model learned {self.shape}; "
                "change them to that shape"
            )
        if self.kind == "image":
            images = torch.from_numpy(np.ascontiguousarray(inputs))
            return images.contiguous(memory_format=torch.channels_last)
        ready = np.empty(inputs.shape, np.float32)
        for part in row_slices(inputs):
            ready[part] = (inputs[part] - np.asarray(self.mean)) / np.asarray(self.std)
        return torch.from_numpy(ready)

    def ready(self, stored: Tensor) -> Tensor:
        """Convert stored inputs to normalised floats; images stay channels-last in memory."""
        if self.kind == "vector":
            return stored
        if self.crop is not None:
            stored = crop_centre(stored, self.crop)
        # Pixels and channels are one axis here: torch is slow along the short channel axis.
        _, channels, _, width = stored.shape
        mean, std = (
            constant(times_255(each), stored.device, repeats=width)
            for each in (self.mean, self.std)
        )
        rows = (
            stored.permute(0, 2, 3, 1).flatten(2).to(torch.float32, copy=True).sub_(mean).div_(std)
        )
        return rows.unflatten(2, (width, channels)).permute(0, 3, 1, 2)


def crop_centre(images: Tensor, size: int) -> Tensor:
    """Cut the centre of (B, C, H, W) images; images of that size are returned as they are."""
    top, left = ((length - size) // 2 for length in images.shape[2:])
    return images[:, :, top : top + size, left : left + size]


def measure_channels(source: Source) -> tuple[NDArray[Any], NDArray[Any]]:
    """(C,) mean and standard deviation of each channel, for pixels in [0, 1].

    Those of image files are exact sums, the same whether images are in memory or not.
    """
    inputs = source.inputs
    if isinstance(inputs, LazyImages):
        total, squares = inputs.sum_channels()
    elif source.pictures is not None:
        parts = [
            sum_channels(inputs[part].transpose(0, 2, 3, 1)) for part in row_slices(inputs, 256)
        ]
        total, squares = (sum(each.sum(0) for each in sums) for sums in zip(*parts, strict=True))
    else:
        pixels = inputs.astype(np.float32) / 255
        return pixels.mean((0, 2, 3)), pixels.std((0, 2, 3))
    count = len(inputs) * inputs.shape[2] * inputs.shape[3]
    mean = total / count
    return mean / 255, np.sqrt(np.maximum(squares / count - mean**2, 0)) / 255


@cache
def times_255(values: tuple[float, ...]) -> tuple[float, ...]:
    """The values of the channels, as float32, for bytes instead of numbers from 0 to 1."""
    return tuple((np.asarray(values, np.float32) * 255).tolist())


def row_slices(inputs: NDArray[Any], rows: int = 10_000) -> list[slice]:
    """Return slices of `rows` rows each, so that a float64 copy of one slice is small."""
    return [slice(start, start + rows) for start in range(0, len(inputs), rows)]


def replace_zero_std(std: NDArray[Any]) -> NDArray[Any]:
    """Replace standard deviations near 0 by 1: constant inputs are not scaled."""
    return np.where(std > 1e-6, std, 1.0)
