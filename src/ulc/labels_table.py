"""The table of labels: what a run thinks of each, most suspicious first."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ulc.judgement import Floats, Judgement

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS = (
    "id", "is_label_issue", "label_score", "given_label", "predicted_label", "suggested_label",
    "epistemic", "aleatoric", "loss",
)  # fmt: skip


def label_rows(
    judgement: Judgement,
    class_names: Sequence[str],
    threshold: float,
    ids: Sequence[str] | None = None,
) -> Iterator[dict[str, Any]]:
    """A row for each label, in order of suspicion.

    `id` is what the source calls the row, or else its position in the training data.
    """
    suggested = judgement.suggested
    issue = issues(judgement, threshold)
    predicted = judgement.prediction.argmax(1)
    loss = losses(judgement)
    for i in np.lexsort((judgement.clean_probability, ~issue)):
        yield {
            "id": int(i) if ids is None else ids[i],
            "is_label_issue": bool(issue[i]),
            "label_score": number(judgement.clean_probability[i]),
            "given_label": class_names[judgement.given[i]],
            "predicted_label": class_names[predicted[i]],
            "suggested_label": class_names[suggested[i]],
            "epistemic": number(judgement.epistemic[i]),
            "aleatoric": number(judgement.aleatoric[i]),
            "loss": number(loss[i]),
        }


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


def issues(judgement: Judgement, threshold: float) -> NDArray[np.bool_]:
    """(N,) labels that are not trusted while another class is suggested."""
    return ~judgement.trusted(threshold) & (judgement.suggested != judgement.given)


def losses(judgement: Judgement) -> Floats:
    """(N,) −log of the probability that is predicted for the given label."""
    place = np.arange(len(judgement.given))
    loss: Floats = -np.log(np.maximum(judgement.prediction[place, judgement.given], 1e-8))
    return loss


def number(value: float) -> float | None:
    """Six digits are enough; None where there is no number."""
    return None if np.isnan(value) else round(float(value), 6)


def as_csv(rows: Iterator[dict[str, Any]]) -> str:
    """The rows with their header."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()
