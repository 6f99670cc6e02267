"""Labels and all that is said about rows beside their inputs."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ulc.typing import Integers

WHOLE = re.compile(r"([+-]?\d+)(?:\.0+)?")


@dataclass(frozen=True)
class Annotations:
    """What `Source` has under the same names."""

    class_names: tuple[str, ...]
    labels: Integers
    true: Integers | None = None
    ids: tuple[str, ...] | None = None
    verified: NDArray[np.bool_] | None = None
    test_labels: Integers | None = None

    def select(self, train: NDArray[np.bool_], test: NDArray[np.bool_]) -> Self:
        """Those of the rows kept."""
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
    """Class names, and every column's labels as their numbers.

    The names given come first, then all others that a label mentions, in order.
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
    """Where all labels are whole numbers, 3.0 is 3: pandas writes it so beside a missing value."""
    matches = {
        name: WHOLE.fullmatch(name) for name in {each for v in columns.values() for each in v}
    }
    if not all(matches.values()):
        return dict(columns)
    short = {name: match[1] for name, match in matches.items() if match}
    return {column: [short[name] for name in labels] for column, labels in columns.items()}


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    """Sorted, numbers as numbers."""
    try:
        return tuple(sorted(names := list(names), key=lambda name: (float(name), name)))
    except ValueError:
        return tuple(sorted(names))
