"""The workspace of an audit: its folder, its device and its progress callbacks."""

from dataclasses import dataclass

import torch

from ulc.auditing.spec import AuditProgress
from ulc.config import RunSpec
from ulc.data.prepare import Prepared
from ulc.storage.run_folder import RunFolder
from ulc.training.run import run


@dataclass(frozen=True)
class Workspace:
    """Where an audit writes, the device that it trains on, and its progress callbacks."""

    folder: RunFolder
    device: torch.device
    progress: AuditProgress

    def train(self, title: str, spec: RunSpec, prepared: Prepared) -> RunFolder:
        """The finished run of `spec` in the audit's folder `runs`, trained unless it is there."""
        with self.progress.training(title, spec.epochs) as progress:
            return run(
                spec,
                self.folder.path / "runs",
                device=str(self.device),
                progress=progress,
                prepared=prepared,
            )
