"""Scores of a judgement: how well it finds the wrong labels."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.evaluation.prediction_scores import calibration_error, mean
from ulc.evaluation.ranking import ranking
from ulc.labels.judgement import Judgement
from ulc.typing import Floats, Integers


def score_judgement(
    judgement: Judgement, true: Integers, small: NDArray[np.bool_], threshold: float
) -> dict[str, Any]:
    """Scores over all labels, and over labels of small and of large given classes.

    true: (N,) true labels; small: (K,) mask of the small classes
    """
    in_small = small[judgement.given]
    everywhere = np.ones_like(in_small)
    scores, of_small, of_large = (
        detection(judgement, true, rows, threshold) for rows in (everywhere, in_small, ~in_small)
    )
    return {**scores, "small": of_small, "large": of_large}


def detection(
    judgement: Judgement, true: Integers, rows: NDArray[np.bool_], threshold: float
) -> dict[str, Any]:
    """Scores of finding the wrong labels among the rows of an (N,) mask.

    auc, average_precision: of the ranking by clean probability
    precision, recall: of the labels below the threshold
    trusted_correct: share of the correct labels that is trusted
    calibration_error: mean over bins of |clean probability − share of correct labels|
    certainty_auc: AUC of the ranking by 1 − ε, where ε is the epistemic uncertainty

    A score that is not defined is None; if no label is wrong, all but `trusted_correct` and
    `calibration_error` are None.
    """
    clean, wrong = judgement.clean_probability[rows], (judgement.given != true)[rows]
    doubted = clean < threshold
    auc, average_precision = ranking(clean, wrong)
    certainty = 1 - judgement.epistemic[rows]
    return {
        "auc": auc,
        "average_precision": average_precision,
        "precision": mean(wrong[doubted]) if wrong.any() else None,
        "recall": mean(doubted[wrong]),
        "trusted_correct": mean(~doubted[~wrong]),
        "calibration_error": calibration_error(clean, ~wrong) if len(clean) else None,
        "certainty_auc": None if np.isnan(certainty).any() else ranking(certainty, wrong)[0],
    }


def by_group(
    judgement: Judgement, class_measures: Mapping[str, Floats], small: NDArray[np.bool_]
) -> dict[str, Any]:
    """Measures of small and of large given classes.

    epistemic, aleatoric: mean uncertainty of the labels
    aleatoric_spread: standard deviation of the aleatoric uncertainty over the labels
    others: mean of the (K,) values in `class_measures`, by name

    small: (K,) mask of the small classes
    """
    in_small = small[judgement.given]
    groups = {"small": (in_small, small), "large": (~in_small, ~small)}
    return {
        name: {
            "epistemic": known(np.mean, judgement.epistemic[examples]),
            "aleatoric": known(np.mean, judgement.aleatoric[examples]),
            "aleatoric_spread": known(np.std, judgement.aleatoric[examples]),
            **{measure: mean(values[classes]) for measure, values in class_measures.items()},
        }
        for name, (examples, classes) in groups.items()
    }


def known(statistic: Callable[[Floats], Any], values: Floats) -> float | None:
    """The statistic; None if there are no values or some are NaN (not estimated)."""
    return None if len(values) == 0 or np.isnan(values).any() else float(statistic(values))
