"""Training without a folder: what the estimators do."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ulc.algorithms.base import Algorithm
from ulc.blocks.averages import Record
from ulc.errors import InputError
from ulc.networks.classifier import Classifier
from ulc.training.held_out import HeldOut


@dataclass
class EarlyStopping:
    """Keeps the epoch that agrees best with the given labels of rows that were held out.

    first: epochs before it are not kept, because the algorithm warms up
    patience: stop after so many epochs without a better one
    """

    held_out: HeldOut
    first: int
    patience: int
    agreements: list[float] = field(default_factory=list)
    best_epoch: int = -1
    best: float = -1.0
    state: dict[str, Any] = field(default_factory=dict)

    def watch(self, algorithm: Algorithm, epoch: int) -> bool:
        """Score the epoch; whether it is time to stop."""
        agreement = self.held_out.agreement(algorithm)
        self.agreements.append(agreement)
        if epoch < self.first:
            return False
        if agreement > self.best:
            self.best, self.best_epoch = agreement, epoch
            self.state = copy.deepcopy(algorithm.state_dict())
        return epoch - self.best_epoch >= self.patience


def train(
    algorithm: Algorithm, epochs: range, stopping: EarlyStopping | None = None
) -> list[Record]:
    """Train these epochs, or until it is time to stop; the best epoch is then restored."""
    records = []
    for epoch in epochs:
        record = algorithm.run_epoch(epoch)
        broken = [name for name, value in record.items() if not np.isfinite(value)]
        if broken:
            raise InputError(
                f"epoch {epoch}: {broken[0]} is {record[broken[0]]}: the training diverged; "
                "lower the learning rate (options={'sgd': {'lr': …}})"
            )
        records.append(record)
        if stopping is not None and stopping.watch(algorithm, epoch):
            break
    if stopping is not None:
        algorithm.load_state_dict(stopping.state)
    return records


def go_on_from(algorithm: Algorithm, networks: Sequence[Classifier]) -> None:
    """Give every network of the algorithm the weights of those that predicted before."""
    ours = [algorithm.networks(), [learner.network for learner in algorithm.learners()]]
    for group in ours:
        for place, network in enumerate(group):
            try:
                network.load_state_dict(networks[place % len(networks)].state_dict())
            except RuntimeError:
                raise InputError(
                    "warm_start goes on with the network it began with; set warm_start=False to "
                    "begin anew with another"
                ) from None
