"""Pooled features on disk; a digest of the images is the file name."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.errors import InputError
from ulc.storage.files import write_whole

DIGEST = hashlib.sha256().digest_size


@dataclass(frozen=True)
class Cache:
    """A folder of chunk files: a digest of the content, then (n, width) float32.

    A damaged chunk counts as missing.
    """

    folder: Path
    width: int

    def path(self, images: NDArray[Any]) -> Path:
        """Return the path of the features of these images."""
        digest = hashlib.sha256(repr(images.shape).encode())
        digest.update(np.ascontiguousarray(images).data)
        return self.folder / f"{digest.hexdigest()[:32]}.pooled"

    def read(self, images: NDArray[Any]) -> NDArray[np.float32] | None:
        """Return the features of these images; None: missing or damaged."""
        try:
            content = self.path(images).read_bytes()
        except OSError:
            return None
        digest, values = content[:DIGEST], content[DIGEST:]
        whole = len(values) == 4 * len(images) * self.width
        if not whole or hashlib.sha256(values).digest() != digest:
            return None
        return np.frombuffer(values, "<f4").reshape(len(images), self.width)

    def write(self, images: NDArray[Any], features: NDArray[np.float32]) -> None:
        """Write the features of these images."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{self.folder}: cannot be made ({error.strerror}); choose another --cache"
            ) from None
        values = np.ascontiguousarray(features, "<f4").tobytes()
        write_whole(self.path(images), hashlib.sha256(values).digest() + values)
