"""Where a command trains: in this process, in processes that it starts, or among torchrun's."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ulc.errors import InputError

if TYPE_CHECKING:
    from ulc.config import RunSpec
    from ulc.storage.run_folder import RunFolder
    from ulc.training.loop import TrainingProgress


@dataclass(frozen=True)
class Workers:
    """The processes that train; count: number of processes that this command starts, or 1."""

    device: str
    count: int

    def train(self, spec: "RunSpec", out: Path, progress: "TrainingProgress") -> "RunFolder":
        """Train one spec."""
        from ulc.experiments.data_parallel import train_together
        from ulc.training.processes import joined, place_by_torchrun
        from ulc.training.run import run

        if self.count > 1:
            return train_together(spec, out, self.count, device=self.device, progress=progress)
        with joined(place_by_torchrun(), self.device) as device:
            return run(spec, out, device=device, progress=progress)

    def resume(self, path: Path, progress: "TrainingProgress") -> "RunFolder":
        """Train a stopped run to its end."""
        from ulc.experiments.data_parallel import resume_together
        from ulc.training.processes import joined, place_by_torchrun
        from ulc.training.run import resume

        if self.count > 1:
            return resume_together(path, self.count, device=self.device, progress=progress)
        with joined(place_by_torchrun(), self.device) as device:
            return resume(path, device=device, progress=progress)

    def check(self, *, compares: bool = False) -> None:
        """Raise an InputError for options that exclude each other.

        compares: whether the command compares several trainings
        """
        from ulc.training.processes import place_by_torchrun

        place = place_by_torchrun()
        if place is not None and self.count > 1:
            raise InputError(
                "--devices and torchrun exclude each other; leave out --devices, torchrun starts "
                "the processes"
            )
        if compares and (place is not None or self.count > 1):
            raise InputError(
                "several processes train one run, not a comparison; give --no-compare, or leave "
                "out --devices"
            )


def follows() -> bool:
    """Whether torchrun has given this process a rank above 0: it shows nothing."""
    if "RANK" not in os.environ:  # `ulc show` need not import torch
        return False
    from ulc.training.processes import place_by_torchrun

    place = place_by_torchrun()
    return place is not None and place.rank > 0
