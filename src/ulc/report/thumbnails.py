"""Small pictures as data URIs."""

import base64
import io
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ulc.data.sources.pictures import Picture, as_rgb, decoded

EDGE = 160  # largest height and width of a thumbnail in pixels
LARGE = 320  # the same, if the page has room
TINY = 64  # thumbnails up to this size are lossless, because the page enlarges them


def from_picture(picture: Picture, edge: int = EDGE) -> str | None:
    """A thumbnail of the picture as a data URI, rotated by its EXIF data.

    None if the picture cannot be read.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of odd metadata
            with decoded(picture, edge) as image:
                return encoded(image, edge)
    except Exception:  # Pillow's readers raise errors of many types
        return None


def from_array(pixels: NDArray[Any], edge: int = EDGE) -> str | None:
    """A thumbnail of (C, H, W) uint8 pixels as a data URI; None unless C is 1, 3 or 4."""
    channels = pixels.shape[0]
    if channels not in (1, 3, 4):
        return None
    values = pixels[0] if channels == 1 else pixels.transpose(1, 2, 0)
    return encoded(as_rgb(Image.fromarray(np.ascontiguousarray(values))), edge)


def encoded(image: Image.Image, edge: int) -> str:
    """A thumbnail of the image as a data URI in WebP; the image itself is reduced in size."""
    image.thumbnail((edge, edge))
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=75, lossless=max(image.size) <= TINY)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()
