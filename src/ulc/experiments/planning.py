"""What a sweep has still to train, and how long that may take."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ulc.config import ImbalanceSpec
from ulc.errors import InputError
from ulc.experiments.grid import Cell
from ulc.experiments.measuring import Pace, measure_pace
from ulc.experiments.side_by_side import available_threads
from ulc.experiments.speed import Speeds
from ulc.storage.run_folder import RunFolder
from ulc.training import placing
from ulc.training.device import choose_device, split_devices
from ulc.training.environment import use_threads
from ulc.training.run import finished_run, resolved


@dataclass(frozen=True)
class Planned:
    """A training of a sweep and what is left of it.

    epochs_left: epochs that are still to be trained; 0: it is finished
    seconds: how long they may take; None: unknown
    by: how the seconds are known
    why_not: why a measurement was not possible; the run would fail for the same reason
    """

    cell: Cell
    epochs_left: int
    seconds: float | None = None
    by: Literal["records", "measurement", "nothing"] = "nothing"
    why_not: str | None = None


def plan_sweep(
    cells: Sequence[Cell],
    out: Path,
    *,
    jobs: int,
    device: str = "auto",
    on_measure: Callable[[Cell], None] | None = None,
) -> list[Planned]:
    """What is left of each training. Nothing is written.

    Speed is that of finished trainings of the same algorithm, network and data in `out`; where
    there is none, it is measured.

    jobs: number of trainings at once, which share the cores
    on_measure: called before a measurement, with the first cell that needs it
    """
    speeds, left = Speeds(), []
    for cell in cells:
        folder = find_finished(cell, out)
        if folder is not None:
            speeds.add(cell.spec, folder.records)
        left.append(0 if folder is not None else cell.spec.epochs - epochs_done(cell, out))
    clock = Clock(speeds, device, max(1, available_threads() // jobs), on_measure)
    return [
        clock.planned(cell, epochs) if epochs else Planned(cell, 0)
        for cell, epochs in zip(cells, left, strict=True)
    ]


def total_seconds(planned: Sequence[Planned], jobs: int) -> float | None:
    """How long all of it may take with `jobs` trainings at once; None: unknown."""
    known = [each.seconds for each in planned if each.epochs_left]
    if any(each is None for each in known):
        return None
    costs = [each for each in known if each is not None]
    return max(sum(costs) / jobs, max(costs, default=0.0))


def find_finished(cell: Cell, out: Path) -> RunFolder | None:
    """The finished run of a cell; None: there is none. The data are not read.

    A run that does not know the files of its data counts as one of these data.
    """
    found = finished_run(cell.spec, out)
    if found is not None:
        return found
    for folder in placing.folders_at(out / resolved(cell.spec).folder_name):
        identity = placing.stored_identity(folder) if folder.done else None
        if identity is not None and identity.files is None:
            return folder
    return None


def epochs_done(cell: Cell, out: Path) -> int:
    """Number of epochs that a stopped run of this cell has recorded; 0: there is none."""
    folder = RunFolder(out / resolved(cell.spec).folder_name)
    with suppress(InputError):
        if folder.has("records.jsonl") and not folder.done:
            return min(len(folder.records), cell.spec.epochs - 1)
    return 0


class Clock:
    """Estimates times by records, else by one measurement for each algorithm and data.

    threads: number of threads of a training
    """

    def __init__(
        self,
        speeds: Speeds,
        device: str,
        threads: int,
        on_measure: Callable[[Cell], None] | None,
    ) -> None:
        self.speeds = speeds
        self.device = choose_device(split_devices(device)[0])
        self.threads = threads
        self.on_measure = on_measure or (lambda cell: None)  # noqa: ARG005
        self.measured: dict[tuple[str, ...], tuple[Pace, float] | str] = {}

    def planned(self, cell: Cell, epochs: int) -> Planned:
        """The cell with the time for so many epochs."""
        pace = self.speeds.seconds_of_kind(cell.spec)
        if pace is not None:
            return Planned(cell, epochs, pace * epochs, "records")
        measured = self.measure(cell)
        if isinstance(measured, str):
            return Planned(cell, epochs, why_not=measured)
        speed, all_rows = measured
        rows = all_rows * kept_share(cell.spec.imbalance)
        first = cell.spec.epochs - epochs
        warm_up = cell.spec.options.get("warmup_epochs")
        end = warm_up if isinstance(warm_up, int) else 0
        in_warm_up = min(max(end - first, 0), epochs)
        seconds = rows * (in_warm_up * speed.warm_up + (epochs - in_warm_up) * speed.later)
        return Planned(cell, epochs, seconds, "measurement")

    def measure(self, cell: Cell) -> tuple[Pace, float] | str:
        """Pace, and rows without imbalance; or the reason why the cell cannot be trained."""
        spec = resolved(cell.spec)
        key = (spec.algorithm, spec.network.model_dump_json(), spec.data.model_dump_json())
        if key not in self.measured:
            self.on_measure(cell)
            try:
                with use_threads(self.threads):
                    pace, rows = measure_pace(spec, self.device)
                self.measured[key] = pace, rows / kept_share(spec.imbalance)
            except InputError as error:
                self.measured[key] = str(error)
        return self.measured[key]


def kept_share(imbalance: ImbalanceSpec) -> float:
    """About which share of the rows an imbalance keeps; only compared with one another."""
    return (1 + 1 / imbalance.ratio) / 2 if imbalance.kind == "half" else 1.0
