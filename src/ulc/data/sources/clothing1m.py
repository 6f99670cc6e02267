"""Read Clothing1M in its own layout: five lists, and images below the folder `images`.

The million training images have noisy labels; validation and test images have right ones.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np

from ulc.config import DataSpec
from ulc.data.sources.pictures import Picture, read_pictures
from ulc.data.sources.source import Source
from ulc.errors import InputError
from ulc.typing import CountCallback, Integers

NOISY_LABELS, CLEAN_LABELS = "noisy_label_kv.txt", "clean_label_kv.txt"
KEYS = ("noisy_train_key_list.txt", "clean_val_key_list.txt", "clean_test_key_list.txt")
LISTS = (NOISY_LABELS, CLEAN_LABELS, *KEYS)
PREFIX = "images/"  # of every key; some copies of the data set lack this folder
CLASSES = (
    "T-Shirt", "Shirt", "Knitwear", "Chiffon", "Sweater", "Hoodie", "Windbreaker",
    "Jacket", "Downcoat", "Suit", "Shawl", "Dress", "Vest", "Underwear",
)  # fmt: skip
# As in the code of DivideMix (Li et al. 2020): images of 256 pixels, of which 224 are seen.
SIZE, SEEN = 256, 224
MEAN, STD = (0.6959, 0.6537, 0.6371), (0.3113, 0.3192, 0.3214)


def load(path: Path, spec: DataSpec, on_progress: CountCallback) -> Source:
    """Read the lists, and the images if they fit into memory."""
    missing = [name for name in LISTS if not (path / name).is_file()]
    if missing:
        raise InputError(
            f"{path / missing[0]}: no such file; give the folder of Clothing1M with "
            f"{', '.join(LISTS)}, which come in its archive of annotations"
        )
    noisy, clean = read_labels(path / NOISY_LABELS), read_labels(path / CLEAN_LABELS)
    keys = [read_keys(path / name) for name in KEYS]
    labels = [
        find_labels(own, known, path / name)
        for own, known, name in zip(keys, (noisy, clean, clean), KEYS, strict=True)
    ]
    every = ListedPictures(find_root(path, keys[0][0]), [key for own in keys for key in own])
    size = spec.size or SIZE
    sized = spec.model_copy(update={"size": size})
    images, broken = read_pictures(every, sized, on_progress, survey=False)
    ends = np.cumsum([len(own) for own in keys])
    rows = [
        np.setdiff1d(np.arange(end - len(own), end), list(broken))
        for own, end in zip(keys, ends, strict=True)
    ]
    kept = [
        values[own - own_end + len(values)]
        for own, own_end, values in zip(rows, ends, labels, strict=True)
    ]
    return Source(
        name=str(path),
        inputs=images[rows[0]],
        labels=kept[0],
        class_names=CLASSES,
        valid_inputs=images[rows[1]],
        valid_labels=kept[1],
        test_inputs=images[rows[2]],
        test_labels=kept[2],
        mean=MEAN,
        std=STD,
        crop=size * SEEN // SIZE,
        ids=tuple(every[row].name for row in rows[0].tolist()),
        skipped=tuple(every[row].name for row in sorted(broken)),
    )


@dataclass(frozen=True)
class ListedPictures(Sequence[Picture]):
    """Images by their keys below `root`; a Picture is made when it is asked for, to save memory."""

    root: Path
    keys: list[str]

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, place: int) -> Picture: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Picture]: ...
    def __getitem__(self, place: int | slice) -> Picture | Sequence[Picture]:
        """Return the picture at a position."""
        if isinstance(place, slice):
            return ListedPictures(self.root, self.keys[place])
        return Picture.from_path(self.root / self.keys[place])


def find_root(path: Path, key: str) -> Path:
    """Return the folder from which keys start; raise an InputError if the first image is missing.

    Where `images` was not unpacked as a folder, a link of that name is needed.
    """
    if not (path / key).is_file():
        raise InputError(
            f"{path / key}: no such image, though {KEYS[0]} names it; unpack the images so that "
            f"{path / PREFIX.rstrip('/')} holds their folders 0 to 9, or make it a link to them"
        )
    return path


def read_labels(path: Path) -> dict[str, int]:
    """Read a list of keys and class numbers, separated by a space."""
    found = {}
    for number, line in numbered_lines(path):
        key, _, label = line.rpartition(" ")
        if not (key and label.isdigit() and int(label) < len(CLASSES)):
            raise InputError(
                f"{path}: line {number} is {line!r}, not an image and a class from 0 to "
                f"{len(CLASSES) - 1}; correct it"
            )
        found[key] = int(label)
    return found


def read_keys(path: Path) -> list[str]:
    """Read a list of keys, one in each line."""
    keys = [line for _, line in numbered_lines(path)]
    if not keys:
        raise InputError(f"{path}: names no images; unpack it again")
    return keys


def numbered_lines(path: Path) -> Iterable[tuple[int, str]]:
    """Yield each line that is not empty, with its number."""
    try:
        with path.open(encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield number, line.strip()
    except (OSError, UnicodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); unpack it again") from None


def find_labels(keys: list[str], labels: dict[str, int], path: Path) -> Integers:
    """Return the (N,) labels of the keys; raise an InputError if one has none."""
    try:
        found: Any = [labels[key] for key in keys]
    except KeyError as error:
        where = NOISY_LABELS if path.name == KEYS[0] else CLEAN_LABELS
        raise InputError(
            f"{path}: {error.args[0]} has no label in {where}; take both lists from one archive"
        ) from None
    return np.array(found, np.int64)
