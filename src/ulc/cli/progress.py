"""Progress bars: epoch, losses, trusted share and remaining time, or images done."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from ulc.blocks.averages import Averages
from ulc.cli.screen import cell
from ulc.stopping import deferred_signals
from ulc.training.loop import TrainingProgress

REFRESH = 0.5  # seconds between reads of the running means: each read makes a GPU wait
SHOWN = {"loss": "loss", "trusted_loss": "loss", "doubtful_loss": "+", "trusted": "trusted"}


@contextmanager
def bars(console: Console) -> Iterator[Progress]:
    """A display for several progress bars; it appears when the first bar moves."""
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=10),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[values]}", style="cyan", markup=False),
        TimeRemainingColumn(compact=True),
        console=console,
    )
    try:
        yield progress
    finally:
        stop(progress)


def start(progress: Progress) -> None:
    """Show the display; a signal waits for all of it, because a part of it cannot be stopped."""
    if not progress.live.is_started:
        with deferred_signals():
            progress.start()


def stop(progress: Progress) -> None:
    """Show the last state if the display has been started; a signal waits for the cursor."""
    if progress.live.is_started:
        with deferred_signals():
            progress.stop()


class ProgressBar(TrainingProgress):
    """The progress bar of one training.

    said: notes that were printed before, which are not printed again
    """

    def __init__(self, progress: Progress, title: str, epochs: int, said: set[str]) -> None:
        self.progress = progress
        self.title = cell(title)
        self.epochs = epochs
        self.said = said
        self.task: TaskID | None = None
        self.reading: TaskID | None = None
        self.last_step = 0.0

    def on_read(self, done: int, total: int) -> None:
        """Show how many images have been read, in a bar of its own."""
        if self.reading is None:
            self.reading = self.progress.add_task("reading images", total=total, values="")
        start(self.progress)
        self.progress.update(self.reading, completed=done)

    def on_note(self, note: str) -> None:
        """Print a sentence about the data above the bars."""
        if note not in self.said:
            self.said.add(note)
            self.progress.console.print(cell(note), soft_wrap=True, highlight=False)

    def move(self, completed: int, values: str) -> None:
        """Show the number of completed epochs, and the values as text."""
        if self.task is None:
            self.task = self.progress.add_task(self.title, total=self.epochs, values="")
        start(self.progress)
        self.progress.update(self.task, completed=completed, values=values)

    def on_step(self, epoch: int, averages: Averages) -> None:
        """Show the running means, at most once in REFRESH seconds."""
        now = time.monotonic()
        if now - self.last_step >= REFRESH:
            self.last_step = now
            self.move(epoch, format_values(averages.record()))

    def on_epoch(self, record: dict[str, Any]) -> None:
        """Show the epoch, its values and, with a test set, its test accuracy."""
        values = format_values(record["train"])
        if "test" in record:
            values += f" test {100 * record['test']['training']['accuracy']:.1f} %"
        self.move(record["epoch"] + 1, values)


class CountBar:
    """A progress bar that is called with the numbers of done and of all items."""

    def __init__(self, console: Console, title: str) -> None:
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=10),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TimeRemainingColumn(compact=True),
            console=console,
        )
        self.task = self.progress.add_task(cell(title), total=None)

    def __enter__(self) -> "CountBar":
        return self

    def __exit__(self, *_: object) -> None:
        stop(self.progress)

    def __call__(self, done: int, total: int) -> None:
        """Show how many of all items are done."""
        self.progress.update(self.task, completed=done, total=total)
        start(self.progress)


def format_values(values: dict[str, float]) -> str:
    """Losses and trusted share of an epoch as text; other values are left out."""
    parts = []
    for name, title in SHOWN.items():
        if name in values:
            text = f"{100 * values[name]:.0f} %" if name == "trusted" else f"{values[name]:.3f}"
            parts.append(f"{title} {text}")
    return " ".join(parts)
