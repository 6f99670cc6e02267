"""Progress of a sweep: a line for each finished run, a bar over all epochs, and the time left."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn

from ulc.cli import tables
from ulc.cli.progress import start, stop
from ulc.cli.screen import cell as printed
from ulc.cli.screen import console
from ulc.experiments.grid import Cell, Failure, SweepProgress
from ulc.experiments.speed import Speeds, in_words, remaining_seconds
from ulc.storage.run_folder import RunFolder
from ulc.training.run import resolved


@contextmanager
def sweep_bar(jobs: int) -> Iterator[SweepProgress]:
    """A progress callback that prints to stderr; the bar is drawn on a terminal only."""
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[left]}", markup=False),
        console=console(error=True),
    )
    try:
        yield SweepBar(progress, jobs)
    finally:
        stop(progress)


class SweepBar(SweepProgress):
    """Counts the runs of a sweep, and estimates the time left by the epochs so far.

    jobs: number of trainings at once
    """

    def __init__(self, progress: Progress, jobs: int) -> None:
        self.progress = progress
        self.jobs = jobs
        self.speeds = Speeds()
        self.done: dict[str, int] = {}  # epochs that were trained, by the name of the run folder
        self.epochs: dict[str, tuple[Cell, int]] = {}
        self.total = self.ended = 0
        self.task = progress.add_task("", total=None, left="")

    def on_plan(self, cells: Sequence[Cell]) -> None:
        """Count trainings and their epochs."""
        self.total = len(cells)
        self.epochs = {name_of(each): (each, each.spec.epochs) for each in cells}
        total = sum(count for _, count in self.epochs.values())
        self.progress.update(self.task, total=total)
        if self.progress.console.is_terminal:
            start(self.progress)
        self.move()

    def on_note(self, cell: Cell, note: str) -> None:
        """Print nothing: the notes of all runs would be the same."""

    def on_epoch(self, cell: Cell, record: dict[str, Any]) -> None:
        """Count the epoch, and its time."""
        self.speeds.add(cell.spec, [record])
        self.done[name_of(cell)] = record["epoch"] + 1
        self.move()

    def on_run(self, cell: Cell, folder: RunFolder) -> None:
        """Print a line with the run's folder and the time left."""
        if name_of(cell) not in self.done:  # finished before
            self.speeds.add(cell.spec, folder.records)
        self.end(cell)
        self.say(f"{cell.title}: {folder.path}", self.time_left())
        for line in tables.remarks(folder):
            self.say(line)

    def on_failure(self, failure: Failure) -> None:
        """Print a line with the reason."""
        self.end(failure.cell)
        self.say(f"{failure.cell.title}: failed: {failure.reason}")

    def end(self, cell: Cell) -> None:
        """Count an ended training."""
        self.done[name_of(cell)] = cell.spec.epochs
        self.ended += 1
        self.move()

    def say(self, *parts: str) -> None:
        """Print a line above the bar."""
        text = "; ".join(part for part in parts if part)
        count = f"{self.ended}/{self.total} "
        self.progress.console.print(printed(count + text), soft_wrap=True, highlight=False)

    def move(self) -> None:
        """Show what is done."""
        self.progress.update(
            self.task,
            description=f"{self.ended} of {self.total} runs",
            completed=sum(self.done.values()),
            left=self.time_left(),
        )

    def time_left(self) -> str:
        """The time left in words; empty if nothing is left or nothing is known."""
        missing = [
            (each.spec, count - self.done.get(name, 0))
            for name, (each, count) in self.epochs.items()
        ]
        left = [(spec, count) for spec, count in missing if count > 0]
        seconds = remaining_seconds(left, self.speeds, self.jobs)
        return f"about {in_words(seconds)} to go" if left and seconds is not None else ""


def name_of(cell: Cell) -> str:
    """The name of the cell's run folder: equal cells are trained once."""
    return resolved(cell.spec).folder_name
