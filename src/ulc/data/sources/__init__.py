"""Sources: the kinds of data sets that can be read, each with its reader."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from ulc.config import DataSpec
from ulc.data.sources import cifar, fashion, npz
from ulc.data.sources.source import Source
from ulc.data.sources.warnings import find_warnings
from ulc.errors import InputError
from ulc.typing import CountCallback

Load = Callable[[Path, DataSpec, CountCallback], Source]
# Options of sources that hold images, and of sources that have columns.
PICTURES = ("size", "skip_broken", "lazy")
COLUMNS = ("label", "image", "text", "text_model", "id", "true", "verified", "features")


@dataclass(frozen=True)
class Reader:
    """How a kind of source is read.

    about: description for `ulc datasets`
    load: function that reads the data
    path: description of what the path must point to; None: the source needs no path
    options: names of the fields of `DataSpec` that the source uses
    """

    about: str
    load: Load
    path: str | None = None
    options: tuple[str, ...] = ()


def path_only(load: Callable[[Path], Source]) -> Load:
    """Return the loader of a source that has no options and reports no progress."""
    return lambda path, _, __: load(path)


def import_later(name: str) -> Load:
    """Return a loader that imports its module when called: pandas and Pillow import slowly."""

    def load(path: Path, spec: DataSpec, on_progress: CountCallback) -> Source:
        loaded: Source = import_module(f"ulc.data.sources.{name}").load(path, spec, on_progress)
        return loaded

    return load


SOURCES = {
    "fashion": Reader(
        "a slice of Fashion-MNIST inside the package", path_only(lambda _: fashion.load())
    ),
    "cifar10": Reader(
        "CIFAR-10, binary or pickle layout",
        path_only(cifar.load_cifar10),
        "the folder of the unpacked archive",
    ),
    "cifar100": Reader(
        "CIFAR-100, binary or pickle layout",
        path_only(cifar.load_cifar100),
        "the folder of the unpacked archive",
    ),
    "clothing1m": Reader(
        "Clothing1M, with its five lists",
        import_later("clothing1m"),
        "the folder that holds its lists",
        PICTURES,
    ),
    "npz": Reader(
        "arrays X, y (y_true, X_test, y_test, class_names, ids, verified)",
        path_only(npz.load),
        "the npz file",
    ),
    "folder": Reader(
        "images, a folder for each class, or such folders inside train and test",
        import_later("folder"),
        "the folder of class folders",
        (*PICTURES, "test"),
    ),
    "table": Reader(
        "a table with a label column and feature columns, sentences or paths of images",
        import_later("table"),
        "the file, .csv, .tsv or .parquet",
        (*COLUMNS, *PICTURES, "sep", "encoding", "test"),
    ),
    "huggingface": Reader(
        "a Hugging Face data set as `save_to_disk` writes it",
        import_later("huggingface"),
        "the folder that save_to_disk wrote",
        COLUMNS + PICTURES,
    ),
}


def load_source(spec: DataSpec, on_progress: CountCallback | None = None) -> Source:
    """Read the data set that `spec` names, and warn of what looks wrong with it.

    on_progress: called after each image; None: nothing is called
    """
    reader, path = checked_reader(spec), Path(spec.path or "")
    source = reader.load(path, spec, on_progress or ignore_count)
    return replace(source, warnings=source.warnings + find_warnings(source))


def checked_reader(spec: DataSpec) -> Reader:
    """Return the reader of the source; raise if the path is missing or an option is unknown."""
    reader = SOURCES.get(spec.source)
    if reader is None:
        raise InputError(f"unknown data source '{spec.source}'; known: {', '.join(SOURCES)}")
    if reader.path and not spec.path:
        raise InputError(f"the source '{spec.source}' needs a path: {reader.path}")
    for option in spec.options:
        if option not in reader.options:
            known = ", ".join(reader.options) or "none"
            raise InputError(
                f"the source '{spec.source}' has no option '{option}'; drop it (known: {known})"
            )
    return reader


def ignore_count(done: int, total: int) -> None:
    """Do nothing: the callback if no progress is wanted."""
