"""Where inputs and labels come from."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ulc.config import DataSpec
from ulc.data.sources import cifar, fashion, npz
from ulc.data.sources.source import Source
from ulc.errors import InputError


@dataclass(frozen=True)
class Reader:
    """How a source is read, and what its path should hold (None: it needs no path)."""

    about: str
    load: Callable[[Path], Source]
    path: str | None = None


SOURCES = {
    "fashion": Reader("a slice of Fashion-MNIST inside the package", lambda _: fashion.load()),
    "cifar10": Reader(
        "CIFAR-10, binary or pickle layout",
        cifar.load_cifar10,
        "the folder of the unpacked archive",
    ),
    "cifar100": Reader(
        "CIFAR-100, binary or pickle layout",
        cifar.load_cifar100,
        "the folder of the unpacked archive",
    ),
    "npz": Reader("arrays X, y (y_true, X_test, y_test, class_names)", npz.load, "the npz file"),
}


def load_source(spec: DataSpec) -> Source:
    """Read the data set that `spec` names."""
    reader = SOURCES.get(spec.source)
    if reader is None:
        raise InputError(f"unknown data source '{spec.source}'; known: {', '.join(SOURCES)}")
    if reader.path and not spec.path:
        raise InputError(f"the source '{spec.source}' needs a path: {reader.path}")
    return reader.load(Path(spec.path or ""))
