"""Score flags and label scores, and models, against the true labels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from benchmarks.comparison.settings import Cut
from ulc.evaluation.prediction_scores import calibration_error, mean, score_predictions
from ulc.labels.prior import with_prior
from ulc.typing import Floats

Flags = NDArray[np.bool_]


def score_finding(cut: Cut, label_score: Floats, flagged: Flags) -> dict[str, Any]:
    """Score all labels, and labels whose given class is small or large."""
    wrong = cut.given != cut.true
    in_small = cut.small[cut.given]
    return {
        **finding(label_score, flagged, wrong),
        "small": finding(label_score[in_small], flagged[in_small], wrong[in_small]),
        "large": finding(label_score[~in_small], flagged[~in_small], wrong[~in_small]),
    }


def finding(label_score: Floats, flagged: Flags, wrong: Flags) -> dict[str, float | None]:
    """Score (N,) label scores and flags; a low `label_score` is suspicious.

    If no label is wrong, precision, recall, AUC and AP are not defined.
    """
    some = bool(wrong.any())
    both = some and not bool(wrong.all())
    return {
        "wrong": mean(wrong),
        "expected_wrong": mean(1 - label_score),
        "calibration_error": calibration_error(label_score, ~wrong) if len(wrong) else None,
        "auc": float(roc_auc_score(wrong, -label_score)) if both else None,
        "average_precision": float(average_precision_score(wrong, -label_score)) if both else None,
        "precision": mean(wrong[flagged]) if some else None,
        "recall": mean(flagged[wrong]),
        "flagged": mean(flagged),
        "correct_flagged": mean(flagged[~wrong]),
    }


def score_model(cut: Cut, probability: Floats, learned: Floats) -> dict[str, Any]:
    """Score (N, K) test probabilities under the training prior and the balanced prior.

    learned: (K,) class frequencies of the model's training
    """
    return {
        "training": accuracies(cut, probability),
        "balanced": accuracies(cut, with_prior(probability, learned, "balanced")),
    }


def accuracies(cut: Cut, probability: Floats) -> dict[str, Any]:
    """Return the accuracy over all classes, small classes and large classes."""
    scores = score_predictions(probability, cut.test_labels, cut.small)
    return {name: scores[name] for name in ("accuracy", "small_accuracy", "large_accuracy")}
