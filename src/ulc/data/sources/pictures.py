"""Read images of any size and mode into one array."""

import errno
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from ulc.config import DataSpec
from ulc.data.sources.annotations import Annotations
from ulc.data.sources.source import Source
from ulc.errors import InputError, first_line
from ulc.storage.memory import check_memory, memory_limit
from ulc.typing import CountCallback

if TYPE_CHECKING:
    from ulc.data.lazy.images import LazyImages

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff")
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF")  # of others, EPS starts a program
SIZE = 64  # default height and width, in pixels
ORIENTATION = 0x0112  # EXIF tag; values 5 to 8 mean that width and height are swapped
THREADS = 8
PIXEL_BYTES = 32  # memory of one pixel while an image is decoded: up to four copies of 8 bytes
LARGE = Lock()  # large images are decoded one at a time
Size = tuple[int, int]  # width, height


@dataclass(frozen=True, slots=True)
class Picture:
    """An image that is not read yet.

    open: opens it; a function that can be pickled, because worker processes call it
    version: changes with the content of the image; None: the file at `path` tells
    path: its file; None: it lies inside another file
    """

    name: str
    open: Callable[[], BinaryIO]
    version: str | None = None
    path: Path | None = None

    @classmethod
    def from_path(cls, path: Path) -> Self:
        """Return the picture of an image file."""
        return cls(printable_path(path), partial(open_regular, path), path=path)

    @property
    def state(self) -> str:
        """Text that changes with the content of the image; its pixels are not read."""
        if self.path is None:
            return f"{self.name} {self.version}"
        try:
            found = self.path.stat()
        except OSError:
            return f"{self.name} missing"
        return f"{self.name} {found.st_size} {found.st_mtime_ns}"


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading; raise an OSError for a pipe, which could be waited for forever."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "no regular file")
    return path.open("rb")


def printable_path(path: Path) -> str:
    """Return the absolute path as text; bytes that are not valid text are escaped."""
    return str(path.absolute()).encode(errors="backslashreplace").decode()


@dataclass(frozen=True)
class Pictures:
    """Images of the training set and of the optional test set."""

    train: Sequence[Picture]
    test: Sequence[Picture] = ()

    def to_source(
        self, name: str, notes: Annotations, spec: DataSpec, on_progress: CountCallback
    ) -> Source:
        """Read all images; `spec.skip_broken` leaves out broken ones, else they raise an error."""
        every, split = [*self.train, *self.test], len(self.train)
        images, broken = read_pictures(every, spec, on_progress)
        sound = np.ones(len(every), bool)
        sound[list(broken)] = False
        notes = notes.select(sound[:split], sound[split:])
        has_test = sound[split:].any()
        return Source(
            name=name,
            inputs=images[:split][sound[:split]],
            test_inputs=images[split:][sound[split:]] if has_test else None,
            class_names=notes.class_names,
            labels=notes.labels,
            true=notes.true,
            ids=notes.ids,
            verified=notes.verified,
            test_labels=notes.test_labels if has_test else None,
            pictures=tuple(each for each, good in zip(every[:split], sound, strict=False) if good),
            skipped=tuple(every[i].name for i in broken),
        )


def read_pictures(
    pictures: Sequence[Picture],
    spec: DataSpec,
    on_progress: CountCallback,
    *,
    size: Size | None = None,
    survey: bool = True,
) -> "tuple[NDArray[np.uint8] | LazyImages, dict[int, str]]":
    """Read (N, 3, H, W) images; return them, and the reason of each broken image by position.

    Images that would take too much memory are only looked at, and read again when needed. A broken
    image is black; raise if there is one and not `spec.skip_broken`.

    size: width and height; None: `spec.size`, else `common_size`, else 64 pixels
    survey: whether images that are not kept are looked at, too, to find broken ones and copies
    """
    from ulc.data.lazy.images import LazyImages

    images: NDArray[np.uint8] | LazyImages
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns about odd metadata
        wanted = size or ((spec.size, spec.size) if spec.size else None)
        width, height = wanted or common_size(pictures) or (SIZE, SIZE)
        if reads_lazily(spec, (width, height), len(pictures)):
            images = LazyImages.of(pictures, (width, height))
            if not survey and not spec.skip_broken:
                return images, {}
            broken = images.reader.survey(on_progress).broken
        else:
            needed = 3 * width * height * len(pictures)
            check_memory(needed, f"{len(pictures)} images of {width} by {height} pixels")
            images = np.zeros((len(pictures), 3, height, width), np.uint8)
            broken = fill_images(images, pictures, on_progress)
    check_broken(broken, pictures, spec)
    return images, broken


def reads_lazily(spec: DataSpec, size: Size, count: int) -> bool:
    """Whether images are read when they are needed: as `spec.lazy` says, else by their memory."""
    if spec.lazy is not None:
        return spec.lazy
    return 3 * size[0] * size[1] * count > memory_limit()


def check_broken(broken: dict[int, str], pictures: Sequence[Picture], spec: DataSpec) -> None:
    """Raise if an image is broken and not `spec.skip_broken`, or if all are broken."""
    if broken and not spec.skip_broken:
        first, reason = next(iter(broken.items()))
        raise InputError(
            f"{pictures[first].name}: not a readable image ({reason}); {len(broken)} of "
            f"{len(pictures)} are not: mend or remove them, or leave them out with --skip-broken"
        )
    if len(broken) == len(pictures):
        raise InputError(
            f"{pictures[0].name}: not a readable image ({broken[0]}), "
            f"nor is any other of the {len(pictures)}; give at least one readable image"
        )


def common_size(pictures: Sequence[Picture]) -> Size | None:
    """Return the size that all images have; None: sizes differ, or a side exceeds `SIZE`."""
    sizes: set[Size] = set()
    for picture in pictures:
        size = measure_size(picture)
        if size is not None:
            sizes.add(size)
        if len(sizes) > 1 or (size is not None and max(size) > SIZE):
            return None
    return sizes.pop() if sizes else None


def measure_size(picture: Picture) -> Size | None:
    """Return the size of an image after rotation by EXIF; None: the image is broken.

    The pixels are not read.
    """
    try:
        with picture.open() as stream, Image.open(stream, formats=FORMATS) as image:
            sideways = image.getexif().get(ORIENTATION, 1) >= 5
            return image.size[::-1] if sideways else image.size
    except Exception:  # reading the pixels will fail, too, and report the reason
        return None


def fill_images(
    images: NDArray[np.uint8], pictures: Sequence[Picture], on_progress: CountCallback
) -> dict[int, str]:
    """Read picture i into `images[i]`; return the reason of each failure by position."""
    size = (images.shape[3], images.shape[2])

    def read(place: int) -> str | None:
        try:
            images[place] = read_pixels(pictures[place], size)
        except Exception as error:  # Pillow can raise any error
            return describe_failure(error)
        return None

    broken = {}
    pool = ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1))
    try:
        for place, wrong in enumerate(pool.map(read, range(len(pictures)))):
            if wrong is not None:
                broken[place] = wrong
            on_progress(place + 1, len(pictures))
    finally:
        pool.shutdown(cancel_futures=True)
    return broken


def decode_pictures(
    pictures: Sequence[Picture], size: Size
) -> tuple[NDArray[np.uint8], dict[int, str]]:
    """Read (B, H, W, 3) pixels; return them, and the reason of each broken image by position."""
    pixels = np.zeros((len(pictures), size[1], size[0], 3), np.uint8)
    broken = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for place, picture in enumerate(pictures):
            try:
                pixels[place] = read_pixels(picture, size).transpose(1, 2, 0)
            except Exception as error:  # Pillow can raise any error
                broken[place] = describe_failure(error)
    return pixels, broken


def describe_failure(error: Exception) -> str:
    """Return the reason of a failure without the path, which the error message names already."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, UnidentifiedImageError):
        return "not in a format that Pillow knows"
    return getattr(error, "strerror", None) or first_line(error)


def read_pixels(picture: Picture, size: Size) -> NDArray[np.uint8]:
    """Read an image as (3, H, W) pixels: rotate it by EXIF, convert it to RGB, fit it to `size`.

    It is scaled until it covers `size`, and its centre is cropped.
    """
    with decoded(picture, max(size)) as rgb:
        return fit_to_size(rgb, size)


@contextmanager
def decoded(picture: Picture, edge: int) -> Iterator[Image.Image]:
    """Decode an image to RGB, rotated by EXIF; raise before it if it has too many pixels.

    edge: height and width that are needed; a large JPEG is decoded at about twice this size
    """
    with picture.open() as stream, Image.open(stream, formats=FORMATS) as image:
        image.draft(None, (2 * edge, 2 * edge))
        width, height = image.size
        most = Image.MAX_IMAGE_PIXELS or width * height
        if width * height > most:
            raise ValueError(f"{width} by {height} pixels, more than {most:,}")
        needed = PIXEL_BYTES * width * height
        check_memory(needed, f"{width} by {height} pixels")
        if needed < memory_limit() // THREADS:
            yield as_rgb(ImageOps.exif_transpose(image))
            return
        with LARGE:
            yield as_rgb(ImageOps.exif_transpose(image))


def fit_to_size(rgb: Image.Image, size: Size) -> NDArray[np.uint8]:
    """Return the (3, H, W) pixels of an image, scaled and cropped to `size`."""
    if rgb.size != size:
        rgb = ImageOps.fit(rgb, size, Image.Resampling.BICUBIC)
    return np.asarray(rgb).transpose(2, 0, 1)


def as_rgb(image: Image.Image) -> Image.Image:
    """Convert an image of any mode to RGB; 16 bits are scaled to 8, transparency becomes white."""
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers of unknown range")
    if image.mode.startswith("I"):
        values = np.clip(np.asarray(image).astype(np.int64), 0, 65535)
        image = Image.fromarray(((values * 255 + 32767) // 65535).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")
