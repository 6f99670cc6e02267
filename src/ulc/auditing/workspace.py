"""The workspace of an audit: its folder, its device, its launcher and its progress callbacks."""

from dataclasses import dataclass
from pathlib import Path

import torch

from ulc.auditing.spec import AuditProgress
from ulc.config import RunSpec
from ulc.data.prepare import Prepared
from ulc.experiments.launchers import Launcher
from ulc.storage.run_folder import RunFolder
from ulc.training.run import run


@dataclass(frozen=True)
class Workspace:
    """Where an audit writes and trains, and its progress callbacks.

    device: the one of this process
    launcher: trains in other processes or on other machines; None: this process trains
    device_there: name of the device that the launcher gives to a training
    """

    folder: RunFolder
    device: torch.device
    progress: AuditProgress
    launcher: Launcher | None = None
    device_there: str = "auto"

    @property
    def runs(self) -> Path:
        """The folder of the trainings."""
        return self.folder.path / "runs"

    def train(self, title: str, spec: RunSpec, prepared: Prepared) -> RunFolder:
        """The finished run of `spec` in the audit's folder `runs`, trained unless it is there."""
        with self.progress.training(title, spec.epochs) as progress:
            return run(
                spec,
                self.runs,
                device=str(self.device),
                progress=progress,
                prepared=prepared,
            )
