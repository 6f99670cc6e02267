"""CIFAR-10 and CIFAR-100 in their official binary and pickle layouts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.data.sources.source import Source
from ulc.data.sources.unpickling import unpickle_arrays
from ulc.errors import InputError
from ulc.storage.memory import read_file
from ulc.typing import Integers

PIXELS = 3 * 32 * 32
CIFAR10_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
# Channel statistics of DivideMix's code, which the ULC paper uses.
STATISTICS = {
    10: ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    100: ((0.507, 0.487, 0.441), (0.267, 0.256, 0.276)),
}


def load_cifar10(path: Path) -> Source:
    """Read CIFAR-10 from the folder of an unpacked archive, in the binary or the Python layout."""
    binary, pickled = path / "cifar-10-batches-bin", path / "cifar-10-batches-py"
    if binary.is_dir() or (path / "data_batch_1.bin").is_file():
        folder = binary if binary.is_dir() else path
        train = read_binary([folder / f"data_batch_{i}.bin" for i in range(1, 6)], label_bytes=1)
        test = read_binary([folder / "test_batch.bin"], label_bytes=1)
    elif pickled.is_dir() or (path / "data_batch_1").is_file():
        folder = pickled if pickled.is_dir() else path
        train = read_pickled([folder / f"data_batch_{i}" for i in range(1, 6)], "labels")
        test = read_pickled([folder / "test_batch"], "labels")
    else:
        raise not_found(path, "cifar-10-batches-bin or cifar-10-batches-py")
    return make_source("cifar10", train, test, CIFAR10_CLASSES)


def load_cifar100(path: Path) -> Source:
    """Read CIFAR-100 with fine labels; the folder and layouts are those of `load_cifar10`."""
    binary, pickled = path / "cifar-100-binary", path / "cifar-100-python"
    if binary.is_dir() or (path / "train.bin").is_file():
        folder = binary if binary.is_dir() else path
        train = read_binary([folder / "train.bin"], label_bytes=2)
        test = read_binary([folder / "test.bin"], label_bytes=2)
        names = read_class_names(folder / "fine_label_names.txt")
    elif pickled.is_dir() or (path / "train").is_file():
        folder = pickled if pickled.is_dir() else path
        train = read_pickled([folder / "train"], "fine_labels")
        test = read_pickled([folder / "test"], "fine_labels")
        names = read_pickled_class_names(folder / "meta")
    else:
        raise not_found(path, "cifar-100-binary or cifar-100-python")
    return make_source("cifar100", train, test, names)


def read_binary(paths: Sequence[Path], *, label_bytes: int) -> tuple[NDArray[np.uint8], Integers]:
    """Read (N, 3, 32, 32) images and (N,) labels of the binary layout.

    label_bytes: bytes of labels before the pixels of an image; the last of them is used
    """
    row = label_bytes + PIXELS
    parts = []
    for path in paths:
        try:
            content = np.frombuffer(read_file(path), np.uint8)
        except OSError as error:
            raise InputError(
                f"{path}: cannot be read ({error.strerror}); unpack the official archive again"
            ) from None
        if len(content) == 0 or len(content) % row:
            raise InputError(
                f"{path}: {len(content)} bytes are not whole rows of {row}; download it again"
            )
        parts.append(content.reshape(-1, row))
    rows = np.concatenate(parts)
    return rows[:, label_bytes:].reshape(-1, 3, 32, 32), rows[:, label_bytes - 1].astype(np.int64)


def read_pickled(paths: Sequence[Path], key: str) -> tuple[NDArray[np.uint8], Integers]:
    """Read (N, 3, 32, 32) images, and the (N,) labels called `key`, of the Python layout."""
    images, labels = [], []
    for path in paths:
        content: dict[str, Any] = unpickle_arrays(path)
        if not isinstance(content, dict) or "data" not in content or key not in content:
            raise InputError(f"{path}: no 'data' and '{key}' in it; use the official file")
        try:
            images.append(pickled_images(content["data"]))
            labels.append(pickled_labels(content[key]))
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{path}: not rows of images with labels ({error}); use the official file"
            ) from None
    return np.concatenate(images), np.concatenate(labels)


def pickled_images(data: Any) -> NDArray[np.uint8]:
    """Return a uint8 array of rows of pixels as (N, 3, 32, 32) images; raise for other data."""
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8:
        raise TypeError("'data' is no array of bytes")
    return data.reshape(-1, 3, 32, 32)


def pickled_labels(labels: Any) -> Integers:
    """Return a list or array of whole numbers as (N,) labels; raise for other labels."""
    if isinstance(labels, list) and all(type(each) is int for each in labels):
        return np.array(labels, np.int64)
    if isinstance(labels, np.ndarray) and labels.ndim == 1:
        return labels.astype(np.int64)
    raise TypeError("its labels are no list of whole numbers")


def read_class_names(path: Path) -> tuple[str, ...]:
    """Read the class names, one per line; without the file, classes are called by number."""
    text = read_file(path).decode("utf-8", "replace") if path.is_file() else ""
    return names_or_numbers(text.split())


def read_pickled_class_names(path: Path) -> tuple[str, ...]:
    """Read the class names of the Python layout; without the file, as in `read_class_names`."""
    content: Any = unpickle_arrays(path) if path.is_file() else {}
    names: Any = content.get("fine_label_names") if isinstance(content, dict) else None
    texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return names_or_numbers(names if texts else [])


def names_or_numbers(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names if there are a hundred, else "class 0" to "class 99"."""
    return tuple(map(str, names if len(names) == 100 else (f"class {k}" for k in range(100))))


def make_source(
    name: str,
    train: tuple[NDArray[np.uint8], Integers],
    test: tuple[NDArray[np.uint8], Integers],
    class_names: tuple[str, ...],
) -> Source:
    """Make a source from the images and labels of the training set and of the test set."""
    mean, std = STATISTICS[len(class_names)]
    return Source(
        name=name,
        inputs=train[0],
        labels=train[1],
        true=train[1],
        class_names=class_names,
        test_inputs=test[0],
        test_labels=test[1],
        mean=mean,
        std=std,
        shift=4,
    )


def not_found(path: Path, wanted: str) -> InputError:
    """Return the error for a folder that is missing or does not hold the `wanted` folders."""
    what = "holds no" if path.is_dir() else "no such folder; it should hold"
    return InputError(f"{path}: {what} {wanted}; unpack the official archive there")
