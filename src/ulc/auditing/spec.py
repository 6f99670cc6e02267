"""The spec of an audit, its choices, and its progress callbacks."""

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
    """All settings of an audit; the audit chooses those that are None or auto."""

    data: DataSpec
    embed: str = Field("auto", description="auto, none, or the backbone that embeds images")
    network: NetworkSpec = NetworkSpec()
    epochs: int | None = Field(None, ge=1)
    held_out: float | None = Field(
        None, gt=0, lt=1, description="share of the rows that are held out from training"
    )
    options: dict[str, Any] = Field(default_factory=dict, description="of ULC+")
    seed: int = Field(0, ge=0)

    @property
    def title(self) -> str:
        """Name of the data, and the seed."""
        stem = Path(self.data.path).stem if self.data.path else self.data.source
        return f"{stem}-audit-s{self.seed}"


@dataclass(frozen=True)
class Choice:
    """A setting that the audit chose, with the reason and the option that sets it."""

    name: str
    value: str
    why: str
    option: str


class AuditProgress:
    """Base class of progress callbacks of an audit; every method does nothing."""

    def on_choice(self, choice: Choice) -> None:
        """Called when the audit has chosen a setting."""

    def on_note(self, note: str) -> None:
        """Called before training, with a sentence about the data or a warning."""

    def reading(self) -> AbstractContextManager[CountCallback]:
        """Entered while the data are read."""
        return nullcontext(ignore_count)

    def embedding(self, backbone: str) -> AbstractContextManager[CountCallback]:  # noqa: ARG002
        """Entered while images are embedded."""
        return nullcontext(ignore_count)

    def training(
        self,
        title: str,  # noqa: ARG002 (for subclasses)
        epochs: int,  # noqa: ARG002
    ) -> AbstractContextManager[TrainingProgress]:
        """Entered while a model is trained."""
        return nullcontext(TrainingProgress())
