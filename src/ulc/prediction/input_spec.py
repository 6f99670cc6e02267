"""The input that a run's model takes, and the conversion of images to it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ulc.config import DataSpec
from ulc.errors import InputError

if TYPE_CHECKING:
    from ulc.data.lazy.images import LazyImages
    from ulc.data.table_encoding import TableEncoding
    from ulc.data.text.encoding import TextEncoding

GREY = np.array([19595, 38470, 7471])  # Pillow's weights of red, green and blue, times 65536


@dataclass(frozen=True)
class ModelInput:
    """The kinds of input that a run's model takes.

    trained: spec of the training data; its column names are the default for new tables
    image: (channels, height, width) of images; 0 channels: grey or colour; None: takes no images
    vector: length of a row of X in an npz file; None: takes no vectors
    encoding: how a table's columns become vectors; None: takes no tables of features
    text: how the sentences in a table's column become vectors; None: takes no sentences
    """

    class_names: tuple[str, ...]
    trained: DataSpec
    image: tuple[int, int, int] | None = None
    vector: int | None = None
    encoding: "TableEncoding | None" = None
    text: "TextEncoding | None" = None

    @property
    def columns(self) -> frozenset[str]:
        """Return the names of the columns that the run knows as features, used or not."""
        if self.text is not None:
            return frozenset({self.text.column})
        if self.encoding is None:
            return frozenset()
        return frozenset(each.name for each in self.encoding.columns) | set(self.encoding.left_out)

    @property
    def vectors(self) -> "TableEncoding | TextEncoding | None":
        """Return how the rows of a table become vectors; None: they do not."""
        return self.encoding or self.text

    def __str__(self) -> str:
        """Return what the model takes and how to give it, for error messages."""
        if self.encoding is not None:
            return "a table; give one with the same columns"
        if self.text is not None:
            return f"sentences; give a table with them in a column '{self.text.column}'"
        if self.image is not None:
            return "images; give a folder of them, or a table with a column of their paths"
        return f"vectors of {self.vector} numbers; give them as X of an npz file"


def resize_to_model(
    images: "NDArray[np.uint8] | LazyImages", model_input: ModelInput, where: str
) -> "NDArray[np.uint8] | LazyImages":
    """Convert (N, C, H, W) images to the size and the channels that the model takes.

    Lazy images stay lazy if they have both already.
    """
    if model_input.image is None:
        raise InputError(f"{where}: images, but the run learned from {model_input}")
    channels, *size = model_input.image
    found = images.shape[1]
    if found != channels and not {found, channels} <= {0, 1, 3}:
        raise InputError(
            f"{where}: images have {found} channels; give {channels or '1 (grey) or 3 (colour)'}"
        )
    if channels == 3 and found == 1:
        images = np.repeat(np.asarray(images), 3, axis=1)
    elif channels == 1 and found == 3:
        grey = np.einsum("nchw,c->nhw", np.asarray(images, np.int64), GREY) + 0x8000
        images = (grey >> 16).astype(np.uint8)[:, None]
    if list(images.shape[2:]) == size:
        return images
    return resize_and_crop(np.asarray(images), (size[1], size[0]))


def resize_and_crop(images: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Scale images until they cover `size` (width, height) and crop the centre, as for files."""
    from PIL import Image, ImageOps

    def fitted(channel: NDArray[np.uint8]) -> NDArray[np.uint8]:
        one = ImageOps.fit(Image.fromarray(channel), size, Image.Resampling.BICUBIC)
        return np.asarray(one)

    return np.stack([np.stack([fitted(channel) for channel in image]) for image in images])
