"""Files of the caches of features and of images: a damaged one counts as missing.

What a reader returns must be that of the good file. Where a file counts as missing, or its content
is made anew, its reader raises an InputError, so that the fuzzer counts it as refused.
"""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
from PIL import Image

from ulc.data.lazy.cache import CHECKS, FOLDER, LIMIT, PIXELS, SURVEY
from ulc.data.lazy.images import LazyImages
from ulc.data.lazy.pool import VARIABLE
from ulc.data.lazy.survey import Survey
from ulc.data.sources import ignore_count
from ulc.data.sources.pictures import Picture
from ulc.embedding.cache import Cache
from ulc.errors import InputError

IMAGES = np.arange(96, dtype=np.uint8).reshape(2, 3, 4, 4)
FEATURES = np.arange(6, dtype=np.float32).reshape(2, 3)
NAMES = ("features.pooled", SURVEY, PIXELS, CHECKS)
COUNT, SIZE = 5, (8, 8)  # of the images; one of those of the survey is broken


def good_files(folder: Path) -> dict[str, Path]:
    """Make a good file for each name of NAMES, below `folder`; return their paths."""
    pooled = Cache(folder / "pooled", FEATURES.shape[1])
    pooled.write(IMAGES, FEATURES)
    images = folder / "cached-images"
    images.mkdir()
    for number in range(COUNT):
        Image.new("RGB", SIZE, (40 * number, 0, 9)).save(images / f"{number}.png")
    (images / "broken.png").write_bytes(b"no image")
    with cache_below(images):
        whole, broken = every_image(images), every_image(images, broken=True)
        np.asarray(whole)
        broken.reader.survey(ignore_count)
        filled, surveyed = whole.reader.cache_folder, broken.reader.cache_folder
    assert filled is not None
    assert surveyed is not None
    paths = (pooled.path(IMAGES), surveyed / SURVEY, filled / PIXELS, filled / CHECKS)
    return dict(zip(NAMES, paths, strict=True))


def cache_below(images: Path) -> "patch.dict[str, str]":
    """Context manager: the cache of images is below this folder, and no process decodes them."""
    return patch.dict(os.environ, {FOLDER: str(images / "cache"), LIMIT: "1MB", VARIABLE: "0"})


def every_image(images: Path, broken: bool = False) -> LazyImages:
    """The images of a folder, with the broken one or without it."""
    names = [f"{number}.png" for number in range(COUNT)] + ["broken.png"] * broken
    return LazyImages.of([Picture.from_path(images / name) for name in names], SIZE)


def read_pooled(path: Path) -> None:
    """Read features as `ulc embed` does."""
    found = Cache(path.parent, FEATURES.shape[1]).read(IMAGES)
    if found is None:
        raise InputError(f"{path}: is damaged; it counts as missing")
    check_equal(found, FEATURES)


def read_survey(path: Path) -> None:
    """Read what is known of images, and use all of it."""
    images = path.parents[2]
    known = Survey.read(path, COUNT + 1)
    with cache_below(images):
        found = every_image(images, broken=True)
        survey = found.reader.survey(ignore_count)
        sums, squares = found.sum_channels()
    check_equal(list(survey.broken), [COUNT]) if known is None else None
    check_equal(found.digests.shape, (COUNT + 1, 16))
    check_equal((sums.shape, squares.shape), ((3,), (3,)))
    if known is None:
        raise InputError(f"{path}: is damaged; it counts as missing")


@cache
def good_pixels(images: Path) -> "np.ndarray":
    """(N, 3, H, W) pixels of the images, which are decoded."""
    with cache_below(images), patch.dict(os.environ, {LIMIT: "0"}):
        return np.asarray(every_image(images))


def read_pixels(path: Path) -> None:
    """Read images that the cache holds; damaged ones are decoded and stored again."""
    images, before = path.parents[2], path.read_bytes()
    with cache_below(images):
        check_equal(np.asarray(every_image(images)), good_pixels(images))
    if path.read_bytes() != before:
        raise InputError(f"{path}: was damaged; its images were decoded again")


def check_equal(found: object, good: object) -> None:
    """Raise an error that the fuzzer counts as a failure if a reader returned something else."""
    if not np.array_equal(found, good):  # type: ignore[arg-type]
        raise RuntimeError("the content of a damaged cache was used")


READS: dict[str, Callable[[Path], object]] = {
    "features.pooled": read_pooled,
    SURVEY: read_survey,
    PIXELS: read_pixels,
    CHECKS: read_pixels,
}
