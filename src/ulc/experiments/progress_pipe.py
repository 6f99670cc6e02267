"""A progress callback that sends its calls to another process."""

import time
from multiprocessing.connection import Connection
from typing import Any

from ulc.blocks.averages import Averages
from ulc.training.loop import TrainingProgress

STEP_INTERVAL = 0.1  # seconds between two calls of `on_step` that are sent


class ProgressPipe(TrainingProgress):
    """Sends each call through a pipe, as name of the method and arguments."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.last_step = 0.0

    def on_read(self, done: int, total: int) -> None:
        """Send how many images have been read."""
        self.pipe.send(("on_read", (done, total)))

    def on_step(self, epoch: int, averages: Averages) -> None:
        """Send the running means, at most once in STEP_INTERVAL seconds."""
        now = time.monotonic()
        if now - self.last_step >= STEP_INTERVAL:
            self.last_step = now
            means = Averages()
            means.add(**averages.record())
            self.pipe.send(("on_step", (epoch, means)))

    def on_epoch(self, record: dict[str, Any]) -> None:
        """Send the record of the epoch."""
        self.pipe.send(("on_epoch", (record,)))


class NotedProgressPipe(ProgressPipe):
    """Sends notes about the data, too."""

    def on_note(self, note: str) -> None:
        """Send a sentence about the data or a warning."""
        self.pipe.send(("on_note", (note,)))
