"""Scores of a judgement: how well it finds the wrong labels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.evaluation.prediction_scores import mean
from ulc.evaluation.ranking import ranking
from ulc.labels.judgement import Judgement
from ulc.typing import Floats, Integers


def score_judgement(
    judgement: Judgement, true: Integers, small: NDArray[np.bool_], threshold: float
) -> dict[str, Any]:
    """Scores over all labels, and over labels of small and of large given classes.

    true: (N,) true labels; small: (K,) mask of the small classes
    """
    wrong = judgement.given != true
    in_small = small[judgement.given]
    return {
        **detection(judgement.clean_probability, wrong, threshold),
        "small": detection(judgement.clean_probability[in_small], wrong[in_small], threshold),
        "large": detection(judgement.clean_probability[~in_small], wrong[~in_small], threshold),
    }


def detection(clean: Floats, wrong: NDArray[np.bool_], threshold: float) -> dict[str, Any]:
    """AUC and average precision of finding wrong labels; precision and recall below the threshold.

    trusted_correct: share of the correct labels that is trusted

    A score that is not defined is None; if no label is wrong, all but `trusted_correct` are None.

    clean: (N,) clean probabilities; wrong: (N,) mask of the wrong labels
    """
    doubted = clean < threshold
    auc, average_precision = ranking(clean, wrong)
    return {
        "auc": auc,
        "average_precision": average_precision,
        "precision": mean(wrong[doubted]) if wrong.any() else None,
        "recall": mean(doubted[wrong]),
        "trusted_correct": mean(~doubted[~wrong]),
    }


def by_group(
    judgement: Judgement, weight_norms: Floats, small: NDArray[np.bool_]
) -> dict[str, Any]:
    """Mean uncertainties of labels and weight norms, of small and of large given classes.

    weight_norms: (K,) norm of each class's weights; small: (K,) mask of the small classes
    """
    in_small = small[judgement.given]
    groups = {"small": (in_small, small), "large": (~in_small, ~small)}
    return {
        name: {
            "epistemic": known_mean(judgement.epistemic[examples]),
            "aleatoric": known_mean(judgement.aleatoric[examples]),
            "weight_norm": mean(weight_norms[classes]),
        }
        for name, (examples, classes) in groups.items()
    }


def known_mean(values: Floats) -> float | None:
    """The mean; None if there are no values or some are NaN (not estimated)."""
    return None if len(values) == 0 or np.isnan(values).any() else float(values.mean())
