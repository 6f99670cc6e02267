"""Live bars: epoch, losses, trusted share, time left; or images done."""

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ulc.blocks.averages import Averages
from ulc.training.trainer import Watcher

REFRESH = 0.5  # seconds between looks at the running means: reading them makes a GPU wait
SHOWN = {"loss": "loss", "trusted_loss": "loss", "doubtful_loss": "+", "trusted": "trusted"}


class ProgressBar(Watcher):
    """One bar for one training."""

    def __init__(self, console: Console, title: str, epochs: int) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[values]}", style="cyan"),
            TimeRemainingColumn(compact=True),
            console=console,
        )
        self.task = self.progress.add_task(title, total=epochs, values="")
        self.looked = 0.0
        self.reading: CountBar | None = None

    def __enter__(self) -> "ProgressBar":
        return self  # the bar starts with the first image or step

    def on_read(self, done: int, total: int) -> None:
        """Show how many images are read; the epochs' bar follows."""
        if self.reading is None:
            self.reading = CountBar(self.progress.console, "reading images")
        self.reading(done, total)
        if done >= total:
            self.reading.__exit__()
            self.reading = None

    def __exit__(self, *_: object) -> None:
        if self.reading is not None:
            self.reading.__exit__()
        if self.progress.live.is_started:
            self.progress.stop()

    def on_step(self, epoch: int, seen: Averages) -> None:
        """Show the running means now and then."""
        now = time.monotonic()
        if now - self.looked >= REFRESH:
            self.looked = now
            self.progress.start()
            self.progress.update(self.task, completed=epoch, values=shown(seen.record()))

    def on_epoch(self, record: dict[str, Any]) -> None:
        """Move on."""
        self.progress.start()
        values = shown(record["train"])
        if "test" in record:
            values += f" test {100 * record['test']['training']['accuracy']:.1f} %"
        self.progress.update(self.task, completed=record["epoch"] + 1, values=values)


class CountBar:
    """One bar for work that is counted: call it with how many of how many are done."""

    def __init__(self, console: Console, title: str) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TimeRemainingColumn(compact=True),
            console=console,
        )
        self.task = self.progress.add_task(title, total=None)

    def __enter__(self) -> "CountBar":
        return self

    def __exit__(self, *_: object) -> None:
        if self.progress.live.is_started:
            self.progress.stop()

    def __call__(self, done: int, total: int) -> None:
        """Move on."""
        self.progress.update(self.task, completed=done, total=total)
        self.progress.start()


def shown(values: dict[str, float]) -> str:
    """The few values that fit on a line."""
    parts = []
    for name, title in SHOWN.items():
        if name in values:
            text = f"{100 * values[name]:.0f} %" if name == "trusted" else f"{values[name]:.3f}"
            parts.append(f"{title} {text}")
    return " ".join(parts)
