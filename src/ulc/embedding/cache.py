"""Keep pooled features on disk, in files named by a digest of the images."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.errors import InputError
from ulc.storage.files import write_whole

DIGEST = hashlib.sha256().digest_size  # in bytes


@dataclass(frozen=True)
class Cache:
    """A folder of files with the features of one chunk of images each.

    A file is named by a digest of the images. It holds a digest of the features, then the
    (n, width) float32 features. A damaged file counts as missing.
    """

    folder: Path
    width: int

    def path(self, images: NDArray[Any]) -> Path:
        """Return the path of the file for these images, whether it exists or not."""
        digest = hashlib.sha256(repr(images.shape).encode())
        digest.update(np.ascontiguousarray(images).data)
        return self.folder / f"{digest.hexdigest()[:32]}.pooled"

    def read(self, images: NDArray[Any]) -> NDArray[np.float32] | None:
        """Return the (n, width) features of these images; None: the file is missing or damaged."""
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
        """Write the file with the (n, width) features of these images."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{self.folder}: cannot be made ({error.strerror}); choose another --cache"
            ) from None
        values = np.ascontiguousarray(features, "<f4").tobytes()
        write_whole(self.path(images), hashlib.sha256(values).digest() + values)
