"""Read npz files: X, y, and optionally y_true, X_test, y_test, class_names, ids, verified."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.data.sources.annotations import number_labels
from ulc.data.sources.source import Source
from ulc.errors import InputError
from ulc.storage.files import read_npz
from ulc.typing import Integers

REAL = "biuf"  # NumPy kinds of real numbers: bool, int, unsigned, float
TEXT = "SU"  # NumPy kinds of text: bytes, str
LABELS = ("y", "y_true", "y_test")
ARRAYS = ("X", *LABELS, "X_test", "class_names", "ids", "verified")
EMBEDDING = "embedding_"  # prefix of the arrays that `ulc embed` adds


def load(path: Path) -> Source:
    """Read a file with vectors (N, D) or uint8 images (N, H, W), (N, C, H, W) or (N, H, W, C)."""
    arrays = read_arrays(path, is_known)
    wanted = {"X", "y"} | ({"X_test", "y_test"} if {"X_test", "y_test"} & arrays.keys() else set())
    missing = wanted - arrays.keys()
    if missing:
        raise InputError(
            f"{path}: no array '{min(missing)}' in it; save {' and '.join(sorted(wanted))} there"
        )
    inputs = {k: as_inputs(arrays[k], f"{path}: {k}") for k in ("X", "X_test") if k in arrays}
    names, labels = parse_labels(arrays, str(path))
    return Source(
        name=path.stem,
        inputs=inputs["X"],
        labels=labels["y"],
        true=labels.get("y_true"),
        class_names=names,
        test_inputs=inputs.get("X_test"),
        test_labels=labels.get("y_test"),
        ids=None if "ids" not in arrays else read_texts(arrays["ids"], f"{path}: ids"),
        verified=None if "verified" not in arrays else parse_flags(arrays["verified"], str(path)),
        embedding=embedding_arrays(arrays),
    )


def embedding_arrays(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]] | None:
    """Return the arrays by which `ulc embed` describes how X was made; None: there are none."""
    found = {name: each for name, each in arrays.items() if name.startswith(EMBEDDING)}
    return found or None


def parse_labels(
    arrays: dict[str, NDArray[Any]], where: str
) -> tuple[tuple[str, ...], dict[str, Integers]]:
    """Return class names, and by array name the labels as class numbers.

    The labels in `arrays` are text or whole numbers.
    """
    given = {name: arrays[name] for name in LABELS if name in arrays}
    names = arrays.get("class_names")
    if any(each.dtype.kind in TEXT for each in given.values()):
        return parse_text_labels(given, names, where)
    labels: dict[str, Integers] = {
        name: to_whole_numbers(each, f"{where}: {name}") for name, each in given.items()
    }
    return infer_class_names(names, labels, where), labels


def parse_text_labels(
    given: dict[str, NDArray[Any]], class_names: NDArray[Any] | None, where: str
) -> tuple[tuple[str, ...], dict[str, Integers]]:
    """Return the result of `parse_labels` for labels that are text."""
    for name, each in given.items():
        if each.dtype.kind not in TEXT:
            raise InputError(
                f"{where}: {name} has type {each.dtype}, but other labels are text; "
                "give all labels as text or all as whole numbers"
            )
    known = () if class_names is None else read_texts(class_names, f"{where}: class_names")
    texts = {name: read_texts(each, f"{where}: {name}") for name, each in given.items()}
    names, labels = number_labels(texts, known)
    if known and len(names) > len(known):
        raise InputError(
            f"{where}: the label '{names[len(known)]}' is not among class_names; add it there"
        )
    return names, labels


def read_texts(array: NDArray[Any], what: str) -> tuple[str, ...]:
    """Return one text per row; raise an error that names the array by `what` if one is empty."""
    if array.ndim != 1:
        raise InputError(f"{what} has shape {array.shape}; give one for each row")
    try:
        text = tuple(
            np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array.astype(str)
        )
    except UnicodeDecodeError:
        raise InputError(f"{what} is not text in UTF-8; save it as such") from None
    if "" in text:
        raise InputError(f"{what}: row {text.index('')} is empty; fill it or remove the row")
    return tuple(map(str, text))


def parse_flags(array: NDArray[Any], where: str) -> NDArray[np.bool_]:
    """Return the array `verified` as one boolean per row."""
    if array.ndim != 1 or array.dtype.kind not in REAL or not np.isin(array, (0, 1)).all():
        raise InputError(f"{where}: verified should be true or false for each row; save it as bool")
    return array.astype(bool)


def infer_class_names(
    names: NDArray[Any] | None, labels: dict[str, Integers], where: str
) -> tuple[str, ...]:
    """Return the array `names` as text; None: the numbers from 0 to the largest label."""
    if names is not None:
        if names.ndim != 1:
            raise InputError(f"{where}: class_names have shape {names.shape}; give a list of names")
        return tuple(names.astype(str).tolist())
    for name, each in labels.items():
        # Probably a code such as 999 for "unknown"; so many classes could fill the memory.
        if each.size and each.max() >= len(labels["y"]):
            raise InputError(
                f"{where}: {name}: row {each.argmax()} has label {each.max()}, but there are only "
                f"{len(labels['y'])} examples; number the classes from 0 or give class_names"
            )
    return tuple(map(str, range(max(int(each.max(initial=-1)) for each in labels.values()) + 1)))


def is_known(name: str) -> bool:
    """Whether an array of this name is used; others are not even read."""
    return name in ARRAYS or name.startswith(EMBEDDING)


def read_arrays(path: Path, wanted: Callable[[str], bool] | None = None) -> dict[str, NDArray[Any]]:
    """Read arrays of an npz file by name; raise an InputError if it cannot be read.

    wanted: as for `read_npz`
    """
    try:
        return read_npz(path, wanted)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; give the path of an npz file") from None
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: not a readable npz file ({error}); save its arrays with numpy.savez"
        ) from None


def as_inputs(array: NDArray[Any], what: str) -> NDArray[Any]:
    """Convert images to (N, C, H, W) and vectors to float32; return other arrays unchanged."""
    if array.dtype == np.uint8 and array.ndim == 3:
        return array[:, None]
    if (
        array.dtype == np.uint8
        and array.ndim == 4
        and array.shape[-1] in (1, 3, 4)
        and array.shape[1] > 4
    ):
        return np.ascontiguousarray(array.transpose(0, 3, 1, 2))
    if array.ndim == 2:
        if array.dtype.kind not in REAL:
            raise InputError(f"{what} has type {array.dtype}; give numbers")
        with np.errstate(over="ignore"):  # too large values become infinite and are refused
            return array.astype(np.float32, copy=False)
    return array


def to_whole_numbers(array: NDArray[Any], what: str) -> NDArray[np.int64]:
    """Convert (N,) labels to int64; floats such as 3.0 are allowed, 3.5 is not."""
    if array.dtype.kind not in REAL or array.ndim != 1:
        raise InputError(
            f"{what} has shape {array.shape}, type {array.dtype}; "
            "give one label per row, as whole numbers from 0"
        )
    with np.errstate(invalid="ignore"):  # NaN is refused below
        whole = array.astype(np.int64)
    if not np.array_equal(whole, array):
        row = int((whole != array).argmax())
        raise InputError(f"{what}: row {row} is {array[row]}; give labels as whole numbers from 0")
    return whole
