"""How well a judgement finds the wrong labels."""

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
    """Scores over all labels and by group; a label's group is its given class's."""
    wrong = judgement.given != true
    in_small = small[judgement.given]
    return {
        **detection(judgement.clean_probability, wrong, threshold),
        "small": detection(judgement.clean_probability[in_small], wrong[in_small], threshold),
        "large": detection(judgement.clean_probability[~in_small], wrong[~in_small], threshold),
    }


def detection(clean: Floats, wrong: NDArray[np.bool_], threshold: float) -> dict[str, Any]:
    """Of wrong labels: AUC, average precision, and precision and recall of doubting below τ.

    `trusted_correct` is the share of correct labels that is trusted. Where no label is wrong
    there is nothing to find, so only that share is defined.
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
    """Mean uncertainties (by given class) and weight norms of small and large classes."""
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
    """The mean, or None where an algorithm has no such quantity."""
    return None if len(values) == 0 or np.isnan(values).any() else float(values.mean())
