"""A progress that passes on what it hears to another process."""

import time
from multiprocessing.connection import Connection
from typing import Any

from ulc.blocks.averages import Averages
from ulc.training.loop import TrainingProgress

OFTEN = 0.1  # seconds between two looks at the running means; who hears of it may look less often


class ProgressPipe(TrainingProgress):
    """Sends the name of each event with its values."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.looked = 0.0

    def on_read(self, done: int, total: int) -> None:
        """While images are read."""
        self.pipe.send(("on_read", (done, total)))

    def on_step(self, epoch: int, seen: Averages) -> None:
        """Now and then, the means so far."""
        now = time.monotonic()
        if now - self.looked >= OFTEN:
            self.looked = now
            means = Averages()
            means.add(**seen.record())
            self.pipe.send(("on_step", (epoch, means)))

    def on_epoch(self, record: dict[str, Any]) -> None:
        """After each epoch."""
        self.pipe.send(("on_epoch", (record,)))
