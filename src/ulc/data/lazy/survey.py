"""What is known of images after each was decoded once."""

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.errors import InputError
from ulc.storage.files import read_npz, write_whole
from ulc.typing import Integers

DIGEST = 16  # bytes


@dataclass(frozen=True)
class Survey:
    """Facts about N images.

    digests: (N, 16) digest of the pixels of each image
    sums, squares: (N, 3) sums over the pixels of each channel, and over their squares
    broken: reasons of the images that cannot be read, by position
    """

    digests: NDArray[np.uint8]
    sums: Integers
    squares: Integers
    broken: dict[int, str]

    @classmethod
    def empty(cls, rows: int) -> "Survey":
        """Return a survey of so many images, to be filled."""
        return cls(
            np.zeros((rows, DIGEST), np.uint8),
            np.zeros((rows, 3), np.int64),
            np.zeros((rows, 3), np.int64),
            {},
        )

    def add(self, rows: Integers, pixels: NDArray[np.uint8]) -> None:
        """Fill in the facts about (B, H, W, 3) images."""
        self.digests[rows] = digest_images(pixels)
        self.sums[rows], self.squares[rows] = sum_channels(pixels)

    def write(self, path: Path) -> None:
        """Write the survey to a file."""
        places = sorted(self.broken)
        arrays = {"digests": self.digests, "sums": self.sums, "squares": self.squares}
        arrays["places"] = np.array(places, np.int64)
        arrays["reasons"] = np.array([self.broken[place] for place in places], str)
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        write_whole(path, buffer.getvalue())

    @classmethod
    def read(cls, path: Path, rows: int) -> "Survey | None":
        """Read what `write` wrote; None: there is no such file, or it is damaged."""
        try:
            found = read_npz(path)
            broken = dict(zip(found["places"].tolist(), found["reasons"].tolist(), strict=True))
            survey = cls(found["digests"], found["sums"], found["squares"], broken)
        except (InputError, OSError, KeyError, ValueError, TypeError):
            return None
        return survey if survey.fits(rows) else None

    def fits(self, rows: int) -> bool:
        """Whether arrays and places are those of so many images."""
        places = all(type(place) is int and 0 <= place < rows for place in self.broken)
        return places and self.layout() == Survey.empty(rows).layout()

    def layout(self) -> list[Any]:
        """Return shapes and types of the arrays."""
        return [(each.shape, each.dtype) for each in (self.digests, self.sums, self.squares)]


def digest_images(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(B, 16) digests of (B, H, W, 3) images."""
    found = [
        hashlib.blake2b(np.ascontiguousarray(each).data, digest_size=DIGEST) for each in pixels
    ]
    joined = b"".join(each.digest() for each in found)
    return np.frombuffer(joined, np.uint8).reshape(len(pixels), DIGEST)


def sum_channels(pixels: NDArray[np.uint8]) -> tuple[NDArray[Any], NDArray[Any]]:
    """(B, C) sums over the pixels of (B, H, W, C) images, and over their squares; both exact."""
    # Double precision is faster than whole numbers, and holds these sums without rounding.
    values = pixels.reshape(len(pixels), -1, pixels.shape[3]).astype(np.float64)
    squares = np.einsum("bpc,bpc->bc", values, values)
    return values.sum(1).astype(np.int64), squares.astype(np.int64)
