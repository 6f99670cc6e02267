"""Decoded images on disk, so that they are decoded once and not in every epoch."""

import hashlib
import os
import shutil
import weakref
import zlib
from collections.abc import Sequence
from io import FileIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ulc.errors import InputError
from ulc.storage.memory import parse_bytes
from ulc.typing import Integers

FOLDER = "ULC_IMAGE_CACHE"
LIMIT = "ULC_IMAGE_CACHE_LIMIT"
DEFAULT = 20 * 2**30  # bytes; at most half of the free disk
PIXELS, CHECKS, SURVEY = "pixels.bin", "checks.bin", "survey.npz"
FILLED = np.uint64(1 << 32)  # above a checksum, so that no checksum of a stored image is 0


def cache_root() -> Path:
    """Return the folder of the cache: the environment variable, else ~/.cache/ulc/images."""
    named = os.environ.get(FOLDER, "").strip()
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or "~/.cache"
    return Path(base).expanduser() / "ulc" / "images"


def cache_limit(root: Path) -> int:
    """Return the bound of the cache in bytes: the environment variable, else `DEFAULT`."""
    text = os.environ.get(LIMIT, "").strip()
    if text:
        return parse_bytes(text, LIMIT)
    existing = next(each for each in (root, *root.absolute().parents) if each.exists())
    return min(DEFAULT, shutil.disk_usage(existing).free // 2 + folder_bytes(root))


class ImageCache:
    """Images of one data set at one size, in a file with a place for each of the first rows.

    Which rows have a place is fixed: a pass meets every row once, so replacing rows by recent ones
    would only lower the share that is found. A checksum of each image is verified at every read,
    so a damaged file only means that images are decoded again.

    folder: of this data set
    image_bytes: size of one image; rows: number of images
    """

    def __init__(self, folder: Path, image_bytes: int, rows: int, limit: int) -> None:
        self.image_bytes = image_bytes
        self.places = min(rows, limit // image_bytes)
        make_room(folder, self.places * image_bytes, limit)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.pixels, self.checks_file = map(open_or_create, (folder / PIXELS, folder / CHECKS))
            folder.touch()  # the time of its last use
        except OSError as error:
            raise InputError(
                f"{folder}: the cache of images cannot be written ({error.strerror}); name another "
                f"folder with {FOLDER}, or set {LIMIT}=0"
            ) from None
        weakref.finalize(self, close_files, self.pixels, self.checks_file)
        content = self.checks_file.read(8 * self.places)
        stored = np.frombuffer(content[: len(content) // 8 * 8], np.uint64)
        self.checks = np.zeros(self.places, np.uint64)
        self.checks[: len(stored)] = stored
        self.full = False

    def holds(self, rows: Integers) -> NDArray[np.bool_]:
        """(B,) mask of the rows whose images are stored."""
        found = rows < self.places
        found[found] = self.checks[rows[found]] > 0
        return found

    def read(self, rows: Integers, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.bool_]:
        """Read the images of the rows into `images`; (B,) mask of those that are sound."""
        sound = np.zeros(len(rows), bool)
        for place, (row, image) in enumerate(zip(rows.tolist(), images, strict=True)):
            content = image.data.cast("B")
            self.pixels.seek(row * self.image_bytes)
            whole = self.pixels.readinto(content) == self.image_bytes
            sound[place] = whole and checksum(content) == self.checks[row]
        return sound

    def write(self, rows: Integers, images: Sequence[NDArray[np.uint8]]) -> None:
        """Store the images of those rows that have a place; a full disk ends the storing."""
        for row, image in zip(rows.tolist(), images, strict=True):
            if row >= self.places or self.full:
                continue
            content = image.data.cast("B")
            try:
                self.pixels.seek(row * self.image_bytes)
                self.pixels.write(content)
                self.checks[row] = checksum(content)
                self.checks_file.seek(8 * row)
                self.checks_file.write(self.checks[row].tobytes())
            except OSError:
                self.full = True


def open_or_create(path: Path) -> FileIO:
    """Open a file for reading and writing without buffer; create it if it is missing."""
    path.touch()
    return FileIO(path, "r+")


def close_files(*files: FileIO) -> None:
    """Close files."""
    for file in files:
        file.close()


def checksum(content: memoryview) -> np.uint64:
    """Return a checksum of an image that is never 0."""
    return np.uint64(zlib.crc32(content)) | FILLED


def make_room(folder: Path, needed: int, limit: int) -> None:
    """Remove the data sets of the cache that were used longest ago, until `needed` bytes fit."""
    root = folder.parent
    others = [each for each in root.iterdir() if each != folder] if root.is_dir() else []
    others.sort(key=lambda each: each.stat().st_mtime, reverse=True)
    total = needed
    for each in others:
        total += folder_bytes(each)
        if total > limit:
            shutil.rmtree(each, ignore_errors=True)


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder; 0 if there is none."""
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def name_of(digests: NDArray[np.uint8], size: tuple[int, int]) -> str:
    """Return the name of a data set's folder: a digest of its files and of the images' size."""
    return hashlib.sha256(repr(size).encode() + digests.tobytes()).hexdigest()[:32]
