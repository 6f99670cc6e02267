"""How long trainings take: seconds an epoch by records of finished epochs, and what is left."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ulc.config import RunSpec

Key = tuple[str, ...]


class Speeds:
    """Seconds an epoch, by algorithm, network, data and imbalance.

    A kind of training that was not seen gets the mean of its algorithm, else of all.
    """

    def __init__(self) -> None:
        self.seconds: dict[Key, list[float]] = defaultdict(list)

    def add(self, spec: RunSpec, records: Iterable[Mapping[str, Any]]) -> None:
        """Add the epochs of a training."""
        self.seconds[key_of(spec)] += [epoch_seconds(record) for record in records]

    def seconds_of_kind(self, spec: RunSpec) -> float | None:
        """Mean seconds an epoch of trainings of this very kind; None: none was seen yet."""
        known = self.seconds.get(key_of(spec))
        return float(np.mean(known)) if known else None

    def seconds_per_epoch(self, spec: RunSpec) -> float | None:
        """Mean seconds an epoch of such a training; None: nothing was seen yet."""
        exact = self.seconds_of_kind(spec)
        if exact is not None:
            return exact
        alike = [each for key, many in self.seconds.items() if key[0] == spec.algorithm
                 for each in many]  # fmt: skip
        known = alike or [each for many in self.seconds.values() for each in many]
        return float(np.mean(known)) if known else None


def key_of(spec: RunSpec) -> Key:
    """What decides how long an epoch takes, except noise and options."""
    network = f"{spec.network.name}:{spec.network.width}"
    return spec.algorithm, network, str(spec.data.path or spec.data.source), spec.imbalance.tag


def epoch_seconds(record: Mapping[str, Any]) -> float:
    """Seconds of an epoch, with its scores."""
    seconds = record["seconds"]
    return float(seconds["train"] + seconds.get("score", 0.0))


def remaining_seconds(
    left: Sequence[tuple[RunSpec, int]], speeds: Speeds, jobs: int
) -> float | None:
    """Seconds for the rest of a sweep; None: unknown.

    left: specs of the trainings that have not ended, and how many of their epochs are missing
    jobs: number of trainings at once
    """
    costs = []
    for spec, epochs in left:
        pace = speeds.seconds_per_epoch(spec)
        if pace is None:
            return None
        costs.append(pace * epochs)
    return max(sum(costs) / max(1, jobs), max(costs, default=0.0))


def in_words(seconds: float) -> str:
    """A time for people, such as 40 seconds, 1 minute, 3.5 hours or 2.5 days."""
    for unit, size, most, digits in (
        ("seconds", 1, 90, 0),
        ("minutes", 60, 90, 0),
        ("hours", 3600, 48, 1),
    ):
        if seconds < most * size:
            count = f"{seconds / size:.{digits}f}"
            return f"{count} {unit.removesuffix('s')}" if count == "1" else f"{count} {unit}"
    return f"{seconds / 86400:.1f} days"
