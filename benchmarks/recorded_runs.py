"""Records of the grid as finished runs, for the tables and figures of `ulc.experiments`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.grid_records import RESULTS, Record, hash_spec, read_records
from benchmarks.grid_settings import SETTINGS, find_setting, make_cell
from ulc.config import RunSpec, read_toml
from ulc.experiments.finished_runs import FinishedRun
from ulc.networks import built_name

# Stand-ins for the data: a record does not tell where its data were.
FILES = {
    "features": "cifar10_features.npz",
    "features100": "cifar100_features.npz",
    "human": "cifar10n.npz",
    "cifar": "cifar10",
    "cifar_part": "cifar10_part",
}
MANY_CLASSES = "features100"  # settings that begin so have 100 classes, all others 10


@dataclass(frozen=True)
class RecordedFolder:
    """What tables and figures read of a run folder.

    path: a name for messages; records: one nested record for each epoch, from the curves
    """

    path: Path
    records: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class RecordedRun(FinishedRun):
    """A training of the grid, from its record."""

    record: Record

    @cached_property
    def spec(self) -> RunSpec:
        return spec_of(self.record)

    @cached_property
    def summary(self) -> dict[str, Any]:
        return self.record

    @cached_property
    def classes(self) -> int:
        return 100 if self.record["setting"].startswith(MANY_CLASSES) else 10

    @cached_property
    def network(self) -> str:
        vectors = self.spec.data.source == "npz"
        return built_name(self.spec.network, (1,) if vectors else (3, 32, 32))


def read_runs(settings: Sequence[str], results: Path = RESULTS) -> list[RecordedRun]:
    """Read all trainings of these settings; none of a setting without records."""
    return [
        RecordedRun(
            RecordedFolder(  # type: ignore[arg-type]
                Path(f"{name}-{record['method']}-s{record['seed']}"),
                nest_curves(record.get("curves", {})),
            ),
            record,
        )
        for name in settings
        for record in read_records(results / f"{name}.jsonl")
    ]


def spec_of(record: Record) -> RunSpec:
    """Return the spec that the grid has for a record today."""
    setting = find_setting(record["setting"], FILES, read_toml(SETTINGS), must_exist=False)
    return make_cell(setting, record["method"], record["seed"], record["changes"]).spec


def is_stale(record: Record) -> bool:
    """Tell whether the settings of a training have changed since it was recorded."""
    return hash_spec(spec_of(record)) != record["spec"]


def nest_curves(curves: Mapping[str, Sequence[float | None]]) -> list[dict[str, Any]]:
    """Return a nested record for each epoch: the opposite of `read_curves`."""
    epochs = max(map(len, curves.values()), default=0)
    records: list[dict[str, Any]] = [{"epoch": epoch} for epoch in range(epochs)]
    for name, values in curves.items():
        *outer, last = name.split(".")
        for record, value in zip(records, values, strict=True):
            for key in outer:
                record = record.setdefault(key, {})
            record[last] = value
    return records
