"""Kinds of table columns (numbers, booleans, dates, text) and how to parse them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import infer_dtype, is_bool_dtype, is_numeric_dtype

from ulc.errors import InputError
from ulc.typing import Floats

Numeric = Literal["number", "boolean", "date"]
Kind = Literal["number", "boolean", "date", "category"]
NUMERIC_KINDS: tuple[Numeric, ...] = ("number", "boolean", "date")
WANTED = {"number": "a number", "boolean": "yes or no", "date": "a date such as 2026-01-31"}
WORDS = {"true": 1, "yes": 1, "t": 1, "y": 1, "1": 1, "false": 0, "no": 0, "f": 0, "n": 0, "0": 0}
GLANCE = 100  # number of values tried first, because most columns of another kind fail there
LARGEST = float(np.finfo(np.float32).max)
# A word: up to three signs of Chinese or Japanese, or a run of other signs without spaces.
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]{1,3}|[^\s\u3040-\u30ff\u3400-\u9fff]+")
FAR_DATE = re.compile(r"\d{4}-\d\d-\d\d")
FEWEST_WORDS = 3  # mean number of words in a column of sentences
FEWEST_SENTENCES = 50  # that differ; with fewer, more than half of the values must differ
SAMPLE = 1_000  # values that are looked at


def infer_kind(values: "pd.Series[Any]") -> Kind:
    """Return the first of `NUMERIC_KINDS` as which all values can be parsed, else "category".

    Missing values do not count.
    """
    if is_number(values):
        return "number"
    present = values.dropna()
    readable = (kind for kind in NUMERIC_KINDS if all_readable_as(present, kind))
    return next(readable, "category")


def convert_numeric_text(values: "pd.Series[Any]") -> "pd.Series[Any]":
    """Convert a text column to numbers if all its values are numbers; else return it unchanged."""
    there = values.notna().to_numpy(bool)
    if is_number(values) or not all_readable_as(values[there], "number"):
        return values
    found = np.full(len(values), np.nan)
    found[there] = parse(values[there], "number")
    return pd.Series(found, values.index)


def all_readable_as(present: "pd.Series[Any]", kind: Numeric) -> bool:
    """Whether every value can be parsed as this kind; `present` has no missing values."""
    parts = [present] if len(present) <= GLANCE else [present[:GLANCE], present]
    return not any(np.isnan(parse(part, kind)).any() for part in parts)


def to_numbers(values: "pd.Series[Any]", kind: Numeric, where: str) -> Floats:
    """Parse (N,) values; return NaN where a value is missing, infinite or too large for float32.

    A value that is not of this kind raises an InputError, which names the column by `where`.
    """
    gap = values.isna().to_numpy(bool)
    found = np.full(len(values), np.nan)
    found[~gap] = parse(values[~gap], kind)
    wrong = np.isnan(found) & ~gap
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"{where}: row {values.index[row] + 1} below the header is '{values.iloc[row]}'; "
            f"give {WANTED[kind]} or nothing"
        )
    return np.where(np.abs(found) > LARGEST, np.nan, found)


def parse(present: "pd.Series[Any]", kind: Numeric) -> Floats:
    """Parse values as numbers (booleans as 0 or 1, dates as days since 1970), else as NaN."""
    if is_number(present):
        return check_numbers(present, kind)
    if kind == "number" and infer_dtype(present) == "string":  # same result, much faster
        return pd.to_numeric(present, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    text = to_text(present)
    if kind == "number":
        return pd.to_numeric(text, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    if kind == "boolean":
        return np.array([WORDS.get(each.lower(), np.nan) for each in text], np.float64)
    dates = pd.to_datetime(text, format="ISO8601", utc=True, errors="coerce")
    # By NumPy, because pandas has no room for years such as 9999 in its nanoseconds.
    moments = dates.dt.tz_localize(None).to_numpy()
    days: Floats = (moments - np.datetime64(0, "s")) / np.timedelta64(1, "D")
    # pandas 2 reads no date that its nanoseconds have no room for.
    for place in np.flatnonzero(np.isnan(days)):
        days[place] = far_date(text.iloc[place])
    return days


def far_date(text: str) -> float:
    """Days since 1970 of an ISO date in any year; NaN: it is none."""
    if not FAR_DATE.match(text):
        return np.nan
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return np.nan
    moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(days=1)


def check_numbers(present: "pd.Series[Any]", kind: Numeric) -> Floats:
    """Return the numbers that are valid as `kind`, else NaN: boolean: 0 and 1; date: no number."""
    found = present.to_numpy(np.float64, na_value=np.nan)
    if kind == "number":
        return found
    allowed = (0, 1) if kind == "boolean" else ()
    return np.where(np.isin(found, allowed), found, np.nan)


def is_number(values: "pd.Series[Any]") -> bool:
    """Whether the column has a numeric type; bool does not count as numeric."""
    return is_numeric_dtype(values) and not is_bool_dtype(values)


def to_text(values: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return values as text without surrounding spaces; missing values stay missing."""
    pairs = zip(values, values.isna(), strict=True)
    texts = [None if missing else str(value).strip() for value, missing in pairs]
    return pd.Series(texts, values.index, dtype=object, name=values.name)


def looks_like_text(values: "pd.Series[Any]") -> bool:
    """Whether a column holds sentences: three words or more in the mean, few repeated values."""
    if is_number(values) or holds_lists(values):
        return False
    present = to_text(values.dropna()[:SAMPLE])
    if len(present) == 0:
        return False
    words = [len(WORD.findall(each)) for each in present]
    enough = min(FEWEST_SENTENCES, len(present) / 2)
    if np.mean(words) < FEWEST_WORDS or present.nunique() <= enough:
        return False
    return infer_kind(present) == "category"


def holds_lists(values: "pd.Series[Any]") -> bool:
    """Whether one of the first `GLANCE` values is a list, an array or another collection."""
    return any(
        isinstance(value, list | tuple | dict | set | np.ndarray) for value in values[:GLANCE]
    )


def to_flags(values: "pd.Series[Any]", where: str) -> NDArray[np.bool_]:
    """Parse (N,) values as booleans; a missing value is False."""
    return to_numbers(values, "boolean", where) == 1
