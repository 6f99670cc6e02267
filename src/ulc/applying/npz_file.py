"""Copy an npz file with corrected labels."""

import zipfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.applying.original import NewLabels, npz_bytes
from ulc.config import DataSpec
from ulc.data.sources.npz import (
    EMBEDDING,
    TEXT,
    parse_flags,
    parse_labels,
    read_arrays,
    read_texts,
)
from ulc.errors import InputError
from ulc.labels.table import as_objects

OTHER = ("X_test", "y_test", "class_names")  # arrays that are not about the training rows


class NpzFile:
    """An npz file with X, y and any other arrays."""

    suffix = ".npz"
    note = None

    def __init__(self, spec: DataSpec) -> None:
        self.path = Path(spec.path or "")
        self.arrays = read_arrays(self.path)
        if "y" not in self.arrays:
            raise InputError(f"{self.path}: has no array 'y' any more; put it back")
        self.class_names, numbers = parse_labels(self.arrays, str(self.path))
        self.labels = as_objects(self.class_names)[numbers["y"]]

    @property
    def ids(self) -> Sequence[str] | None:
        """Return the array `ids`; None: the file has no such array."""
        return read_texts(self.arrays["ids"], f"{self.path}: ids") if "ids" in self.arrays else None

    @cached_property
    def verified(self) -> NDArray[np.bool_]:
        """Return the array `verified`; without it, no label is verified."""
        if "verified" not in self.arrays:
            return np.zeros(len(self.labels), bool)
        return parse_flags(self.arrays["verified"], str(self.path))

    def options(self) -> list[str]:
        """Return no options: an npz file has none, its arrays are found by their names."""
        return []

    def copy(self, new_labels: NewLabels, _: Any) -> bytes:
        """Return the bytes of the copy: new `y`, `verified` and, for a new class, `class_names`."""
        arrays = dict(self.arrays)
        if new_labels.changed.any():
            arrays |= self.relabelled(new_labels)
        verified = self.verified | new_labels.decided
        if "verified" in arrays or verified.any():
            arrays["verified"] = verified
        if new_labels.deleted.any():
            arrays = {name: self.without(name, each, new_labels) for name, each in arrays.items()}
        parse_labels(arrays, str(self.path))  # raises if the copy could not be read again
        with zipfile.ZipFile(self.path) as archive:
            compressed = any(each.compress_type for each in archive.infolist())
        return npz_bytes(arrays, compressed=compressed)

    def without(self, name: str, array: NDArray[Any], new_labels: NewLabels) -> NDArray[Any]:
        """Return the array without the deleted rows; an array about other things stays as it is.

        An array of the user's own, such as `weights`, is one of rows if it has as many entries.
        """
        other = name in OTHER or name.startswith(EMBEDDING)
        of_rows = not other and array.ndim > 0 and len(array) == len(self.labels)
        return array[new_labels.kept] if of_rows else array

    def relabelled(self, new_labels: NewLabels) -> dict[str, NDArray[Any]]:
        """Return the arrays that change: `y` and, for a new class, `class_names`."""
        new = [name for name in dict.fromkeys(new_labels.labels) if name not in self.class_names]
        changed: dict[str, NDArray[Any]] = {}
        if new and "class_names" in self.arrays:
            names = [*read_texts(self.arrays["class_names"], "class_names"), *new]
            changed["class_names"] = np.array(names)
        given = self.arrays["y"]
        if given.dtype.kind in TEXT:
            return changed | {"y": self.as_texts(new_labels)}
        numbers = self.numbers(new)
        labels = given.astype(np.int64)
        labels[new_labels.changed] = [
            numbers[name] for name in new_labels.labels[new_labels.changed]
        ]
        as_before = labels.astype(given.dtype)
        return changed | {"y": as_before if np.array_equal(as_before, labels) else labels}

    def as_texts(self, new_labels: NewLabels) -> NDArray[Any]:
        """Return the new `y` for text labels, in the type of the old `y`: str or bytes."""
        given = self.arrays["y"]
        texts = as_objects(read_texts(given, f"{self.path}: y"))
        texts[new_labels.changed] = new_labels.labels[new_labels.changed]
        labels = texts.astype(str)
        return np.char.encode(labels, "utf-8") if given.dtype.kind == "S" else labels

    def numbers(self, new: list[str]) -> dict[str, int]:
        """Return the number of every class by name; `new`: names of new classes."""
        numbers = {name: place for place, name in enumerate(self.class_names)}
        for name in new:
            if "class_names" in self.arrays:
                numbers[name] = len(numbers)
            elif name.isdecimal():
                numbers[name] = int(name)
            else:
                raise InputError(
                    f"{self.path}: its labels are whole numbers without class_names, so '{name}' "
                    "cannot be one; relabel to a number, or save class_names there"
                )
        return numbers
