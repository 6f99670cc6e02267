"""Which model an audit hands over: ULC's, or a plain one that learned from all rows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ulc.auditing.trainings import HeldOutRun
from ulc.auditing.workspace import Workspace
from ulc.data.prepare import Prepared
from ulc.labels.confusion import ConfusionModel
from ulc.storage.run_folder import RunFolder
from ulc.typing import Floats, Integers

ONE_SIDED_95 = 1.64  # standard errors that chance exceeds in 5 % of cases
NOISE_FOR_DRAW = 0.1  # from this noise rate on, a draw is enough for ULC


@dataclass(frozen=True)
class Comparison:
    """The comparison of both models on the held-out rows.

    ulc_passes: whether ULC's model is handed over; reason: for people
    """

    ulc_passes: bool
    reason: str


@dataclass(frozen=True)
class HandedOver:
    """The model that is handed over.

    run: its training; reason: which model it is and why, for people
    confusion: the confusion model by which `ulc predict` scores labels (noise.json). For ULC:
        fitted to its predictions for held-out rows. For plain: fitted to the out-of-fold
        predictions, whose models may train for fewer epochs.
    """

    run: RunFolder
    reason: str
    confusion: ConfusionModel


def compare_models(ulc: HeldOutRun, plain: HeldOutRun, noise_rate: float) -> Comparison:
    """Whether ULC predicts the held-out labels well enough to be handed over.

    Both models predict the same rows, so the test is paired: it counts rows that only one of them
    predicts. Below 10 % noise ULC must win significantly (5 %, one-sided), and win in the mean over
    classes too. From 10 % noise on a draw is enough, because plain training then learns wrong
    labels; in the mean over classes ULC may lose by one standard error.
    """
    won = ulc.hits & ~plain.hits
    lost = plain.hits & ~ulc.hits
    differs = won | lost
    lead, error = int(won.sum() - lost.sum()), np.sqrt(differs.sum())
    balanced_lead = mean_over_classes(won.astype(float) - lost, ulc.given)
    balanced_error = np.sqrt(variance_of_class_mean(differs, ulc.given))
    if noise_rate >= NOISE_FOR_DRAW:
        if lead < 0:
            return Comparison(False, "ULC is worse on held-out rows")
        if balanced_lead < -balanced_error:
            return Comparison(False, "ULC is worse on held-out rows in the mean over classes")
        return Comparison(True, "it is at least as good on held-out rows")
    if lead <= ONE_SIDED_95 * error:
        return Comparison(False, "ULC is not significantly better")
    if balanced_lead <= 0:
        return Comparison(False, "ULC is not better in the mean over classes")
    return Comparison(True, "it is significantly better on held-out rows")


def hand_over_ulc(ulc: HeldOutRun, comparison: Comparison) -> HandedOver:
    """ULC's model, with a confusion model fitted to its predictions for the held-out rows."""
    reason = f"ULC's model, as {comparison.reason}"
    return HandedOver(ulc.folder, reason, ConfusionModel.fit(ulc.probability, ulc.given))


def hand_over_plain(
    workspace: Workspace,
    plain: HeldOutRun,
    comparison: Comparison,
    confusion: ConfusionModel,
    prepared: Prepared,
) -> HandedOver:
    """A plain model that is trained again on all rows, held-out ones included, for all epochs.

    So the model equals that of `ulc train` with algorithm ce and the same settings.

    confusion: fitted to the out-of-fold predictions
    """
    spec = plain.folder.spec.model_copy(update={"held_out": 0.0})
    run = workspace.train("plain training on all rows", spec, prepared.with_all_rows())
    reason = f"the plain model, trained again on all rows, as {comparison.reason}"
    return HandedOver(run, reason, confusion)


def mean_over_classes(values: Floats, given: Integers) -> float:
    """Mean over the classes that occur of the means of their values."""
    sizes = np.bincount(given)
    present = sizes > 0
    return float((np.bincount(given, values)[present] / sizes[present]).mean())


def variance_of_class_mean(differs: NDArray[np.bool_], given: Integers) -> float:
    """Variance of `mean_over_classes` of paired differences, if each is −1 or 1 by chance.

    With d_k of the n_k rows of class k differing: Σ_k (d_k / n_k²) / K².

    differs: (V,) rows whose difference is not 0
    """
    sizes = np.bincount(given)
    present = sizes > 0
    counts = np.bincount(given, differs)[present]
    return float((counts / sizes[present] ** 2).sum() / present.sum() ** 2)
