"""Small pictures as data URIs."""

import base64
import io
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from ulc.data.sources.pictures import Picture, as_rgb

EDGE = 160  # pixels
TINY = 64  # pictures up to this size are stored without loss: the page enlarges them


def from_picture(picture: Picture) -> str | None:
    """The picture as a small, upright thumbnail; None if it cannot be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of odd metadata
            with picture.open() as stream, Image.open(stream) as image:
                image.draft(None, (2 * EDGE, 2 * EDGE))  # a large JPEG is decoded smaller
                return encoded(as_rgb(ImageOps.exif_transpose(image)))
    except Exception:  # Pillow's readers raise errors of many types
        return None


def from_array(pixels: NDArray[Any]) -> str | None:
    """A thumbnail of (C, H, W) uint8 pixels with 1, 3 or 4 channels; None for other channels."""
    channels = pixels.shape[0]
    if channels not in (1, 3, 4):
        return None
    values = pixels[0] if channels == 1 else pixels.transpose(1, 2, 0)
    return encoded(as_rgb(Image.fromarray(np.ascontiguousarray(values))))


def encoded(image: Image.Image) -> str:
    """A data URI of the image as WebP."""
    image.thumbnail((EDGE, EDGE))
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=75, lossless=max(image.size) <= TINY)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()
