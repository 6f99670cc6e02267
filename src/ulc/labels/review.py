"""Review lists: the labels with the lowest scores, and how many errors to expect among them."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ulc.errors import InputError
from ulc.labels.table import as_csv, as_objects, rounded, unsorted_columns
from ulc.storage.files import write_whole
from ulc.storage.run_folder import RunFolder
from ulc.typing import Floats, Integers

NAME = "review.csv"


@dataclass(frozen=True)
class Review:
    """The n labels with the lowest scores, whether they are issues or not.

    rows: (n,) positions in the data, the lowest score first
    expected: (n,) sum of 1 − score of the labels up to this one: errors to expect among them
    """

    rows: Integers
    expected: Floats

    @classmethod
    def of(cls, score: Floats, count: int, verified: NDArray[np.bool_]) -> Self:
        """Choose at most `count` labels; those of the (N,) mask `verified` are left out."""
        rows = np.flatnonzero(~verified)
        rows = rows[np.argsort(score[rows], kind="stable")][:count]
        return cls(rows, np.cumsum(1 - score[rows].astype(np.float64)))

    @property
    def errors(self) -> float:
        """Return the number of errors to expect among all of them."""
        return float(self.expected[-1]) if len(self.rows) else 0.0


def check_count(count: Any) -> None:
    """Raise an InputError unless `count` is an integer of at least 1."""
    if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
        raise InputError(f"review is {count!r}; give a number of labels, at least 1")


def find_review(folder: RunFolder, count: int) -> Review:
    """Choose the labels of a finished run that are most worth a look; nothing is trained."""
    check_count(count)
    return Review.of(folder.judgement.clean_probability, count, folder.verified)


def review_columns(folder: RunFolder, review: Review) -> dict[str, NDArray[Any]]:
    """The columns of labels.csv for the labels of a review, and `expected_errors`."""
    names, ids = as_objects(folder.read_json("data.json")["class_names"]), folder.ids
    judgement = folder.judgement
    if ids is not None and len(ids) != len(judgement.given):
        raise folder.damaged("ids.json", ValueError(f"{len(ids)} ids, not {len(judgement.given)}"))
    columns = unsorted_columns(judgement.select(review.rows), names, folder.threshold)
    columns["id"] = review.rows if ids is None else as_objects([ids[row] for row in review.rows])
    columns["expected_errors"] = review.expected
    return {
        name: rounded(values) if values.dtype.kind == "f" else values
        for name, values in columns.items()
    }


def write_review(folder: RunFolder, count: int) -> Review:
    """Write review.csv to the folder of a finished run, and return what it lists."""
    review = find_review(folder, count)
    write_whole(folder.path / NAME, as_csv(review_columns(folder, review)))
    return review
