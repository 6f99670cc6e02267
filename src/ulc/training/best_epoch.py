"""Early stopping: keep the best epoch by rows that are held out."""

import copy
from dataclasses import dataclass, replace
from typing import Any

from ulc.algorithms.base import Algorithm
from ulc.training.collapse import CollapseMonitor
from ulc.training.loop import Epoch, Observer


@dataclass(frozen=True)
class Snapshot:
    """The state of an algorithm after an epoch."""

    epoch: int
    state: dict[str, Any]


class BestEpoch(Observer):
    """Keeps the state of the best epoch, and restores it at the end.

    monitor: measures each epoch and decides whether it is kept
    best: the epoch that a resumed training has kept so far; None: no epoch is kept yet
    patience: number of epochs without a better one after which training stops; None: train all
        epochs
    """

    def __init__(
        self,
        monitor: CollapseMonitor,
        *,
        best: Snapshot | None = None,
        patience: int | None = None,
    ) -> None:
        self.monitor = monitor
        self.best = best
        self.patience = patience

    def on_epoch(self, epoch: Epoch) -> None:
        """Measure the epoch; keep its state if the monitor says so."""
        held_out = self.monitor.measure(epoch.algorithm, epoch.judgement)
        epoch.forget_judgement()
        epoch.record["held_out"] = held_out
        signs = self.monitor.signs(epoch.records)
        if signs:
            held_out["signs"] = signs
        if self.monitor.keeps(epoch.records):
            self.best = None  # so that the old state is not in memory beside the new one
            state = epoch.algorithm.state_dict()
            # After the last epoch nothing changes the state any more, so it needs no copy.
            kept = state if epoch.is_last else copy.deepcopy(state)
            self.best = Snapshot(epoch.record["epoch"], kept)
        if self.patience is not None:
            epoch.is_last |= self.monitor.epochs_since_best(epoch.records) >= self.patience

    def on_end(self, algorithm: Algorithm) -> None:
        """Restore the state of the best epoch, if one was kept; from then on only one has it."""
        if self.best is not None:
            algorithm.load_state_dict(self.best.state)
            self.best = replace(self.best, state={})
