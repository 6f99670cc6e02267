"""Images that are read when they are needed, in place of an array of pixels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from ulc.data.lazy.reader import ImageReader, split_rows
from ulc.storage.memory import check_memory
from ulc.typing import Integers

if TYPE_CHECKING:
    from ulc.data.sources.pictures import Picture, Size


@dataclass(frozen=True, eq=False)
class LazyImages:
    """N images of one size; shape and selection of rows are those of an (N, 3, H, W) array.

    `numpy.asarray` reads all of them, if they fit into memory.

    reader: reads them, shared by all selections
    rows: (N,) positions of the images in the reader
    """

    reader: ImageReader
    rows: Integers
    dtype = np.dtype(np.uint8)
    ndim = 4

    @classmethod
    def of(cls, pictures: "Sequence[Picture]", size: "Size") -> Self:
        """Return all the pictures at a size, which is width and height."""
        return cls(ImageReader(pictures, size), np.arange(len(pictures)))

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(N, 3, H, W)."""
        width, height = self.reader.size
        return len(self.rows), 3, height, width

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: Any) -> Self:
        """Return the images at a slice, a mask or positions; nothing is read."""
        return replace(self, rows=self.rows[chosen])

    def batches(self, pieces: Sequence[Integers]) -> Iterator[NDArray[np.uint8]]:
        """Yield the (B, H, W, 3) pixels of each piece, which holds (B,) positions."""
        return self.reader.batches([self.rows[piece] for piece in pieces])

    def in_pieces(self, size: int) -> Iterator[NDArray[np.uint8]]:
        """Yield all images in order, as (n, 3, H, W) pixels of at most `size` images."""
        for pixels in self.batches(split_rows(np.arange(len(self)), size)):
            yield np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """(N, 3, H, W) pixels of all images; raise an InputError if they take too much memory."""
        check_memory(int(np.prod(self.shape)), f"{len(self)} images")
        images = np.empty(self.shape, np.uint8)
        done = 0
        for part in self.in_pieces(1024):
            images[done : done + len(part)] = part
            done += len(part)
        return images if dtype is None else images.astype(dtype)

    @property
    def digests(self) -> NDArray[np.uint8]:
        """(N, 16) digests of the pixels; of the files where the images were not surveyed."""
        survey = self.reader.surveyed
        every = self.reader.file_digests if survey is None else survey.digests
        return every[self.rows]

    def sum_channels(self) -> tuple[Integers, Integers]:
        """(3,) sums over all pixels of each channel, and over their squares."""
        survey = self.reader.surveyed or self.reader.survey(lambda done, total: None)  # noqa: ARG005
        return survey.sums[self.rows].sum(0), survey.squares[self.rows].sum(0)
