"""What decides an audit, and what it chose by itself."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from ulc.config import DataSpec, NetworkSpec, StoredSpec
from ulc.data.sources import ignore_count
from ulc.training.loop import TrainingProgress
from ulc.typing import CountCallback


class AuditSpec(StoredSpec):
    """Everything that decides an audit; what is None or auto is chosen by the data."""

    data: DataSpec
    embed: str = Field("auto", description="auto, none, or the backbone that images go through")
    network: NetworkSpec = NetworkSpec()
    epochs: int | None = Field(None, ge=1)
    held_out: float | None = Field(None, gt=0, lt=1, description="share of rows that only watch")
    options: dict[str, Any] = Field(default_factory=dict, description="of ULC")
    seed: int = Field(0, ge=0)

    @property
    def title(self) -> str:
        """Name of the data, and the seed."""
        stem = Path(self.data.path).stem if self.data.path else self.data.source
        return f"{stem}-audit-s{self.seed}"


@dataclass(frozen=True)
class Choice:
    """Something that was decided by the data: why, and which option decides it otherwise."""

    name: str
    value: str
    why: str
    option: str


class AuditProgress:
    """Told what happens; this one does not listen."""

    def chosen(self, choice: Choice) -> None:
        """A choice was made."""

    def reading(self) -> AbstractContextManager[CountCallback]:
        """While the data are read."""
        return nullcontext(ignore_count)

    def embedding(self, backbone: str) -> AbstractContextManager[CountCallback]:  # noqa: ARG002
        """While images are embedded."""
        return nullcontext(ignore_count)

    def training(
        self,
        title: str,  # noqa: ARG002 (a progress that listens will want it)
        epochs: int,  # noqa: ARG002
    ) -> AbstractContextManager[TrainingProgress]:
        """While something is trained."""
        return nullcontext(TrainingProgress())
