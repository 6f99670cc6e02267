"""Labels, ids and verified flags of a data set: everything except its inputs."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ulc.typing import Integers

WHOLE = re.compile(r"([+-]?\d+)(?:\.0+)?")  # a whole number, perhaps with decimals .0


@dataclass(frozen=True)
class Annotations:
    """Labels, ids and verified flags; the fields mean what they mean in `Source`."""

    class_names: tuple[str, ...]
    labels: Integers
    true: Integers | None = None
    ids: tuple[str, ...] | None = None
    verified: NDArray[np.bool_] | None = None
    test_labels: Integers | None = None

    def select(self, train: NDArray[np.bool_], test: NDArray[np.bool_]) -> Self:
        """Return the annotations of the rows in the masks of training and of test rows."""
        return replace(
            self,
            labels=self.labels[train],
            true=None if self.true is None else self.true[train],
            ids=None if self.ids is None else tuple(np.array(self.ids, object)[train]),
            verified=None if self.verified is None else self.verified[train],
            test_labels=None if self.test_labels is None else self.test_labels[test],
        )


def number_labels(
    columns: Mapping[str, Sequence[str]], class_names: Sequence[str] = ()
) -> tuple[tuple[str, ...], dict[str, Integers]]:
    """Return the class names, and the labels of every column as class numbers.

    columns: labels as text, by the name of their column
    class_names: names of the first classes; all other names among the labels follow, sorted
    """
    columns = columns if class_names else drop_decimals(columns)
    found = {name for labels in columns.values() for name in labels}
    names = (*class_names, *sort_names(found - set(class_names)))
    place = {name: number for number, name in enumerate(names)}
    return names, {
        column: np.array([place[name] for name in labels], np.int64)
        for column, labels in columns.items()
    }


def drop_decimals(columns: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Turn "3.0" into "3" if all labels are whole numbers, because pandas adds decimals."""
    matches = {
        name: WHOLE.fullmatch(name) for name in {each for v in columns.values() for each in v}
    }
    if not all(matches.values()):
        return dict(columns)
    short = {name: match[1] for name, match in matches.items() if match}
    return {column: [short[name] for name in labels] for column, labels in columns.items()}


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    """Sort names; if all are numbers, sort them as numbers."""
    try:
        return tuple(sorted(names := list(names), key=lambda name: (float(name), name)))
    except ValueError:
        return tuple(sorted(names))
