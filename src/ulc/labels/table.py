"""The table of labels: what a run thinks of each, most suspicious first."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ulc.labels.judgement import Judgement
from ulc.typing import Floats, Integers

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS = (
    "id", "is_label_issue", "label_score", "given_label", "predicted_label", "suggested_label",
    "epistemic", "aleatoric", "loss",
)  # fmt: skip
Columns = Mapping[str, NDArray[Any]]


def label_columns(
    judgement: Judgement,
    class_names: Sequence[str],
    threshold: float,
    ids: Sequence[str] | None = None,
    verified: NDArray[np.bool_] | None = None,
) -> dict[str, NDArray[Any]]:
    """The table by columns, its rows in order of suspicion.

    `id` is what the source calls the row, or else its position in the training data. A column
    `verified` comes last where some labels were verified.
    """
    issue = issues(judgement, threshold)
    order = np.lexsort((judgement.clean_probability, ~issue))
    names = as_objects(class_names)
    columns = {
        "id": order if ids is None else as_objects(ids)[order],
        "is_label_issue": issue[order],
        "label_score": rounded(judgement.clean_probability[order]),
        "given_label": names[judgement.given[order]],
        "predicted_label": names[judgement.prediction.argmax(1)[order]],
        "suggested_label": names[judgement.suggested[order]],
        "epistemic": rounded(judgement.epistemic[order]),
        "aleatoric": rounded(judgement.aleatoric[order]),
        "loss": rounded(losses(judgement)[order]),
    }
    return columns if verified is None else columns | {"verified": verified[order]}


def label_rows(
    judgement: Judgement,
    class_names: Sequence[str],
    threshold: float,
    ids: Sequence[str] | None = None,
) -> Iterator[dict[str, Any]]:
    """The same table, row by row; None where there is no number."""
    columns = label_columns(judgement, class_names, threshold, ids)
    for row in zip(*map(cells, columns.values()), strict=True):
        yield dict(zip(columns, row, strict=True))


def label_frame(
    judgement: Judgement, classes: NDArray[Any], threshold: float, index: Any = None
) -> "DataFrame":
    """The table as a pandas frame in data set order; `classes` are the K labels as they came."""
    from pandas import DataFrame  # heavy: only where a frame is wanted

    columns = {
        "id": np.arange(len(judgement.given)),
        "is_label_issue": issues(judgement, threshold),
        "label_score": judgement.clean_probability,
        "given_label": classes[judgement.given],
        "predicted_label": classes[judgement.prediction.argmax(1)],
        "suggested_label": classes[judgement.suggested],
        "epistemic": judgement.epistemic,
        "aleatoric": judgement.aleatoric,
        "loss": losses(judgement),
    }
    return DataFrame(columns, columns=list(COLUMNS), index=index)


def corrected_columns(
    judgement: Judgement,
    class_names: Sequence[str],
    threshold: float,
    ids: Sequence[str] | None = None,
) -> dict[str, NDArray[Any]]:
    """The labels if every issue were accepted, in data set order."""
    corrected = corrected_labels(judgement, threshold)
    return {
        "id": np.arange(len(corrected)) if ids is None else as_objects(ids),
        "label": as_objects(class_names)[corrected],
    }


def issues(judgement: Judgement, threshold: float) -> NDArray[np.bool_]:
    """(N,) labels that are not trusted while another class is suggested."""
    return ~judgement.trusted(threshold) & (judgement.suggested != judgement.given)


def corrected_labels(judgement: Judgement, threshold: float) -> Integers:
    """(N,) the suggested class where the given label is an issue, else the given one."""
    return np.where(issues(judgement, threshold), judgement.suggested, judgement.given)


def losses(judgement: Judgement) -> Floats:
    """(N,) −log of the probability that is predicted for the given label."""
    place = np.arange(len(judgement.given))
    loss: Floats = -np.log(np.maximum(judgement.prediction[place, judgement.given], 1e-8))
    return loss


def rounded(values: Floats) -> Floats:
    """Six digits are enough."""
    return np.round(values.astype(np.float64), 6)


def as_objects(values: Sequence[str]) -> NDArray[Any]:
    """Texts as an array that holds each by reference: one long path does not widen all."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def cells(column: NDArray[Any]) -> list[Any]:
    """The column's values as Python's own; None where there is no number."""
    if column.dtype.kind == "f" and np.isnan(column).any():
        gap = np.isnan(column)
        column = column.astype(object)
        column[gap] = None
    values: list[Any] = column.tolist()
    return values


def as_csv(columns: Columns) -> bytes:
    """The columns with their header."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*map(cells, columns.values()), strict=True))
    return buffer.getvalue().encode()


def as_parquet(columns: Columns) -> bytes:
    """The same for programs, with types; needs pyarrow."""
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({name: pa.array(each, from_pandas=True) for name, each in columns.items()})
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    return buffer.getvalue()
