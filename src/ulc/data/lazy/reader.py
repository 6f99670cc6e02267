"""Read batches of images: from the cache, or decoded by worker processes ahead of their use."""

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ulc.data.lazy.cache import SURVEY, ImageCache, cache_limit, cache_root, name_of
from ulc.data.lazy.pool import Decoded, DecodingPool, count_workers
from ulc.data.lazy.survey import DIGEST, Survey
from ulc.errors import InputError
from ulc.typing import CountCallback, Integers

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ulc.data.sources.pictures import Picture, Size

JOB = 32  # images that a worker decodes at a time


@dataclass(frozen=True)
class Job:
    """Images of a batch whose reading has begun.

    rows: (B,) positions of the images; cached: (B,) mask of those that the cache holds
    decoding: the others, while workers decode them; None: there are no others
    """

    rows: Integers
    cached: NDArray[np.bool_]
    decoding: "Future[Decoded] | None"


class ImageReader:
    """Reads images of a data set at one size.

    pictures: all images; size: width and height to which they are scaled and cropped
    surveyed: what `survey` has found; None: it was not called
    """

    def __init__(self, pictures: "Sequence[Picture]", size: "Size") -> None:
        self.pictures = pictures
        self.size = size
        self.pool = DecodingPool(count_workers())
        self.surveyed: Survey | None = None

    def batches(self, pieces: Sequence[Integers]) -> Iterator[NDArray[np.uint8]]:
        """Yield the (B, H, W, 3) pixels of each piece, which holds (B,) positions of images.

        Workers decode the next images in the meantime, at most twice `JOB` for each worker. Raise
        an InputError if an image cannot be read.
        """
        for images, broken in self.batches_with_broken(pieces):
            for row, reason in broken.items():
                raise InputError(
                    f"{self.pictures[row].name}: not a readable image ({reason}); mend or remove "
                    "it, or leave out such images with --skip-broken"
                )
            yield images

    def batches_with_broken(
        self, pieces: Sequence[Integers]
    ) -> Iterator[tuple[NDArray[np.uint8], dict[int, str]]]:
        """Yield batches as `batches`, with the reasons of broken images by their positions."""
        parts = (part for piece in pieces for part in split_rows(piece, JOB))
        begun: deque[Job] = deque()
        try:
            for piece in pieces:
                images = np.empty((len(piece), self.size[1], self.size[0], 3), np.uint8)
                broken: dict[int, str] = {}
                for start in range(0, len(piece), JOB):
                    while len(begun) < 2 * self.pool.workers + 1:
                        part = next(parts, None)
                        if part is None:
                            break
                        begun.append(self.begin(part))
                    broken |= self.finish(begun.popleft(), images[start : start + JOB])
                yield images, broken
        finally:
            for job in begun:
                if job.decoding is not None:
                    job.decoding.cancel()

    def begin(self, rows: Integers) -> Job:
        """Begin to read the images at (B,) positions."""
        cached = np.zeros(len(rows), bool) if self.cache is None else self.cache.holds(rows)
        missing = rows[~cached]
        return Job(rows, cached, self.decode(missing) if len(missing) else None)

    def decode(self, rows: Integers) -> "Future[Decoded]":
        """Let a worker decode the images at (B,) positions."""
        return self.pool.submit([self.pictures[row] for row in rows.tolist()], self.size)

    def finish(self, job: Job, images: NDArray[np.uint8]) -> dict[int, str]:
        """Wait for the images of a job and store them in (B, H, W, 3) `images`.

        Return the reasons of broken images, by their positions in the data set.
        """
        broken: dict[int, str] = {}
        places = np.flatnonzero(~job.cached)
        if job.decoding is not None:
            broken |= self.take(job.decoding, job.rows[places], images, places)
        found = np.flatnonzero(job.cached)
        if self.cache is not None and len(found):
            sound = self.cache.read(job.rows[found], [images[place] for place in found])
            damaged = found[~sound]
            if len(damaged):
                again = self.decode(job.rows[damaged])
                broken |= self.take(again, job.rows[damaged], images, damaged)
        return broken

    def take(
        self,
        decoding: "Future[Decoded]",
        rows: Integers,
        images: NDArray[np.uint8],
        places: Integers,
    ) -> dict[int, str]:
        """Put decoded images at `places` of `images` and into the cache; return broken ones."""
        pixels, failed = decoding.result()
        images[places] = pixels
        if self.cache is not None:
            sound = [place for place in range(len(rows)) if place not in failed]
            self.cache.write(rows[sound], [pixels[place] for place in sound])
        return {int(rows[place]): reason for place, reason in failed.items()}

    @cached_property
    def cache(self) -> ImageCache | None:
        """The cache of these images; None: the bound of the cache is 0."""
        if self.cache_folder is None:
            return None
        image_bytes = 3 * self.size[0] * self.size[1]
        limit = cache_limit(self.cache_folder.parent)
        return ImageCache(self.cache_folder, image_bytes, len(self.pictures), limit)

    @cached_property
    def cache_folder(self) -> Path | None:
        """The folder of these images in the cache; None: the bound of the cache is 0."""
        root = cache_root()
        if not cache_limit(root):
            return None
        return root / name_of(self.file_digests, self.size)

    @cached_property
    def file_digests(self) -> NDArray[np.uint8]:
        """(N, 16) digests of names, sizes and times of the files; no pixels are read."""
        states = (each.state.encode() for each in self.pictures)
        found = (hashlib.blake2b(each, digest_size=DIGEST).digest() for each in states)
        return np.frombuffer(b"".join(found), np.uint8).reshape(len(self.pictures), DIGEST)

    def survey(self, on_progress: CountCallback) -> Survey:
        """Decode every image once, or read what was found when that was done before.

        Images that were broken then are tried again.
        """
        count = len(self.pictures)
        path = None if self.cache_folder is None else self.cache_folder / SURVEY
        known = None if path is None else Survey.read(path, count)
        rows = np.arange(count) if known is None else np.array(sorted(known.broken), np.int64)
        found = Survey.empty(count) if known is None else known
        found.broken.clear()
        pieces = split_rows(rows, JOB)
        for piece, (images, broken) in zip(pieces, self.batches_with_broken(pieces), strict=True):
            found.add(piece, images)
            found.broken.update(broken)
            on_progress(int(piece[-1]) + 1, count)
        if path is not None and len(rows):
            found.write(path)
        self.surveyed = found
        return found


def split_rows(rows: Integers, size: int) -> list[Integers]:
    """Return pieces of at most `size` rows."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]
