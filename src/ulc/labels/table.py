"""The table of labels: one row for each label, as CSV, Parquet or pandas frame."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ulc.labels.judgement import Judgement
from ulc.typing import Floats, Integers

if TYPE_CHECKING:
    from pandas import DataFrame

Columns = Mapping[str, NDArray[Any]]
ROWS_AT_ONCE = 10_000


def label_columns(
    judgement: Judgement,
    class_names: Sequence[str],
    threshold: float,
    ids: Sequence[str] | None = None,
    verified: NDArray[np.bool_] | None = None,
) -> dict[str, NDArray[Any]]:
    """The columns of the table by name: numbers rounded, the most suspicious rows first.

    ids: names of the rows in the source; None: their positions in the training data
    verified: (N,) mask, the last column; None: there is no such column
    """
    columns = unsorted_columns(judgement, as_objects(class_names), threshold)
    if ids is not None:
        columns["id"] = as_objects(ids)
    if verified is not None:
        columns["verified"] = verified
    order = np.lexsort((judgement.clean_probability, ~columns["is_label_issue"]))
    return {
        name: rounded(values[order]) if values.dtype.kind == "f" else values[order]
        for name, values in columns.items()
    }


def label_rows(
    judgement: Judgement,
    class_names: Sequence[str],
    threshold: float,
    ids: Sequence[str] | None = None,
) -> Iterator[dict[str, Any]]:
    """The rows of `label_columns` as dictionaries; None in place of NaN."""
    yield from as_rows(label_columns(judgement, class_names, threshold, ids))


def as_rows(columns: Columns) -> Iterator[dict[str, Any]]:
    """The rows of a table as dictionaries; None in place of NaN."""
    for row in zip(*map(python_values, columns.values()), strict=True):
        yield dict(zip(columns, row, strict=True))


def label_frame(
    judgement: Judgement, classes: NDArray[Any], threshold: float, index: Any = None
) -> "DataFrame":
    """The table as a pandas frame in data set order.

    classes: (K,) labels as the user gave them; index: of the frame; None: positions
    """
    from pandas import DataFrame  # slow to import

    return DataFrame(unsorted_columns(judgement, classes, threshold), index=index)


def unsorted_columns(
    judgement: Judgement, classes: NDArray[Any], threshold: float
) -> dict[str, NDArray[Any]]:
    """The columns that every table of labels has, in data set order."""
    return {
        "id": np.arange(len(judgement.given)),
        "is_label_issue": judgement.issues(threshold),
        "label_score": judgement.clean_probability,
        "score_kind": np.full(len(judgement.given), judgement.score_kind, object),
        "given_label": classes[judgement.given],
        "predicted_label": classes[judgement.prediction.argmax(1)],
        "suggested_label": classes[judgement.suggested],
        "epistemic": judgement.epistemic,
        "aleatoric": judgement.aleatoric,
        "loss": judgement.loss,
    }


def corrected_columns(
    judgement: Judgement,
    class_names: Sequence[str],
    threshold: float,
    ids: Sequence[str] | None = None,
) -> dict[str, NDArray[Any]]:
    """Ids and corrected labels in data set order; see `corrected_labels`."""
    corrected = corrected_labels(judgement, threshold)
    return {
        "id": np.arange(len(corrected)) if ids is None else as_objects(ids),
        "label": as_objects(class_names)[corrected],
    }


def corrected_labels(judgement: Judgement, threshold: float) -> Integers:
    """(N,) the suggested class where the given label is an issue, else the given one."""
    return np.where(judgement.issues(threshold), judgement.suggested, judgement.given)


def rounded(values: Floats) -> Floats:
    """Values rounded to six decimals."""
    return np.round(values.astype(np.float64), 6)


def as_objects(texts: Sequence[str]) -> NDArray[Any]:
    """Texts as an object array, so that one long text does not widen all entries."""
    array = np.empty(len(texts), object)
    array[:] = texts
    return array


def python_values(column: NDArray[Any]) -> list[Any]:
    """The column's values as Python objects; None in place of NaN."""
    if column.dtype.kind == "f" and np.isnan(column).any():
        gap = np.isnan(column)
        column = column.astype(object)
        column[gap] = None
    values: list[Any] = column.tolist()
    return values


def as_csv(columns: Columns) -> bytes:
    """The columns as CSV with a header; few rows at a time are Python objects."""
    parts = [csv_lines([columns])]
    for start in range(0, max(map(len, columns.values()), default=0), ROWS_AT_ONCE):
        values = (python_values(each[start : start + ROWS_AT_ONCE]) for each in columns.values())
        parts.append(csv_lines(zip(*values, strict=True)))
    return b"".join(parts)


def csv_lines(rows: Iterable[Iterable[Any]]) -> bytes:
    """The rows as lines of a CSV file."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue().encode()


def as_parquet(columns: Columns) -> bytes:
    """The columns as Parquet; needs pyarrow."""
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({name: pa.array(each, from_pandas=True) for name, each in columns.items()})
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    return buffer.getvalue()
