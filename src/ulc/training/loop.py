"""The one loop: train, score, record, keep."""

import copy
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ulc.algorithms.base import Algorithm, array
from ulc.blocks.averages import Averages
from ulc.blocks.learner import evaluating
from ulc.data.preprocessing import Preprocessing
from ulc.data.truth import TestSet, Truth
from ulc.errors import InputError
from ulc.evaluation.judgement_scores import by_group, score_judgement
from ulc.evaluation.prediction_scores import score_predictions
from ulc.labels.judgement import Judgement
from ulc.labels.prior import with_prior
from ulc.storage.run_folder import Records, RunFolder
from ulc.training import checkpoint
from ulc.training.checkpoint import Kept
from ulc.training.collapse import CollapseMonitor
from ulc.typing import Floats

DIVERGED = "the training diverged; lower the learning rate (--set sgd.lr=… or adam.lr=…)"
SAVE_EVERY = 30.0  # seconds between checkpoints: a kill loses no more than this


class TrainingProgress:
    """Told what happens; this one does not listen."""

    def on_read(self, done: int, total: int) -> None:
        """While images are read."""

    def on_step(self, epoch: int, seen: Averages) -> None:
        """After each step of an epoch."""

    def on_epoch(self, record: dict[str, Any]) -> None:
        """After each epoch."""


class Training:
    """An algorithm on its way through the epochs of a run.

    monitor: where rows are held out; the state it would keep is then the one that is handed over
    """

    def __init__(
        self,
        algorithm: Algorithm,
        truth: Truth,
        preprocessing: Preprocessing,
        folder: RunFolder,
        monitor: CollapseMonitor | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.truth = truth
        self.preprocessing = preprocessing
        self.folder = folder
        self.monitor = monitor
        self.kept: Kept | None = None

    def run(
        self, epochs: int, progress: TrainingProgress, save_every: float = SAVE_EVERY
    ) -> Judgement:
        """Train to `epochs`, going on from where the folder stopped; return the judgement.

        It is that of the last epoch or, where rows are held out, of the epoch that is kept.
        """
        start, self.kept = checkpoint.restore(self.algorithm, self.folder)
        records: Records = self.folder.records[:start] if start else []
        for record in records:
            progress.on_epoch(record)
        saved = time.monotonic()
        for epoch in range(start, epochs):
            record = self.epoch(epoch, progress)
            records.append(record)
            self.keep(records)
            if epoch + 1 == epochs or time.monotonic() - saved >= save_every:
                self.folder.write_records(records)
                checkpoint.save(self.algorithm, epoch, self.folder, self.kept)
                saved = time.monotonic()
            progress.on_epoch(record)
        if self.kept is not None:
            self.algorithm.load_state_dict(self.kept.state)
        return self.algorithm.judge()

    def keep(self, records: Records) -> None:
        """Keep this epoch's state if the monitor says so; note signs of collapse otherwise."""
        if self.monitor is None:
            return
        signs = self.monitor.signs(records[self.monitor.first :])
        if signs:
            records[-1]["held_out"]["signs"] = signs
        if self.monitor.keeps(records) or self.kept is None or self.kept.epoch < self.monitor.first:
            state = copy.deepcopy(self.algorithm.state_dict())
            self.kept = Kept(records[-1]["epoch"], state)

    def epoch(self, epoch: int, progress: TrainingProgress) -> dict[str, Any]:
        """Train one epoch and score it."""
        began = time.perf_counter()
        self.algorithm.on_step = step_reporter(epoch, progress)
        learned = self.algorithm.run_epoch(epoch)
        self.algorithm.on_step = None
        broken = [name for name, value in learned.items() if not np.isfinite(value)]
        if broken:
            raise InputError(f"epoch {epoch}: {broken[0]} is {learned[broken[0]]}: {DIVERGED}")
        trained = time.perf_counter()
        judgement = self.algorithm.judge()
        if not np.isfinite(judgement.prediction).all():
            raise InputError(f"epoch {epoch}: predictions are not finite: {DIVERGED}")
        scores = self.score(judgement)
        if self.monitor is not None:
            scores["held_out"] = self.monitor.observe(self.algorithm, judgement)
        seconds = {"train": trained - began, "score": time.perf_counter() - trained}
        return {"epoch": epoch, "train": learned, **scores, "seconds": seconds}

    def score(self, judgement: Judgement) -> dict[str, Any]:
        """Everything that is recorded of an epoch beside the training's own values."""
        small = self.truth.small
        prior = judgement.class_prior
        record: dict[str, Any] = {"prior": prior.tolist()}
        if self.truth.test is not None:
            labels = self.truth.test.labels
            probability = self.predict(self.truth.test)
            record["test"] = {
                name: score_predictions(with_prior(probability, prior, name), labels, small)
                for name in ("training", "balanced")
            }
        if self.truth.train is not None:
            threshold = self.algorithm.threshold
            record["labels"] = score_judgement(judgement, self.truth.train, small, threshold)
        record["groups"] = by_group(judgement, self.algorithm.weight_norms(), small)
        return record

    @torch.no_grad()
    def predict(self, test: TestSet, size: int = 1024) -> Floats:
        """(N, K) probabilities of the test set, as trained."""
        with evaluating(self.algorithm):
            parts = [
                self.algorithm.predict_proba(self.preprocessing.ready(stored))
                for stored in test.stored.split(size)
            ]
        return array(torch.cat(parts))


def step_reporter(epoch: int, progress: TrainingProgress) -> Callable[[Averages], None]:
    """Pass the steps of one epoch on to the progress."""
    return lambda seen: progress.on_step(epoch, seen)


def summarise(records: Records, epochs: int) -> dict[str, Any]:
    """Best and last epochs of a run.

    best: the epoch with the highest test accuracy. It is chosen on the test set, so it is
    optimistic; last: mean over the last min(10, epochs // 5) epochs, at least one.
    """
    window = max(1, min(10, epochs // 5))
    summary: dict[str, Any] = {"epochs": epochs, "last_epochs": window}
    if records and "test" in records[0]:
        for prior in ("training", "balanced"):
            accuracies = [record["test"][prior]["accuracy"] for record in records]
            best = int(np.argmax(accuracies))
            summary[prior] = {
                "best_on_test": accuracies[best],
                "best_epoch_on_test": best,
                "last": mean_over([record["test"][prior] for record in records[-window:]]),
            }
    if records and "labels" in records[0]:
        summary["labels"] = mean_over([record["labels"] for record in records[-window:]])
    return summary


def mean_over(records: Records) -> dict[str, Any]:
    """The mean of each number over several records of the same shape."""
    return {name: mean_value([record[name] for record in records]) for name in records[0]}


def mean_value(values: list[Any]) -> Any:
    """Mean of numbers, of lists by position, of records by name; None where any is."""
    if any(value is None for value in values):
        return None
    if isinstance(values[0], dict):
        return mean_over(values)
    if isinstance(values[0], list):
        return [mean_value(list(column)) for column in zip(*values, strict=True)]
    return float(np.mean(values))
