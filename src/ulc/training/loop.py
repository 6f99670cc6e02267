"""The training loop of run folders, estimators and audits."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ulc.algorithms.base import Algorithm
from ulc.blocks.averages import Averages
from ulc.labels.judgement import Judgement
from ulc.storage.run_folder import Records
from ulc.training.device import memory_explained, reproducible
from ulc.training.divergence import StepCheck, check_values
from ulc.training.inference import judge_labels


class TrainingProgress:
    """Base class of progress callbacks of a training; every method does nothing."""

    def on_read(self, done: int, total: int) -> None:
        """Called while images are read, with the numbers of read images and of all images."""

    def on_note(self, note: str) -> None:
        """Called before training, with a sentence about the data or a warning."""

    def on_step(self, epoch: int, averages: Averages) -> None:
        """Called after each step of an epoch, with the running means of the epoch."""

    def on_epoch(self, record: dict[str, Any]) -> None:
        """Called after each epoch, with its record."""


@dataclass
class Epoch:
    """An epoch that has just been trained, as observers get it.

    records: records of all epochs so far; observers may add to the last one, that of this epoch
    trained_at: time when the training of this epoch ended, by `time.perf_counter`
    is_last: whether training ends here; an observer may set it
    """

    algorithm: Algorithm
    records: Records
    trained_at: float
    is_last: bool

    @property
    def record(self) -> dict[str, Any]:
        """The record of this epoch."""
        return self.records[-1]

    @cached_property
    def judgement(self) -> Judgement:
        """The algorithm's judgement after this epoch, computed at the first access."""
        return judge_labels(self.algorithm)

    def forget_judgement(self) -> None:
        """Let the judgement go, N × K numbers; another access computes it anew.

        With several processes, no observer may read it after one that only some of them have.
        """
        self.__dict__.pop("judgement", None)


class Observer:
    """Base class of observers of a training; every method does nothing."""

    def on_step(self, epoch: int, averages: Averages) -> None:
        """Called after each step of an epoch, with the running means of the epoch."""

    def on_epoch(self, epoch: Epoch) -> None:
        """Called after each epoch."""

    def on_end(self, algorithm: Algorithm) -> None:
        """Called after the last epoch."""


def train(
    algorithm: Algorithm,
    epochs: range,
    observers: Sequence[Observer] = (),
    records: Records | None = None,
) -> Records:
    """Train these epochs; return the records of all epochs.

    Observers are called in their order, so a later one sees what an earlier one recorded.

    records: records of earlier epochs, if the training is resumed; None: there are none
    """
    records = list(records or ())
    for number in epochs:
        began, processor = time.perf_counter(), time.process_time()
        check = StepCheck(number, algorithm.data)
        algorithm.on_step = step_callback(number, observers, check)
        with reproducible(algorithm.data.given.device), memory_explained():
            values = algorithm.run_epoch(number)
        algorithm.on_step = None
        check.look()
        check_values(values, number)
        ended = time.perf_counter()
        seconds = {"train": ended - began, "processor": time.process_time() - processor}
        records.append({"epoch": number, "train": values, "seconds": seconds})
        epoch = Epoch(algorithm, records, ended, is_last=number == epochs[-1])
        for observer in observers:
            observer.on_epoch(epoch)
        epoch.forget_judgement()
        if epoch.is_last:
            break
    for observer in observers:
        observer.on_end(algorithm)
    return records


def step_callback(
    epoch: int, observers: Sequence[Observer], check: StepCheck
) -> Callable[[Averages], None]:
    """A callback for `Algorithm.on_step` that calls `on_step` of the check and all observers."""

    def on_step(averages: Averages) -> None:
        check.on_step(averages)
        for observer in observers:
            observer.on_step(epoch, averages)

    return on_step


class ProgressReporter(Observer):
    """Calls a progress callback after each step and each epoch.

    first: number that is added to the epoch's number
    """

    def __init__(self, progress: TrainingProgress, first: int = 0) -> None:
        self.progress = progress
        self.first = first

    def on_step(self, epoch: int, averages: Averages) -> None:
        """Call `on_step` of the progress callback."""
        self.progress.on_step(self.first + epoch, averages)

    def on_epoch(self, epoch: Epoch) -> None:
        """Call `on_epoch` of the progress callback with the record."""
        record = epoch.record
        self.progress.on_epoch(record | {"epoch": self.first + record["epoch"]})
