"""A data set as a source returns it, and checks of its inputs and labels."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ulc.errors import InputError
from ulc.storage.memory import check_memory
from ulc.typing import Integers

if TYPE_CHECKING:
    from ulc.data.lazy.images import LazyImages
    from ulc.data.sources.pictures import Picture
    from ulc.data.table_encoding import TableEncoding
    from ulc.data.text.encoding import TextEncoding


@dataclass(frozen=True)
class Source:
    """A data set as read from a source.

    name: name of the data in error messages
    inputs: (N, C, H, W) uint8 images or (N, D) float32 vectors; `LazyImages` are images that are
        read when they are needed
    labels: (N,) given labels, as class numbers
    true: (N,) true labels; None: unknown
    test_inputs, test_labels: a test set with true labels; None: no test set
    valid_inputs, valid_labels: a validation set with right labels; None: no validation set
    mean, std: of each channel, for pixels in [0, 1], from the literature; None: they are measured
    crop: height and width of the part of an image that networks see; None: the whole image
    shift: how many pixels a random crop may move an image; None: an eighth of its width
    ids: (N,) id of each row, or the full path of its image; None: rows are named by position
    verified: (N,) mask of the labels that somebody checked; None: unknown
    encoding: how the columns of a table became vectors; None: the data are no table
    text: how the sentences of a column became vectors; None: the inputs are no sentences
    nearly_empty: (N,) mask of the rows of a table whose values say nothing; None: no row
    skipped: names of broken images that were left out
    unlabelled: number of rows that were left out because they have no label
    notes: sentences that say how the data were read
    warnings: sentences that say what looks wrong with them, found before training
    pictures: (N,) the image files, which can be read again; None: the inputs are no files
    embedding: arrays by which `ulc embed` describes how images became vectors; None: no embedding
    """

    name: str
    inputs: "NDArray[Any] | LazyImages"
    labels: Integers
    class_names: tuple[str, ...]
    true: Integers | None = None
    test_inputs: "NDArray[Any] | LazyImages | None" = None
    test_labels: Integers | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    shift: int | None = None
    ids: tuple[str, ...] | None = None
    verified: NDArray[np.bool_] | None = None
    encoding: "TableEncoding | None" = None
    text: "TextEncoding | None" = None
    nearly_empty: NDArray[np.bool_] | None = None
    skipped: tuple[str, ...] = ()
    unlabelled: int = 0
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    pictures: "tuple[Picture, ...] | None" = None
    embedding: dict[str, NDArray[Any]] | None = None
    valid_inputs: "NDArray[Any] | LazyImages | None" = None
    valid_labels: Integers | None = None
    crop: int | None = None

    def __post_init__(self) -> None:
        check_inputs(self.inputs, f"{self.name}: inputs")
        classes = len(self.class_names)
        # Judgement and health have tables of all pairs of classes.
        check_memory(8 * classes**2, f"{self.name}: the pairs of its {classes} classes")
        if len(self.inputs) != len(self.labels):
            raise InputError(
                f"{self.name}: {len(self.inputs)} inputs but {len(self.labels)} labels; "
                "give one label for each input"
            )
        check_labels(self.labels, classes, f"{self.name}: labels")
        if len(np.unique(self.labels)) < 2:
            raise InputError(
                f"{self.name}: all labels are the same class; give at least two classes"
            )
        if self.true is not None:
            check_labels(self.true, classes, f"{self.name}: true labels")
        for what in ("true", "ids", "verified"):
            self.check_length(what)
        check_unique(self.ids or (), self.name)
        if self.test_inputs is not None and self.test_labels is not None:
            check_inputs(self.test_inputs, f"{self.name}: test inputs")
            check_labels(self.test_labels, classes, f"{self.name}: test labels")
            if self.test_inputs.shape[1:] != self.inputs.shape[1:]:
                raise InputError(
                    f"{self.name}: test inputs have shape {self.test_inputs.shape[1:]}, "
                    f"training inputs {self.inputs.shape[1:]}; give both the same shape"
                )
            if len(self.test_inputs) != len(self.test_labels):
                raise InputError(
                    f"{self.name}: {len(self.test_inputs)} test inputs but "
                    f"{len(self.test_labels)} test labels; give one label for each"
                )

    def check_length(self, what: str) -> None:
        """Raise unless the field `what` is None or has one value per label."""
        values = getattr(self, what)
        if values is not None and len(values) != len(self.labels):
            name = "true labels" if what == "true" else what
            raise InputError(
                f"{self.name}: {len(values)} {name} for {len(self.labels)} rows; give one for each"
            )


def check_unique(ids: tuple[str, ...], where: str) -> None:
    """Raise if two rows have the same id: a decision about it could not be assigned to a row."""
    if len(set(ids)) == len(ids):
        return
    first: dict[str, int] = {}
    for row, name in enumerate(ids):
        if first.setdefault(name, row) != row:
            raise InputError(
                f"{where}: rows {first[name] + 1} and {row + 1} have the same id '{name}'; give "
                "each row its own (--id names the column), or rename the column if it holds no ids"
            )


def check_inputs(inputs: "NDArray[Any] | LazyImages", what: str) -> None:
    """Raise unless `inputs` are uint8 images or vectors of finite numbers.

    what: name of the inputs in the error message
    """
    if inputs.ndim not in (2, 4) or 0 in inputs.shape:
        raise InputError(
            f"{what} have shape {inputs.shape}; give vectors (N, D) or images (N, C, H, W)"
        )
    if inputs.ndim == 4 and inputs.dtype != np.uint8:
        raise InputError(f"{what} are images of type {inputs.dtype}; give them as uint8, 0 to 255")
    if isinstance(inputs, np.ndarray) and inputs.ndim == 2:
        if inputs.dtype.kind not in "biuf":
            raise InputError(f"{what} are vectors of type {inputs.dtype}; give them as numbers")
        bad = ~np.isfinite(inputs).all(axis=1)
        if bad.any():
            row = int(bad.argmax())
            column = int((~np.isfinite(inputs[row])).argmax())
            raise InputError(
                f"{what}: row {row}, column {column} is {inputs[row, column]}; "
                "fill or remove missing and infinite values"
            )


def check_labels(labels: Integers, classes: int, what: str) -> None:
    """Raise unless `labels` are whole numbers from 0 to `classes` − 1."""
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise InputError(
            f"{what} have shape {labels.shape}, type {labels.dtype}; give a whole number per row"
        )
    outside = (labels < 0) | (labels >= classes)
    if outside.any():
        row = int(outside.argmax())
        raise InputError(
            f"{what}: row {row} has label {labels[row]}, outside 0 to {classes - 1}; correct it"
        )
