"""The table of labels: what a run thinks of each, most suspicious first."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ulc.judgement import Judgement

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

    A label is an issue where it is not trusted and another class is suggested.
    """
    suggested = judgement.suggested
    issue = ~judgement.trusted(threshold) & (suggested != judgement.given)
    predicted = judgement.prediction.argmax(1)
    place = np.arange(len(judgement.given))
    loss = -np.log(np.maximum(judgement.prediction[place, judgement.given], 1e-8))
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
