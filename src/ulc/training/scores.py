"""Score every epoch of a run against the truth, and summarise the run."""

from typing import Any

import numpy as np

from ulc.algorithms.base import Algorithm
from ulc.data.preprocessing import Preprocessing
from ulc.data.truth import Truth
from ulc.evaluation.judgement_scores import by_group, score_judgement
from ulc.evaluation.prediction_scores import score_predictions
from ulc.labels.health import collapsed, count_predicted
from ulc.labels.prior import with_prior
from ulc.storage.run_folder import Records, RunFolder
from ulc.training.inference import predict_stored
from ulc.training.loop import Epoch, Observer
from ulc.typing import Floats


class EpochScores(Observer):
    """Records scores of predictions (with a test set) and of the judgement (with true labels).

    `collapsed` has the numbers of the classes that are hardly ever predicted on the training rows;
    it needs no truth.

    every: every how many epochs; the last epoch always has scores
    """

    def __init__(self, truth: Truth, preprocessing: Preprocessing, *, every: int = 1) -> None:
        self.truth = truth
        self.preprocessing = preprocessing
        self.every = every

    def on_epoch(self, epoch: Epoch) -> None:
        """Add the scores to the record of the epoch."""
        if (epoch.record["epoch"] + 1) % self.every and not epoch.is_last:
            return
        algorithm, judgement, small = epoch.algorithm, epoch.judgement, self.truth.small
        prior = algorithm.learned_prior(judgement)
        epoch.record["prior"] = prior.tolist()
        if self.truth.test is not None:
            epoch.record["test"] = score_test(algorithm, self.truth, self.preprocessing, prior)
        if self.truth.train is not None:
            epoch.record["labels"] = score_judgement(
                judgement, self.truth.train, small, algorithm.threshold
            )
        epoch.record["groups"] = by_group(judgement, algorithm.class_measures(), small)
        sizes = np.bincount(judgement.given, minlength=judgement.prediction.shape[1])
        hardly = collapsed(sizes, count_predicted(judgement))
        epoch.record["collapsed"] = np.flatnonzero(hardly).tolist()


def score_test(
    algorithm: Algorithm, truth: Truth, preprocessing: Preprocessing, prior: Floats
) -> dict[str, dict[str, Any]]:
    """Scores on the test set by prior, with the networks as they are; empty: no test set.

    prior: (K,) class frequencies that the predictions assume
    """
    if truth.test is None:
        return {}
    probability = predict_stored(algorithm, truth.test.stored, preprocessing)
    return {
        name: score_predictions(
            with_prior(probability, prior, name), truth.test.labels, truth.small
        )
        for name in ("training", "balanced")
    }


class WarmUpRecorder(Observer):
    """Writes after_warmup.npz: each label after the warm-up, beside its true label.

    given, true: (N,) labels; loss: (N,) loss of the given label
    epistemic: (N,) epistemic uncertainty; NaN: not estimated
    clean_probability: (N,) probability that the given label is right

    Nothing is written if the true labels are unknown or the algorithm has no warm-up.

    warm_up: number of epochs of the warm-up; None: the algorithm has none
    """

    def __init__(self, truth: Truth, folder: RunFolder, warm_up: int | None) -> None:
        self.truth = truth
        self.folder = folder
        self.warm_up = warm_up

    def on_epoch(self, epoch: Epoch) -> None:
        """Write the file after the last epoch of the warm-up.

        ULC measures losses and uncertainty at the start of an epoch, before it learns. So its
        judgement after the next epoch is that of the networks after the warm-up, and replaces the
        first one, which has no uncertainty.
        """
        true, number = self.truth.train, epoch.record["epoch"]
        if true is None or self.warm_up is None or number not in (self.warm_up - 1, self.warm_up):
            return
        judgement = epoch.judgement  # predicts all rows, so only where it is needed
        if number == self.warm_up and judgement.score_kind != "omega":
            return
        content = {
            "given": judgement.given.astype(np.int32),
            "true": true.astype(np.int32),
            "loss": judgement.loss.astype(np.float32),
            "epistemic": judgement.epistemic.astype(np.float32),
            "clean_probability": judgement.clean_probability.astype(np.float32),
        }
        self.folder.write_arrays("after_warmup.npz", content)


def summarise(records: Records, epochs: int) -> dict[str, Any]:
    """Test scores and scores of the labels of a run; without test set or true labels, none of them.

    Only epochs that have scores count.

    best_on_test: the highest test accuracy, which is optimistic because the test set chooses it
    last: means over the last min(10, epochs // 5) epochs, at least one

    epochs: number of epochs of the run
    """
    window = max(1, min(10, epochs // 5))
    summary: dict[str, Any] = {"epochs": epochs, "last_epochs": window}
    last = records[-window:]
    tested = [place for place, record in enumerate(records) if "test" in record]
    for prior in ("training", "balanced") if tested else ():
        accuracies = [records[place]["test"][prior]["accuracy"] for place in tested]
        best = int(np.argmax(accuracies))
        summary[prior] = {
            "best_on_test": accuracies[best],
            "best_epoch_on_test": tested[best],
            "last": mean_over([record["test"][prior] for record in last if "test" in record]),
        }
    if records and "labels" in records[-1]:
        summary["labels"] = mean_over([record["labels"] for record in last if "labels" in record])
    return summary


def mean_over(records: Records) -> dict[str, Any]:
    """The mean of each number over several records of the same shape."""
    return {name: mean_value([record[name] for record in records]) for name in records[0]}


def mean_value(values: list[Any]) -> Any:
    """Mean of numbers, of lists by position, or of records by name; None if any value is None."""
    if any(value is None for value in values):
        return None
    if isinstance(values[0], dict):
        return mean_over(values)
    if isinstance(values[0], list):
        return [mean_value(list(column)) for column in zip(*values, strict=True)]
    return float(np.mean(values))
