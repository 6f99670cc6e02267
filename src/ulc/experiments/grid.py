"""A grid of trainings, several at once; one that fails does not stop the others."""

import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ulc.config import RunSpec
from ulc.errors import InputError, first_line
from ulc.experiments.side_by_side import train_side_by_side
from ulc.storage.run_folder import RunFolder
from ulc.training.device import choose_device, split_devices
from ulc.training.loop import TrainingProgress
from ulc.training.run import run

if TYPE_CHECKING:
    from ulc.experiments.launchers import Launcher
    from ulc.experiments.side_by_side import Prepare


@dataclass(frozen=True)
class Cell:
    """One training of a grid.

    row, column: titles, for people; a grid of one column has the column ""
    """

    row: str
    column: str
    spec: RunSpec

    @property
    def title(self) -> str:
        """Row, column and seed."""
        parts = [self.row, *([self.column] if self.column else []), f"seed {self.spec.seed}"]
        return ", ".join(parts)


@dataclass(frozen=True)
class Failure:
    """A training that failed, and why."""

    cell: Cell
    reason: str


class SweepProgress:
    """Base class of progress callbacks of a sweep; every method does nothing."""

    def on_plan(self, cells: Sequence[Cell]) -> None:
        """Called at the start, with all trainings, finished ones too."""

    def on_note(self, cell: Cell, note: str) -> None:
        """Called before a training, with a sentence about its data or a warning."""

    def on_epoch(self, cell: Cell, record: dict[str, Any]) -> None:
        """Called after each epoch of a training, with its record."""

    def on_run(self, cell: Cell, folder: RunFolder) -> None:
        """Called for each finished training."""

    def on_failure(self, failure: Failure) -> None:
        """Called for each training that has failed."""


class CellProgress(TrainingProgress):
    """Passes notes and epochs of one training to the callback of the sweep."""

    def __init__(self, cell: Cell, progress: SweepProgress) -> None:
        self.cell = cell
        self.progress = progress

    def on_note(self, note: str) -> None:
        """Pass on a sentence about the data."""
        self.progress.on_note(self.cell, note)

    def on_epoch(self, record: dict[str, Any]) -> None:
        """Pass on the record of an epoch."""
        self.progress.on_epoch(self.cell, record)


def train_cells(  # noqa: PLR0913 (what to train and where)
    cells: Sequence[Cell],
    out: Path,
    *,
    jobs: int,
    device: str,
    progress: SweepProgress,
    prepare: "Prepare | None" = None,
    launcher: "Launcher | None" = None,
) -> Iterator[tuple[int, RunFolder | Failure]]:
    """Train all cells, `jobs` at once in processes, or one after the other in this process.

    Yield the position of each cell at its end, and its folder or failure, after `progress` was
    called with it. Finished runs are only read, and stopped runs are resumed.

    prepare: function of a module that prepares the data of a spec; None: as the spec says
    launcher: where trainings run; None: on this machine
    """
    progress.on_plan(cells)
    progresses = [CellProgress(cell, progress) for cell in cells]
    specs = [cell.spec for cell in cells]
    if jobs > 1 or launcher is not None:
        results: Iterator[tuple[int, RunFolder | Exception]]
        results = train_side_by_side(
            specs, out, progresses, jobs=jobs, device=device, prepare=prepare, launcher=launcher
        )
    else:
        results = train_in_turn(specs, out, progresses, device, prepare)
    for place, result in results:
        if isinstance(result, RunFolder):
            progress.on_run(cells[place], result)
            yield place, result
        else:
            failure = Failure(cells[place], str(result))
            progress.on_failure(failure)
            yield place, failure


def train_in_turn(
    specs: Sequence[RunSpec],
    out: Path,
    progresses: Sequence[TrainingProgress],
    device: str,
    prepare: "Prepare | None" = None,
) -> Iterator[tuple[int, RunFolder | Exception]]:
    """Train the specs in this process; yield the position of each, and its folder or its error.

    device: of several devices the first is used
    """
    device = split_devices(device)[0]
    for place, (spec, progress) in enumerate(zip(specs, progresses, strict=True)):
        result: RunFolder | Exception
        try:
            data = None if prepare is None else prepare(spec, choose_device(device))
            result = run(spec, out, device=device, progress=progress, prepared=data)
        except InputError as error:
            result = error
        except Exception as error:  # also of the user's own code; the others shall be trained
            traceback.print_exc()
            result = RuntimeError(f"{type(error).__name__}: {first_line(error)}; see above")
        yield place, result
