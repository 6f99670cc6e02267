"""Small pictures as data URIs."""

import base64
import io
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from ulc.data.sources.pictures import Picture, as_rgb

EDGE = 160  # pixels; twice what a phone shows
TINY = 64  # up to here nothing may be lost, because every pixel is seen


def from_picture(picture: Picture) -> str | None:
    """Upright, small; None if it cannot be read (any more)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of odd metadata; the pixels count
            with picture.open() as stream, Image.open(stream) as image:
                image.draft(None, (2 * EDGE, 2 * EDGE))  # a large JPEG is decoded smaller
                return encoded(as_rgb(ImageOps.exif_transpose(image)))
    except Exception:  # Pillow's readers raise whatever they stumble over
        return None


def from_array(pixels: NDArray[Any]) -> str | None:
    """(C, H, W) uint8: grey, colour, or colour with transparency."""
    channels = pixels.shape[0]
    if channels not in (1, 3, 4):
        return None
    values = pixels[0] if channels == 1 else pixels.transpose(1, 2, 0)
    return encoded(as_rgb(Image.fromarray(np.ascontiguousarray(values))))


def encoded(image: Image.Image) -> str:
    """As WebP, which is smaller than JPEG and PNG."""
    image.thumbnail((EDGE, EDGE))
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=75, lossless=max(image.size) <= TINY)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()
