"""Small arrays that tests store as a user would."""

import numpy as np


def embeddings(count=90, classes=3, features=4):
    """Classes that are easy to tell apart."""
    rng = np.random.default_rng(0)
    labels = np.tile(np.arange(classes), count // classes)
    vectors = rng.normal(size=(len(labels), features)) + 3 * np.eye(classes, features)[labels]
    return {"X": vectors, "y": labels, "X_test": vectors, "y_test": labels}


LABEL_COLUMNS = [
    "id", "is_label_issue", "label_score", "score_kind", "given_label", "predicted_label",
    "suggested_label", "epistemic", "aleatoric", "loss",
]  # fmt: skip
