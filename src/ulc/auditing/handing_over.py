"""Which model an audit hands over: ULC's, or a plain one that learned from all rows."""

from dataclasses import dataclass

import numpy as np

from ulc.auditing.out_of_fold import OutOfFold
from ulc.auditing.workspace import HeldOutRun, Workspace
from ulc.data.prepare import Prepared
from ulc.labels.confusion import ConfusionModel
from ulc.storage.run_folder import RunFolder
from ulc.typing import Floats, Integers

ONE_SIDED_95 = 1.64  # standard errors that chance exceeds in 5 % of cases
SOME_NOISE = 0.1  # above this noise rate ULC need not win, only not lose


@dataclass(frozen=True)
class HandedOver:
    """The model that is handed over.

    run: its training; reason: which model it is and why, for people
    confusion: fitted to predictions of such a model for rows that it did not learn from
    """

    run: RunFolder
    reason: str
    confusion: ConfusionModel


def hand_over_ulc(ulc: HeldOutRun) -> HandedOver:
    """ULC's model, with a confusion model fitted to its predictions for the held-out rows."""
    return HandedOver(ulc.folder, "ULC's model", ConfusionModel.fit(ulc.probability, ulc.given))


def hand_over_plain(
    workspace: Workspace, plain: HeldOutRun, out_of_fold: OutOfFold, prepared: Prepared
) -> HandedOver:
    """A plain model that is trained again on all rows, held-out ones included, for all epochs.

    So a user who does not need ULC gets what plain training gives.
    """
    spec = plain.folder.spec.model_copy(update={"held_out": 0.0})
    run = workspace.train("plain training on all rows", spec, prepared.with_all_rows())
    reason = "the plain model, trained again on all rows, as ULC's is not clearly better"
    return HandedOver(run, reason, out_of_fold.confusion)


def is_better(ulc: HeldOutRun, plain: HeldOutRun, noise_rate: float) -> bool:
    """Whether ULC predicts the held-out labels better than plain training.

    Both predict the same rows, so the test is paired: it counts rows that only one of them
    predicts. With little noise ULC must win significantly (5 %, one-sided), and in the mean over
    classes too. With much noise a draw is enough, because plain training then learns wrong labels;
    in the mean over classes ULC may lose by one standard error.
    """
    won = ulc.hits & ~plain.hits
    lost = plain.hits & ~ulc.hits
    lead, error = int(won.sum() - lost.sum()), np.sqrt((won | lost).sum())
    balanced_lead = mean_over_classes(won.astype(float) - lost, ulc.given)
    balanced_error = np.sqrt(mean_over_classes((won | lost).astype(float), ulc.given, power=2))
    if noise_rate >= SOME_NOISE:
        return bool(lead >= 0 and balanced_lead >= -balanced_error)
    return bool(lead > ONE_SIDED_95 * error and balanced_lead > 0)


def mean_over_classes(values: Floats, given: Integers, power: int = 1) -> float:
    """Mean over the K classes of their means; with power 2, Σ_k (sum_k / n_k²) / K²."""
    sizes = np.bincount(given)
    sums = np.bincount(given, weights=values)
    present = sizes > 0
    return float((sums[present] / sizes[present] ** power).sum() / present.sum() ** power)
