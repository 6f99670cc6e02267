"""Read Hugging Face data sets from folders that `save_to_disk` wrote."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ulc.config import DataSpec
from ulc.data.sources.frame import (
    ColumnRoles,
    labelled_rows,
    leave_out_unlabelled,
    list_names,
    name_by_position,
    read_annotations,
    vector_source,
)
from ulc.data.sources.pictures import Picture, Pictures, open_regular
from ulc.data.sources.source import Source
from ulc.errors import InputError, first_line
from ulc.typing import CountCallback

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Splits:
    """The training split and the test split, each a `datasets.Dataset`; None: no test split."""

    train: Any
    test: Any | None = None


def load(path: Path, spec: DataSpec, on_progress: CountCallback) -> Source:
    """Read the images of a data set, or its feature columns as vectors."""
    splits, where = read_splits(path), str(path)
    features = splits.train.features
    images = [name for name in features if is_image(features[name])]
    image = spec.image or next(iter([] if spec.features or spec.text else images), None)
    if image in features and image not in images:
        raise InputError(
            f"{where}: the column '{image}' holds no images; name another with --image"
        )
    others = [name for name in features if name not in images]
    known = [name for name in features if name in others or name == image]
    roles = ColumnRoles.choose(known, spec, where)
    table = to_frame(splits.train, others)
    test = None if splits.test is None else to_frame(splits.test, others)
    labelled = labelled_rows(table, roles, where)
    names = getattr(features[roles.label], "names", ())
    notes = read_annotations(table[labelled], roles, where, test, names)
    notes = name_by_position(notes, labelled)
    if image is None:
        source = vector_source(where, table[labelled], roles, notes, spec, test)
        return leave_out_unlabelled(source, labelled)
    every = list_pictures(splits.train, image, f"{where}: train")
    pictures = Pictures(
        [every[row] for row in np.flatnonzero(labelled)],
        () if splits.test is None else list_pictures(splits.test, image, f"{where}: test"),
    )
    return leave_out_unlabelled(pictures.to_source(where, notes, spec, on_progress), labelled)


def read_splits(path: Path) -> Splits:
    """Read the splits train and test; a data set without splits is the training split."""
    content = load_from_disk(path)
    if not isinstance(content, dict):
        return Splits(content)
    if "train" not in content:
        raise InputError(
            f"{path}: no split 'train' (splits: {list_names(list(content))}); "
            "give a data set that has one"
        )
    return Splits(content["train"], content.get("test"))


def load_from_disk(path: Path) -> Any:
    """Load a `datasets.Dataset`, or a dictionary from names of splits to data sets."""
    if find_spec("datasets") is None:
        raise InputError(
            f"{path}: a Hugging Face data set needs datasets; pip install 'ulc[huggingface]'"
        )
    import datasets

    try:
        content = datasets.load_from_disk(str(path))
        # Arrow trusts the numbers in a file; wrong ones would end the process later.
        for split in content.values() if isinstance(content, dict) else [content]:
            split.data.validate(full=True)
            check_class_names(split.features)
    except Exception as error:  # a damaged folder can raise any error
        raise InputError(
            f"{path}: not a readable Hugging Face data set ({first_line(error)}); "
            "write it with save_to_disk"
        ) from None
    return content


def check_class_names(features: Mapping[str, Any]) -> None:
    """Raise a ValueError if a class has a name that is no text."""
    for column, feature in features.items():
        if not all(isinstance(name, str) for name in getattr(feature, "names", None) or ()):
            raise ValueError(f"a class name of the column '{column}' is no text")


def is_image(feature: Any) -> bool:
    """Whether a column with this feature type holds images."""
    import datasets

    return isinstance(feature, datasets.Image)


def to_frame(split: Any, columns: list[str]) -> "pd.DataFrame":
    """Return those of the columns that the split has; class names replace class numbers."""
    table = split.select_columns([name for name in columns if name in split.features]).to_pandas()
    for name, feature in split.features.items():
        if hasattr(feature, "names") and name in table:
            table[name] = [
                to_class_name(value, feature.names, f"column '{name}', row {row}")
                for row, value in enumerate(table[name])
            ]
    return table


def to_class_name(value: float, names: Sequence[str], where: str) -> str | None:
    """Return the name of class number `value`; None for -1 and NaN, which mean no label."""
    if not value >= 0:
        return None
    if value >= len(names):
        raise InputError(
            f"{where}: class number {int(value)}, but only {len(names)} classes have names; "
            "correct it or add the names"
        )
    return names[int(value)]


def list_pictures(split: Any, image: str, where: str) -> list[Picture]:
    """Return the images in the column `image` of a split; each is read when it is opened."""
    import datasets

    if image not in split.features:
        raise InputError(
            f"{where}: no image column '{image}'; add the column to this split, or name another "
            "one with --image"
        )
    packed = split.select_columns([image]).cast_column(image, datasets.Image(decode=False))
    column = PackedColumn(packed, image)
    version = str(getattr(split, "_fingerprint", ""))
    return [
        Picture(f"{where}, row {row}", partial(column.open, row), version)
        for row in range(len(packed))
    ]


@dataclass(frozen=True)
class PackedColumn:
    """The column `name` of images that are not decoded, in a `datasets.Dataset`."""

    rows: Any
    name: str

    def open(self, row: int) -> BinaryIO:
        """Open the image of a row; raise a FileNotFoundError if it has none."""
        content = self.rows[row][self.name]
        if content is None:
            raise FileNotFoundError
        if content["bytes"] is not None:
            return io.BytesIO(content["bytes"])
        return open_regular(Path(content["path"]))
