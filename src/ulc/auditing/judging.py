"""The judgement of an audit: a posterior for every label, from out-of-fold and ULC predictions."""

from dataclasses import dataclass, replace

import numpy as np

from ulc.auditing.out_of_fold import OutOfFold, fit_confusion
from ulc.auditing.trainings import HeldOutRun
from ulc.data.prepare import Prepared
from ulc.labels.confusion import ConfusionModel
from ulc.labels.files import LabelFiles
from ulc.labels.judgement import Judgement
from ulc.typing import Floats, Integers

THRESHOLD = 0.5  # a label with a lower score is more likely wrong than right
MEMORISED_SHARE = 0.75  # of the labels that ULC would miss if they were held out
SMALL_GAP = 0.05  # between learned and held-out labels: no sign of memorising


@dataclass(frozen=True)
class AuditJudgement:
    """The judgement of all labels, ready to be written.

    confusion: the confusion model behind the posterior
    judged_by: whose predictions the posterior is based on
    """

    labels: LabelFiles
    confusion: ConfusionModel
    judged_by: str

    @property
    def noise_rate(self) -> float:
        """Expected share of wrong labels: `noise_rate` in audit.json."""
        return float(1 - self.labels.judgement_with_verified.clean_probability.mean())


def judge_audit_labels(
    out_of_fold: OutOfFold, ulc: HeldOutRun, prepared: Prepared
) -> AuditJudgement:
    """Judge every label by the geometric mean of the out-of-fold and ULC's predictions.

    ULC is robust but in-sample (except on held-out rows); the plain models are out-of-sample but
    not robust. If ULC has memorised its labels, the out-of-fold predictions decide alone.
    """
    judgement = ulc.folder.judgement
    if has_memorised(judgement, prepared.learned, ulc):
        judged_by, prediction = "plain training", out_of_fold.probability
        confusion = out_of_fold.confusion
    else:
        judged_by = "plain training and ULC"
        prediction = geometric_mean(out_of_fold.probability, judgement.prediction)
        confusion = fit_confusion(prediction, judgement.given)
    posterior = confusion.posterior(prediction, judgement.given)
    labels = LabelFiles(
        replace(judgement, prediction=prediction).with_posterior(posterior),
        prepared.class_names,
        THRESHOLD,
        prepared.ids,
        prepared.verified,
        prepared.all_rows.stored.cpu().numpy(),
        prepared.nearly_empty,
        odd_rows=True,
    )
    return AuditJudgement(labels, confusion, judged_by)


def has_memorised(judgement: Judgement, learned: Integers, ulc: HeldOutRun) -> bool:
    """Whether ULC predicts the labels it learned from much more often than the held-out ones.

    With agreement a on held-out and s on learned rows: s − a > 0.75·(1 − a) and s − a > 0.05.
    """
    hits = judgement.prediction[learned].argmax(1) == judgement.given[learned]
    gap = hits.mean() - ulc.agreement
    return bool(gap > max(MEMORISED_SHARE * (1 - ulc.agreement), SMALL_GAP))


def geometric_mean(first: Floats, second: Floats) -> Floats:
    """(N, K) geometric mean of two predictions, normalised."""
    mean = np.sqrt(np.maximum(first, 1e-12) * np.maximum(second, 1e-12))
    return mean / mean.sum(1, keepdims=True)
