"""Encode table columns as vectors, with the same encoding for training rows and new rows."""

from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ulc.config import Spec
from ulc.data.columns import (
    NUMERIC_KINDS,
    convert_numeric_text,
    holds_lists,
    infer_kind,
    looks_like_text,
    to_numbers,
    to_text,
)
from ulc.errors import InputError
from ulc.typing import Floats

MOST_MARK = 3.0  # largest standardised mark of a missing value, however rare they are
NEARLY_EMPTY = 0.8  # share of missing values from which on a row says nothing
MOST_LEVELS = 50  # most levels of a category that are encoded separately


class TableColumn(Spec):
    """Encoding of one column.

    A number, a boolean or a date becomes one number; a category becomes one-hot. If the column has
    missing values, one more number marks them, the last. Each number is standardised; a rare mark
    would become very large, so it is capped.

    fill: number that replaces a missing value: the median
    missing: whether the fitted column has missing values
    levels: the most frequent values of a category
    others: whether the category has further values; they share one number
    mean, std: mean and standard deviation of each number; std 0: it is constant and left out
    """

    unbounded = frozenset({"fill"})

    name: str
    kind: Literal["number", "boolean", "date", "category"]
    fill: float = 0.0
    missing: bool = False
    levels: tuple[str, ...] = ()
    others: bool = False
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    @classmethod
    def fit(cls, name: str, values: "pd.Series[Any]", where: str) -> Self:
        """Fit the encoding to a column; `where` names the column in error messages."""
        kind = infer_kind(values)
        if kind == "category":
            column = cls(name=name, kind=kind, **fit_levels(values))
        else:
            found = to_numbers(values, kind, where)
            gap = np.isnan(found)
            fill = 0.0 if gap.all() else float(np.nanmedian(found))
            column = cls(name=name, kind=kind, fill=fill, missing=bool(gap.any()))
        raw = column.encode(values, where)
        constant = raw.min(0) == raw.max(0)
        mean, std = raw.mean(0), np.where(constant, 0.0, raw.std(0))
        if column.missing and std[-1] > 0:
            std[-1] = max(std[-1], (1 - mean[-1]) / MOST_MARK)
        return column.model_copy(update={"mean": tuple(mean), "std": tuple(std)})

    @property
    def width(self) -> int:
        """How many numbers one value becomes."""
        return sum(each > 0 for each in self.std)

    def check_fitted(self) -> None:
        """Raise a ValueError unless mean and std fit the kind, and at least one number varies."""
        levels = len(self.levels) if self.kind == "category" else 1
        count = levels + (self.others and self.kind == "category") + self.missing
        if not len(self.mean) == len(self.std) == count or not self.width:
            raise ValueError(f"column '{self.name}': mean and std do not fit its {count} numbers")
        if len(set(self.levels)) < len(self.levels):
            raise ValueError(f"column '{self.name}': a level stands twice")

    def transform(self, values: "pd.Series[Any]", where: str) -> Floats:
        """Encode (N,) values as (N, width) standardised numbers."""
        varied = np.array(self.std) > 0
        mean, std = np.array(self.mean)[varied], np.array(self.std)[varied]
        return ((self.encode(values, where)[:, varied] - mean) / std).astype(np.float32)

    def encode(self, values: "pd.Series[Any]", where: str) -> Floats:
        """Encode (N,) values as numbers: not standardised, and with constant numbers."""
        if self.kind == "category":
            return self.one_hot(values)
        found = to_numbers(values, self.kind, where)
        gap = np.isnan(found)
        filled = np.where(gap, self.fill, found)
        return np.stack([filled, gap], axis=1) if self.missing else filled[:, None]

    def one_hot(self, values: "pd.Series[Any]") -> Floats:
        """Encode a category as one number for each level, for `others` and for missing values.

        The number of the value is 1, the rest are 0. An unknown value counts as `others`; without
        `others`, all numbers of an unknown value are 0.
        """
        place = pd.Index(self.levels, dtype=object).get_indexer(to_text(values))
        gap = values.isna().to_numpy(bool)
        if self.others:
            place = np.where((place < 0) & ~gap, len(self.levels), place)
        if self.missing:
            place = np.where(gap, len(self.levels) + self.others, place)
        every = np.arange(len(self.levels) + self.others + self.missing)
        return (place[:, None] == every).astype(np.float64)


def fit_levels(values: "pd.Series[Any]") -> dict[str, Any]:
    """Return the fields levels, others and missing; among equally frequent levels, names decide."""
    counts = to_text(values).value_counts()
    ranked = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    return {
        "levels": tuple(sorted(str(level) for level, _ in ranked[:MOST_LEVELS])),
        "others": len(ranked) > MOST_LEVELS,
        "missing": bool(values.isna().any()),
    }


class TableEncoding(Spec):
    """Encoding of a table.

    columns: encodings of the columns that are used
    left_out: names of the other columns, and why each is not used
    """

    columns: tuple[TableColumn, ...] = Field(min_length=1)
    left_out: dict[str, str]

    @model_validator(mode="after")
    def _columns_are_fitted(self) -> Self:
        for column in self.columns:
            column.check_fitted()
        return self

    @classmethod
    def fit(cls, table: pd.DataFrame, where: str) -> Self:
        """Fit the encoding of every column."""
        columns, left_out = [], {}
        for name in table.columns:
            place = f"{where}: column '{name}'"
            values = convert_numeric_text(table[name])
            why = reason_to_leave_out(values, place)
            column = None if why else TableColumn.fit(str(name), values, place)
            if column is not None and column.width:
                columns.append(column)
            else:
                left_out[str(name)] = why or "constant"
        if not columns:
            listing = ", ".join(f"'{name}' is {why}" for name, why in left_out.items())
            raise InputError(
                f"{where}: nothing to learn from ({listing or 'no other columns'}); "
                "give columns whose values vary"
            )
        return cls(columns=tuple(columns), left_out=left_out)

    def nearly_empty(self, table: pd.DataFrame) -> NDArray[np.bool_]:
        """Return the (N,) mask of the rows that have hardly any value in the columns used."""
        missing = table[[column.name for column in self.columns]].isna().to_numpy(bool)
        mask: NDArray[np.bool_] = missing.mean(axis=1) >= NEARLY_EMPTY
        return mask

    def transform(self, table: pd.DataFrame, where: str) -> Floats:
        """Encode the rows of the fitted table, or of a new one, as (N, D) vectors."""
        parts = []
        for column in self.columns:
            if column.name not in table.columns:
                raise InputError(
                    f"{where}: no column '{column.name}', which the model was trained on; add it"
                )
            place = f"{where}: column '{column.name}'"
            parts.append(column.transform(table[column.name], place))
        return np.concatenate(parts, axis=1)


def reason_to_leave_out(values: "pd.Series[Any]", where: str) -> str | None:
    """Return why a column is not used; None: it is used."""
    if holds_lists(values):
        raise InputError(
            f"{where}: its values are lists; name the columns to learn from as `features`, "
            "or save the lists as the rows of X in an npz file"
        )
    if looks_like_text(values):
        return f"sentences; learn from them with --text {values.name}"
    different = values.nunique()
    if different + values.isna().any() <= 1:
        return "constant"
    if different == values.notna().sum() and infer_kind(values) not in NUMERIC_KINDS:
        return "an identifier (every value is different)"
    return None
