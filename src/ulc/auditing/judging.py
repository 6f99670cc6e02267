"""The judgement of an audit: a posterior for every label, from cross-fitted predictions of ULC+."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ulc.auditing.trainings import HeldOutRun
from ulc.data.prepare import Prepared
from ulc.labels.confusion import ConfusionModel
from ulc.labels.files import LabelFiles
from ulc.typing import Floats, Integers

THRESHOLD = 0.5  # a label with a lower score is more likely wrong than right
# a confusion model is fitted to at most max(2,000, 500,000 / K) rows
MOST_PROBABILITIES, FEWEST_ROWS = 500_000, 2_000
# The interval of the noise rate: from 0.8 · estimate − 1.5 points to 1.25 · estimate + 1.5 points.
# On development data it held the true rate in every setting.
BELOW, ABOVE, POINTS = 0.8, 1.25, 0.015


@dataclass(frozen=True)
class AuditJudgement:
    """The judgement of all labels, ready to be written.

    confusion: the confusion model behind the posterior, for predictions under the training prior
    frequency: (K,) the training prior: class frequencies of the corrected labels of learned rows
    """

    labels: LabelFiles
    confusion: ConfusionModel
    frequency: Floats

    @property
    def noise_rate(self) -> float:
        """Expected share of wrong labels: `noise_rate` in audit.json."""
        return float(1 - self.labels.judgement_with_verified.clean_probability.mean())

    @property
    def noise_interval(self) -> tuple[float, float]:
        """Where the true share of wrong labels is expected: `noise_interval` in audit.json."""
        rate = self.noise_rate
        return max(BELOW * rate - POINTS, 0.0), min(ABOVE * rate + POINTS, 1.0)


def judge_audit_labels(robust: HeldOutRun, prepared: Prepared) -> AuditJudgement:
    """Judge every label by a network of ULC+ that has not learned it.

    For the rows that ULC+ learned, this is a network that was trained on the other folds; its
    predictions are under the training prior already. Held-out rows are predicted by the model,
    which learned balanced classes, so its predictions are converted to that prior. The confusion
    model is fitted to the learned rows (`fit_rows`: noise that depends on the row) and judges all.
    """
    judgement = robust.folder.judgement
    frequency = judgement.select(prepared.learned).class_prior
    prediction = judgement.prediction.copy()
    if prepared.held_out is not None:
        prediction[prepared.held_out.positions] = robust.under_prior(frequency)
    certain = find_certain(judgement.clean_probability, prepared)
    learned = prepared.learned
    confusion = fit_confusion(prediction[learned], judgement.given[learned], certain[learned])
    posterior = confusion.posterior(prediction, judgement.given)
    posterior[certain] = np.eye(posterior.shape[1], dtype=posterior.dtype)[judgement.given[certain]]
    labels = LabelFiles(
        replace(judgement, prediction=prediction).with_posterior(posterior),
        prepared.class_names,
        THRESHOLD,
        prepared.ids,
        prepared.verified,
        prepared.all_rows.comparable(),
        prepared.nearly_empty,
        odd_rows=True,
    )
    return AuditJudgement(labels, confusion, frequency)


def find_certain(clean_probability: Floats, prepared: Prepared) -> NDArray[np.bool_]:
    """(N,) labels that are not judged: verified ones, and those of which ULC+ is certain.

    ULC+ is certain of a class that only one of its folds has, which no network could judge. It
    marks such labels with a clean probability of exactly 1. A probability that is rounded to 1
    counts as certain, too; this label would be judged right anyway.
    """
    certain = clean_probability == 1
    return certain if prepared.verified is None else certain | prepared.verified


def fit_confusion(
    probability: Floats, given: Integers, certain: NDArray[np.bool_]
) -> ConfusionModel:
    """A confusion model fitted to the rows, or to a random sample where there are many."""
    most = max(FEWEST_ROWS, MOST_PROBABILITIES // probability.shape[1])
    rows: slice | Integers = slice(None)
    if len(given) > most:
        rows = np.random.default_rng(0).choice(len(given), most, replace=False)
    return ConfusionModel.fit_rows(probability[rows], given[rows], certain[rows])


def for_model(confusion: ConfusionModel, frequency: Floats, learned: Floats) -> ConfusionModel:
    """The same confusion model, for predictions under the prior `learned` of the model.

    with_prior multiplies predictions by frequency / learned; the factors a do the same after the
    temperature: a_k · (frequency_k / learned_k)^(1/T).
    """
    ratio = np.maximum(frequency, 1e-6) / np.maximum(learned, 1e-6)
    factor = np.array(confusion.factor) * ratio ** (1 / confusion.temperature)
    return confusion.model_copy(update={"factor": tuple((factor / factor.mean()).tolist())})
