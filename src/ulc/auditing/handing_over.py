"""Which model an audit hands over: that of ULC+, or an early-stopped plain one."""

from dataclasses import dataclass

import numpy as np

from ulc.auditing.judging import AuditJudgement, for_model
from ulc.auditing.paired import is_significantly_negative
from ulc.auditing.trainings import HeldOutRun
from ulc.labels.confusion import ConfusionModel
from ulc.storage.run_folder import RunFolder
from ulc.typing import Floats, Integers


@dataclass(frozen=True)
class Comparison:
    """The comparison of both models on the held-out rows.

    robust_passes: whether the model of ULC+ is handed over; reason: why, as a sentence
    """

    robust_passes: bool
    reason: str


@dataclass(frozen=True)
class HandedOver:
    """The model that is handed over.

    run: its training; reason: which model it is and why, as a sentence
    confusion: the confusion model by which `ulc predict` scores labels (noise.json). For ULC+:
        fitted to its cross-fitted predictions, for the model's prior. For plain: fitted to its
        predictions for held-out rows.
    """

    run: RunFolder
    reason: str
    confusion: ConfusionModel


def compare_models(robust: HeldOutRun, plain: HeldOutRun, frequency: Floats) -> Comparison:
    """Whether ULC+ explains the held-out labels at least as well as plain training.

    Both models predict the same rows. Each row's measure is the log-likelihood of its given label
    under a confusion model that is fitted to the model's own predictions: a wrong label that a sure
    model does not predict costs it little. Without the confusion matrix, a model that has learned
    the noise would seem better. The tests are paired: ULC+ fails if it is significantly worse (5 %,
    one-sided) over all rows, or if it is not better over all rows and significantly worse in the
    mean over classes. The mean over classes alone does not decide: many labels of a small class
    are wrong, and a model that has learned the noise explains these better.

    frequency: (K,) class frequencies for the predictions of ULC+, which learns balanced classes
    """
    difference = own_log_likelihood(
        robust.under_prior(frequency), robust.given
    ) - own_log_likelihood(plain.probability, plain.given)
    if is_significantly_negative(difference):
        return Comparison(False, "it explains the held-out labels better than ULC+")
    no_better = difference.mean() <= 0
    if no_better and is_significantly_negative(difference, class_weights(robust.given)):
        reason = "it explains the held-out labels better than ULC+ in the mean over classes"
        return Comparison(False, reason)
    return Comparison(True, "it explains the held-out labels at least as well as plain training")


def own_log_likelihood(probability: Floats, given: Integers) -> Floats:
    """(V,) log-likelihood of given labels under a confusion model of these predictions.

    Held-out rows are few, so the simpler `fit` serves: one confusion matrix for all rows.
    """
    return ConfusionModel.fit(probability, given).log_likelihood(probability, given)


def class_weights(given: Integers) -> Floats:
    """(V,) weights of rows in the mean over the classes that occur; they sum to 1."""
    sizes = np.bincount(given)
    weights: Floats = 1 / (sizes[given] * (sizes > 0).sum())
    return weights


def hand_over_robust(
    robust: HeldOutRun, comparison: Comparison, judgement: AuditJudgement
) -> HandedOver:
    """The model of ULC+, with the confusion model of its own cross-fitted predictions."""
    confusion = for_model(judgement.network_confusion, judgement.frequency, robust.class_prior)
    return HandedOver(robust.folder, f"the model of ULC+, as {comparison.reason}", confusion)


def hand_over_plain(plain: HeldOutRun, comparison: Comparison) -> HandedOver:
    """The plain model of the epoch that early stopping kept."""
    confusion = ConfusionModel.fit(plain.probability, plain.given)
    reason = f"the plain model with early stopping, as {comparison.reason}"
    return HandedOver(plain.folder, reason, confusion)
