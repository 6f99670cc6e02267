"""The judgement of an audit: a posterior for every label, from predictions that never saw it."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from ulc.auditing.paired import is_significantly_negative
from ulc.auditing.trainings import HeldOutRun
from ulc.blocks.label_posterior import AnchoredConfusion
from ulc.blocks.noise_priors import Priors
from ulc.data.prepare import Prepared
from ulc.labels.confusion import ConfusionModel, pieces
from ulc.labels.files import LabelFiles
from ulc.labels.second_judge import judge_by_kernel, pool
from ulc.typing import Floats, Integers

THRESHOLD = 0.5  # a label with a lower score is more likely wrong than right
# a confusion model is fitted to at most max(2,000, 500,000 / K) rows
MOST_PROBABILITIES, FEWEST_ROWS = 500_000, 2_000
# The interval of the noise rate: from 0.8 · estimate − 1.5 points to 1.25 · estimate + 1.5 points.
# On development data it held the true rate in every setting.
BELOW, ABOVE, POINTS = 0.8, 1.25, 0.015
# An audit wants a calibrated score; weights of ULC+ only have to keep right labels, so its priors
# (`priors_of_networks`) are tighter.
ONE_JUDGE = Priors()
# Pooled predictions of two judges (labels/second_judge.py) are better, so less of the difficulty is
# theirs. A lower temperature would explain more of it by wrong labels.
TWO_JUDGES = Priors(slope=3e-5, affinity=0.04, low_temperature=0.6, reluctance=0.02)
ENOUGH_ROWS = 3_000  # of fewer rows, even two judges have the priors of one


@dataclass(frozen=True)
class AuditJudgement:
    """The judgement of all labels, ready to be written.

    confusion: the confusion model behind the posterior, for predictions under the training prior
    network_confusion: the same for the predictions of ULC+ alone; equal if there is one judge
    frequency: (K,) the training prior: class frequencies of the corrected labels of learned rows
    """

    labels: LabelFiles
    confusion: ConfusionModel
    network_confusion: ConfusionModel
    frequency: Floats

    @property
    def noise_rate(self) -> float:
        """Expected share of wrong labels: `noise_rate` in audit.json."""
        return float(1 - self.labels.judgement.clean_probability.mean())

    @property
    def noise_interval(self) -> tuple[float, float]:
        """Where the true share of wrong labels is expected: `noise_interval` in audit.json."""
        rate = self.noise_rate
        return max(BELOW * rate - POINTS, 0.0), min(ABOVE * rate + POINTS, 1.0)


def judge_audit_labels(robust: HeldOutRun, prepared: Prepared) -> AuditJudgement:
    """Judge every label by a network of ULC+ that has not learned it, and by a second judge.

    For the rows that ULC+ learned, this is a network that was trained on the other folds; its
    predictions are under the training prior already. Held-out rows are predicted by the model,
    which learned balanced classes, so its predictions are converted to that prior. The second judge
    (labels/second_judge.py) is for vectors; it counts unless ULC+ alone is
    significantly better at explaining the labels.
    The confusion model is fitted to the learned rows (noise that depends on the row) and judges
    all.
    """
    judgement = robust.folder.judgement
    frequency = judgement.class_prior_among(prepared.learned)
    certain = find_certain(judgement.clean_probability, prepared)
    judgement = replace(judgement, posterior=None)  # N × K numbers that are not needed any more
    if prepared.held_out is not None:
        judgement.prediction[prepared.held_out.positions] = robust.under_prior(frequency)
    rows = Rows(judgement.given, prepared.learned, certain)
    judges, vectors = Judges.fit(judgement.prediction, rows, ONE_JUDGE), is_vectors(prepared)
    network_confusion = judges.confusion
    if vectors:
        judges = judges.with_second(prepared, rows)
    # From here on, the predictions of those who do not judge are not in memory any more.
    judgement = replace(judgement, prediction=judges.prediction)
    posterior = judges.confusion.posterior(judges.prediction, judgement.given)
    judgement = judgement.with_posterior(posterior)
    judgement.set_clean(certain, 1)
    judgement.settle(THRESHOLD, prepared.verified, prepared.nearly_empty)
    labels = LabelFiles(
        judgement,
        prepared.class_names,
        THRESHOLD,
        prepared.ids,
        prepared.verified,
        prepared.all_rows.comparable(),
        prepared.nearly_empty,
        odd_rows=vectors,
    )
    return AuditJudgement(labels, judges.confusion, network_confusion, frequency)


def is_vectors(prepared: Prepared) -> bool:
    """Whether the inputs are vectors; else they are images."""
    return len(prepared.all_rows.preprocessing.shape) == 1


@dataclass(frozen=True)
class Rows:
    """What is known of the N rows without any prediction.

    given: (N,) labels as they came; certain: (N,) mask of the labels that are not judged
    learned: (M,) positions of the rows that ULC+ learned
    """

    given: Integers
    learned: Integers
    certain: NDArray[np.bool_]


@dataclass(frozen=True)
class Judges:
    """(N, K) predictions of all rows, and the confusion model that is fitted to them.

    log_likelihood: (M,) of the given labels of the learned rows, log P(given | x)
    """

    prediction: Floats
    confusion: ConfusionModel
    log_likelihood: Floats

    @classmethod
    def fit(cls, prediction: Floats, rows: Rows, priors: Priors) -> Self:
        """Fit the confusion model to the learned rows; they are copied in pieces."""
        confusion = fit_confusion(prediction, rows, priors)
        learned, classes = rows.learned, prediction.shape[1]
        parts = [learned[piece] for piece in pieces(len(learned), classes)]
        logs = [confusion.log_likelihood(prediction[part], rows.given[part]) for part in parts]
        return cls(prediction, confusion, np.concatenate(logs))

    def with_second(self, prepared: Prepared, rows: Rows) -> Self:
        """These judges and the second one, unless these are significantly better alone."""
        said = judge_rows_by_kernel(prepared, rows.given, self.prediction.shape[1])
        priors = TWO_JUDGES if len(rows.learned) >= ENOUGH_ROWS else ONE_JUDGE
        both = self.fit(pool(self.prediction, said), rows, priors)
        worse = is_significantly_negative(both.log_likelihood - self.log_likelihood)
        return self if worse else both


def judge_rows_by_kernel(prepared: Prepared, given: Integers, classes: int) -> Floats:
    """(N, K) log-probabilities by the second judge, which has learned all labels but the own."""
    rows = prepared.all_rows
    return judge_by_kernel(rows.comparable(), given, classes, rows.first_copy.cpu().numpy())


def find_certain(clean_probability: Floats, prepared: Prepared) -> NDArray[np.bool_]:
    """(N,) labels that are not judged: verified ones, and those of which ULC+ is certain.

    ULC+ is certain of a class that only one of its folds has, which no network could judge. It
    marks such labels with a clean probability of exactly 1. A probability that is rounded to 1
    counts as certain, too; this label would be judged right anyway.
    """
    certain = clean_probability == 1
    return certain if prepared.verified is None else certain | prepared.verified


def fit_confusion(probability: Floats, rows: Rows, priors: Priors) -> ConfusionModel:
    """A confusion model fitted to the learned rows, or to a random sample where there are many."""
    classes, chosen = probability.shape[1], rows.learned
    most = max(FEWEST_ROWS, MOST_PROBABILITIES // classes)
    if len(chosen) > most:
        chosen = np.random.default_rng(0).choice(chosen, most, replace=False)
    logs = np.log(np.maximum(probability[chosen], 1e-30, dtype=np.float64))
    confusion = AnchoredConfusion(classes, torch.device("cpu"), priors=priors, dtype=torch.float64)
    known = (rows.given[chosen], rows.certain[chosen])
    confusion.update(*map(torch.from_numpy, (logs, *known)))
    return confusion.stored()


def for_model(confusion: ConfusionModel, frequency: Floats, learned: Floats) -> ConfusionModel:
    """The same confusion model, for predictions under the prior `learned` of the model.

    with_prior multiplies predictions by frequency / learned; the factors a do the same after the
    temperature: a_k · (frequency_k / learned_k)^(1/T).
    """
    ratio = np.maximum(frequency, 1e-6) / np.maximum(learned, 1e-6)
    factor = np.array(confusion.factor) * ratio ** (1 / confusion.temperature)
    return confusion.model_copy(update={"factor": tuple((factor / factor.mean()).tolist())})
