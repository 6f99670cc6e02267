"""Blurred, dark, bright, empty and odd-sized pictures, found by the library cleanvision."""

import io
import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from ulc.data.sources.pictures import THREADS, Picture, Size, decoded, measure_size
from ulc.data.sources.source import Source
from ulc.errors import first_line
from ulc.typing import Integers

if TYPE_CHECKING:
    from pandas import DataFrame

BY_PIXELS = ("dark", "light", "blurry", "low_information")  # cleanvision's names
BY_SIZE = ("odd_aspect_ratio", "odd_size")
EDGE = 64  # pixels: cleanvision measures blur at this height or width
CHUNK = 1000  # pictures in memory at a time
LISTED = 100  # pictures of each kind that are written
CHANNELS = (1, 3)
MISSING = (
    "Blurred, dark and odd-sized pictures were not looked for; pip install 'ulc[pictures]' "
    "(cleanvision) and audit again with --fresh to list them."
)


@dataclass(frozen=True)
class Poor:
    """Pictures of one kind.

    rows: (M,) positions in the data, the worst first; scores: (M,) theirs, 0 is worst
    """

    kind: str
    rows: Integers
    scores: NDArray[np.float64]


def poor_picture_entry(source: Source) -> dict[str, Any]:
    """The entry of poor pictures in health.json; its `note` says if nothing was looked for.

    source: a data set of images
    """
    if find_spec("cleanvision") is None:
        return {"note": MISSING}
    if source.inputs.shape[1] not in CHANNELS:
        return {"note": "Blurred and dark pictures are looked for in grey and colour images only."}
    try:
        found = find_poor_pictures(source)
    except Exception as error:  # another library must not end an audit
        return {"note": f"cleanvision failed ({first_line(error)}); it found no poor pictures."}
    kinds = [
        {"kind": each.kind, "rows": len(each.rows), "listed": list_worst(each, source)}
        for each in found
    ]
    return {"found_by": f"cleanvision {version('cleanvision')}", "kinds": kinds}


def list_worst(poor: Poor, source: Source) -> list[dict[str, Any]]:
    """The worst pictures of one kind, as health.json has them."""
    return [
        {
            "id": int(row) if source.ids is None else source.ids[row],
            "label": source.class_names[source.labels[row]],
            "score": round(float(score), 4),
        }
        for row, score in zip(poor.rows[:LISTED], poor.scores[:LISTED], strict=True)
    ]


def find_poor_pictures(source: Source) -> list[Poor]:
    """The poor pictures of each kind.

    Files are read again as a whole, because the inputs are cropped. Without files the inputs are
    looked at, and no sizes.
    """
    from pandas import concat

    tables, sizes = [], []
    for start in range(0, len(source.labels), CHUNK):
        rows = slice(start, start + CHUNK)
        if source.pictures is None:
            views = [as_image(each) for each in np.asarray(source.inputs[rows])]
        else:
            views, found = read_views(source.pictures[rows])
            sizes += found
        tables.append(check_pictures(views, BY_PIXELS))
    poor = [worst_first(concat(tables), kind) for kind in BY_PIXELS]
    if not sizes:
        return poor
    table = check_pictures([Outline(size) for size in sizes], BY_SIZE)
    return poor + [worst_first(table, kind) for kind in BY_SIZE]


def as_image(pixels: NDArray[np.uint8]) -> Image.Image:
    """The image of (C, H, W) pixels."""
    values = pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)
    return Image.fromarray(np.ascontiguousarray(values))


def read_views(pictures: Sequence[Picture]) -> tuple[list[Image.Image], list[Size]]:
    """Whole pictures at a size of at most 64 pixels, and the sizes of their files."""

    def read(picture: Picture) -> tuple[Image.Image, Size]:
        with decoded(picture, EDGE) as rgb:
            size = measure_size(picture) or rgb.size
            if max(rgb.size) > EDGE:
                return ImageOps.contain(rgb, (EDGE, EDGE)), size
            return rgb.copy(), size

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns about odd metadata
        with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
            found = list(pool.map(read, pictures))
    return [view for view, _ in found], [size for _, size in found]


@dataclass(frozen=True)
class Outline:
    """An image of which only the size (width, height) is known."""

    size: Size


class PictureRows:
    """Pictures in the form of a Hugging Face data set with the column `image`."""

    features = ("image",)

    def __init__(self, pictures: Sequence[Any]) -> None:
        self.pictures = pictures

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {"image": self.pictures[row]}


def check_pictures(pictures: Sequence[Any], kinds: Sequence[str]) -> "DataFrame":
    """The table of cleanvision: a column of scores and a mask for each kind."""
    from cleanvision import Imagelab

    # It draws progress bars even if it is told not to.
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        lab = Imagelab(hf_dataset=PictureRows(pictures), image_key="image", verbose=False)
        lab.find_issues({kind: {} for kind in kinds}, n_jobs=1, verbose=False)
    return lab.issues


def worst_first(table: "DataFrame", kind: str) -> Poor:
    """The pictures of one kind, the lowest score first."""
    rows = np.flatnonzero(table[f"is_{kind}_issue"].to_numpy(bool))
    scores = table[f"{kind}_score"].to_numpy(np.float64)[rows]
    order = np.argsort(scores, kind="stable")
    return Poor(kind, rows[order], scores[order])
