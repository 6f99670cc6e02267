"""Scores of predictions: accuracy and calibration."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.typing import Floats, Integers


def score_predictions(
    probability: Floats, labels: Integers, small: NDArray[np.bool_]
) -> dict[str, Any]:
    """Accuracy (all, by class, by class group) and calibration error of (N, K) probabilities.

    labels: (N,) true labels
    small: (K,) mask of the small classes; a row belongs to the group of its true label

    The accuracy of a group or class without rows is None.
    """
    right = probability.argmax(1) == labels
    per_class = [mean(right[labels == k]) for k in range(probability.shape[1])]
    known = [each for each in per_class if each is not None]
    in_small = small[labels]
    return {
        "accuracy": mean(right),
        "balanced_accuracy": mean(np.array(known)),
        "small_accuracy": mean(right[in_small]),
        "large_accuracy": mean(right[~in_small]),
        "calibration_error": calibration_error(probability.max(1), right),
        "per_class_accuracy": per_class,
    }


def calibration_error(confidence: Floats, right: NDArray[np.bool_], bins: int = 15) -> float:
    """Expected calibration error: mean over rows of |confidence − accuracy| of the row's bin.

    confidence: (N,) probability of the predicted class; right: (N,) whether it is the true class
    bins: number of bins, of equal width
    """
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    gap = np.bincount(place, weights=confidence - right, minlength=bins)
    return float(np.abs(gap).sum() / len(confidence))


def mean(values: NDArray[Any]) -> float | None:
    """The mean; None if there are no values."""
    return float(values.mean()) if len(values) else None
