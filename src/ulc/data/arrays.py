"""Convert and check arrays that a program passes to the library."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ulc.errors import InputError

CHANNELS = (1, 3, 4)  # grey, colour, colour with transparency


def tensor_to_array(values: Any) -> Any:
    """Convert a tensor to an array; return anything else unchanged."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else values


def as_images(images: NDArray[Any]) -> NDArray[Any]:
    """Convert images of shape (N, H, W), (N, C, H, W) or (N, H, W, C) to (N, C, H, W).

    The last axis holds the channels if its length is 1, 3 or 4 and the length of axis 1 is not.
    """
    if images.ndim not in (3, 4):
        raise InputError(
            f"X has shape {images.shape}; give vectors (N, D) or images (N, H, W), (N, C, H, W) "
            "or (N, H, W, C)"
        )
    if images.ndim == 3:
        images = images[:, None]
    elif images.shape[3] in CHANNELS and images.shape[1] not in CHANNELS:
        images = images.transpose(0, 3, 1, 2)
    return np.require(images, requirements=["C", "W"])


def refuse_not_finite(vectors: NDArray[Any]) -> None:
    """Raise an InputError if (N, D) vectors hold a missing or infinite value."""
    bad = ~np.isfinite(vectors)
    if bad.any():
        row, column = (int(place) for place in np.argwhere(bad)[0])
        value = "NaN" if np.isnan(vectors[row, column]) else "inf"
        raise InputError(
            f"X holds {value} in row {row}, column {column}; "
            "fill or remove missing and infinite values"
        )
