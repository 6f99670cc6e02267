"""Read and write label files: DivideMix's JSON list, CIFAR-N's .pt, or npz."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.data.sources.npz import read_arrays, to_whole_numbers
from ulc.data.sources.pickle_machine import PickleError
from ulc.data.sources.unpickling import NAMES, plain
from ulc.errors import InputError
from ulc.storage.files import npz_names, write_whole
from ulc.storage.memory import check_file
from ulc.typing import Integers

NUMBERS = (bool, int, float)
JSON_COPIES = 30  # bytes of memory that a byte of JSON takes at most: an empty list or object


def read_label_file(path: Path, key: str | None = None) -> NDArray[np.int64]:
    """Read (N,) labels; `key` names the array in an npz or pt file; None: it has only one."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; give a label file in JSON, npz or pt")
    check_file(path)
    if path.suffix == ".json":
        return read_json_labels(path)
    if path.suffix == ".pt":
        content: dict[str, Any] = read_pt_labels(path)
        key = choose_key(path, list(content), key)
    else:
        key = choose_key(path, list_arrays(path), key)
        content = read_arrays(path, lambda name: name == key)
    return to_whole_numbers(as_array(content[key], f"{path}: {key}"), f"{path}: {key}")


def as_array(labels: Any, what: str) -> NDArray[Any]:
    """Return labels as an array; what: the file and its key, for the error.

    A list of lists is refused: each could hold the next one twice, which multiplies its size.
    """
    nested = isinstance(labels, list | tuple) and not all(type(each) in NUMBERS for each in labels)
    try:
        if not nested:
            return np.asarray(labels)
    except (TypeError, RuntimeError):  # tensors that NumPy cannot hold
        pass
    raise InputError(f"{what} is no array of numbers; give one label per row")


def list_arrays(path: Path) -> list[str]:
    """Return the names of the arrays of an npz file; raise an InputError if it is damaged."""
    try:
        return npz_names(path)
    except ValueError:
        return list(read_arrays(path))  # raises an error that names the remedy


def choose_key(path: Path, names: list[str], key: str | None) -> str:
    """Return the name of the labels in a file; raise if it is not clear."""
    if not names:
        raise InputError(f"{path}: holds no array; write the labels into it")
    if key is None and len(names) == 1:
        return names[0]
    if key is None or key not in names:
        wrong = "several arrays" if key is None else f"no array '{key}'"
        known = ", ".join(map(str, names))
        raise InputError(f"{path}: {wrong}; set noise.key to one of: {known}")
    return key


def read_json_labels(path: Path) -> NDArray[np.int64]:
    """Read DivideMix's noise file: a list of N whole numbers."""
    check_file(path, JSON_COPIES)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        labels = np.asarray(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a JSON list ({error}); write it again") from None
    if not isinstance(content, list) or labels.ndim != 1:
        raise InputError(f"{path}: not a flat list of labels; give one whole number per example")
    return to_whole_numbers(labels, str(path))


def read_pt_labels(path: Path) -> dict[str, Any]:
    """Read CIFAR-N's file, a dictionary of label arrays saved by torch, without running code."""
    from ulc.data.torch_file import read_torch
    from ulc.data.torch_pickle import STATES

    try:
        with path.open("rb") as stream:
            content = plain(read_torch(stream, str(path), STATES | NAMES))
    except PickleError as error:
        raise InputError(
            f"{path}: damaged, or it holds objects other than label arrays ({error}); these could "
            "run code, so they are not read; use the official file"
        ) from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: not a dictionary of label arrays; use the official file")
    return content


def write_label_file(path: Path, labels: Integers, true: Integers) -> None:
    """Write labels in the format of the file's ending: .json (DivideMix), .pt (CIFAR-N) or .npz.

    true: (N,) true labels; a JSON file does not hold them
    """
    if path.suffix == ".json":
        write_whole(path, json.dumps([int(label) for label in labels]).encode())
        return
    content = {"clean_label": true, "noisy_label": labels}
    buffer = io.BytesIO()
    if path.suffix == ".pt":
        import torch

        torch.save(content, buffer)
    elif path.suffix == ".npz":
        np.savez_compressed(buffer, clean_label=true, noisy_label=labels)
    else:
        raise InputError(f"{path}: unknown ending '{path.suffix}'; use .json, .npz or .pt")
    write_whole(path, buffer.getvalue())
