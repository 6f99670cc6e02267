"""Read the ids and labels of new rows; both are optional."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ulc.config import DataSpec
from ulc.data.sources import npz
from ulc.data.sources.annotations import WHOLE
from ulc.prediction.input_spec import ModelInput
from ulc.typing import Integers

if TYPE_CHECKING:
    import pandas as pd

Labels = list[str | None]  # None: the row has no label


@dataclass(frozen=True)
class IdsAndLabels:
    """The ids and labels of the rows of a table; None: no such column, or no label in it."""

    ids: tuple[str, ...] | None
    labels: Labels | None


def find_ids_and_labels(
    table: "pd.DataFrame", spec: DataSpec, model_input: ModelInput, where: str
) -> IdsAndLabels:
    """Read ids and labels from the columns of a table.

    If no option names a column, its name in the training data is used, else a name that
    `ulc train` recognises.
    """
    from ulc.data.columns import to_text
    from ulc.data.sources.frame import ID, LABEL, check_columns, first_present, require_texts

    columns = list(table.columns)
    check_columns(columns, spec, where)
    spec = fill_in_columns(spec, model_input.trained, columns)
    others = [name for name in columns if name not in model_input.columns]
    label, name = spec.label or first_present(LABEL, others), spec.id or first_present(ID, others)
    ids = None if name is None else require_texts(table[name], f"{where}: column '{name}'", "id")
    labels: Labels | None = None
    if label is not None:
        labels = [
            each if isinstance(each, str) and each else None for each in to_text(table[label])
        ]
    if labels is not None and all(each is None for each in labels):
        labels = None
    return IdsAndLabels(None if ids is None else tuple(ids), labels)


def fill_in_columns(spec: DataSpec, trained: DataSpec, columns: Sequence[str]) -> DataSpec:
    """Fill in missing column names of `spec` by those of the training data that the table has."""
    named = {
        option: getattr(trained, option)
        for option in ("label", "image", "id")
        if getattr(spec, option) is None and getattr(trained, option) in columns
    }
    return spec.model_copy(update=named)


def class_numbers(labels: Labels, class_names: Sequence[str]) -> Integers:
    """Return (N,) class numbers; -1: the row has no label, or the label is no class of the run.

    The label "3.0" means class "3" unless a class is called "3.0".
    """
    places: dict[str | None, int] = {name: place for place, name in enumerate(class_names)}

    def place(label: str | None) -> int:
        if label in places or label is None:
            return places.get(label, -1)
        whole = WHOLE.fullmatch(label)
        return places.get(whole[1], -1) if whole else -1

    return np.array([place(label) for label in labels], np.int64)


def read_npz_labels(
    arrays: dict[str, NDArray[Any]], class_names: Sequence[str], where: str
) -> Labels | None:
    """Return the labels in `y` as class names; None: the file has no `y`.

    Whole numbers are positions in the file's `class_names`. Without `class_names` they are class
    names if all classes of the run are called by numbers, else positions among these classes. The
    number -1 means no label.
    """
    if "y" not in arrays:
        return None
    if arrays["y"].dtype.kind in npz.TEXT:
        return list(npz.read_texts(arrays["y"], f"{where}: y"))
    numbers = npz.to_whole_numbers(arrays["y"], f"{where}: y").tolist()
    names: Sequence[str] = ()
    if "class_names" in arrays:
        names = npz.read_texts(arrays["class_names"], f"{where}: class_names")
    elif not all(map(WHOLE.fullmatch, class_names)):
        names = class_names
    labels = [names[i] if 0 <= i < len(names) else str(i) for i in numbers]
    return [None if i == -1 else name for i, name in zip(numbers, labels, strict=True)]
