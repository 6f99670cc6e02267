"""Write the records and checkpoints of a run to its folder."""

import time

from ulc.storage.run_folder import RunFolder
from ulc.training import checkpoint
from ulc.training.best_epoch import BestEpoch
from ulc.training.best_networks import BestNetworks
from ulc.training.loop import Epoch, Observer

SAVE_EVERY = 30.0  # seconds between checkpoints; a killed run loses no more than this


class RunRecorder(Observer):
    """Writes records.jsonl and checkpoint.pt every `save_every` seconds and after the last epoch.

    best: the observer that keeps the best epoch, for the checkpoint; None: no epoch is kept
    """

    def __init__(
        self, folder: RunFolder, save_every: float, best: BestEpoch | BestNetworks | None
    ) -> None:
        self.folder = folder
        self.save_every = save_every
        self.best = best
        self.saved_at = time.monotonic()

    def on_epoch(self, epoch: Epoch) -> None:
        """Write records and checkpoint, if enough time has passed or the epoch is the last."""
        epoch.record["seconds"]["score"] = time.perf_counter() - epoch.trained_at
        if not epoch.is_last and time.monotonic() - self.saved_at < self.save_every:
            return
        epoch.forget_judgement()
        self.folder.write_records(epoch.records)
        best = None if self.best is None else self.best.best
        checkpoint.save(epoch.algorithm, epoch.record["epoch"], self.folder, best)
        self.saved_at = time.monotonic()
