"""Predictions as a table, one row for each row of the data, in the same order."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ulc.errors import InputError
from ulc.prediction.predictor import Predictions, name_classes
from ulc.storage.files import check_output_file, write_whole

if TYPE_CHECKING:
    from pandas import DataFrame

ENDINGS = (".csv", ".parquet")


def prediction_frame(found: Predictions, *, probabilities: bool = False) -> "DataFrame":
    """Return a frame of classes and uncertainties, and label scores if the data have labels.

    probabilities: add a column `probability_NAME` for each class
    """
    from pandas import DataFrame

    probability, unsure, rows = found.probability, found.uncertainty, found.rows
    count = len(probability)
    empty = np.full(count, np.nan, np.float32)
    columns: dict[str, Any] = {
        "id": np.arange(count) if rows.ids is None else np.array(rows.ids, object),
        "predicted_label": name_classes(probability.argmax(1), found.class_names),
        "confidence": probability.max(1),
        "epistemic": unsure.epistemic,
        "aleatoric": empty if unsure.aleatoric is None else unsure.aleatoric,
    }
    columns |= label_score_columns(found)
    if probabilities:
        columns |= {
            f"probability_{name}": probability[:, place]
            for place, name in enumerate(found.class_names)
        }
    return DataFrame(columns)


def label_score_columns(found: Predictions) -> dict[str, Any]:
    """Return columns as in `labels.csv`; a row without a label of the run's classes is empty."""
    from pandas import array

    if found.given is None or found.judgement is None:
        return {}
    judgement, known = found.judgement, found.given >= 0

    def fill_known(values: NDArray[Any] | str, empty: Any, kind: Any) -> NDArray[Any]:
        column = np.full(len(known), empty, kind)
        column[known] = values
        return column

    return {
        "is_label_issue": array(
            fill_known(judgement.issues(found.threshold), None, object), dtype="boolean"
        ),
        "label_score": fill_known(judgement.clean_probability, np.nan, np.float32),
        "score_kind": fill_known(judgement.score_kind, None, object),
        "given_label": np.array(found.rows.labels, object),
        "suggested_label": fill_known(
            name_classes(judgement.suggested, found.class_names), None, object
        ),
        "loss": fill_known(judgement.loss, np.nan, np.float32),
    }


def check_table_file(path: Path, data: str | None = None) -> None:
    """Raise an InputError if the table cannot be written, or would replace the file `data`."""
    inputs = {"the data": Path(data)} if data else {}
    check_output_file("--out", path, endings=ENDINGS, inputs=inputs)
    if path.suffix.lower() == ".parquet":
        check_parquet(path)


def check_parquet(path: Path) -> None:
    """Raise an InputError if pyarrow, which parquet needs, is missing."""
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise InputError(f"--out {path}: parquet needs pyarrow; pip install 'ulc[parquet]'")


def write_table(frame: "DataFrame", path: Path) -> None:
    """Write the frame atomically, as CSV or parquet."""
    if path.suffix.lower() == ".parquet":
        buffer = io.BytesIO()
        frame.to_parquet(buffer, engine="pyarrow", index=False)
        write_whole(path, buffer.getvalue())
    else:
        write_whole(path, frame_as_csv(frame).encode())


def frame_as_csv(frame: "DataFrame") -> str:
    """Return the frame as CSV with six significant digits."""
    text: str = frame.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    return text


def summarise_predictions(frame: "DataFrame") -> dict[str, Any]:
    """Count the rows of each predicted class, and scored, missing and unknown labels.

    agreement: share of the scored rows whose predicted label is the given label
    """
    content: dict[str, Any] = {
        "rows": len(frame),
        "predicted": frame["predicted_label"].value_counts().to_dict(),
    }
    if "label_score" in frame:
        scored = frame["label_score"].notna()
        agree = (frame["predicted_label"] == frame["given_label"])[scored]
        content["labels"] = {
            "scored": int(scored.sum()),
            "missing": int(frame["given_label"].isna().sum()),
            "unknown": int((frame["given_label"].notna() & ~scored).sum()),
            "issues": int(frame["is_label_issue"].sum()),
            "agreement": float(agree.mean()),
        }
    return content
