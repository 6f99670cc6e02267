"""A progress callback that writes the records of epochs to a file, for a process elsewhere."""

import json
from pathlib import Path
from typing import Any

from ulc.training.loop import TrainingProgress


class EpochFile(TrainingProgress):
    """Writes each record as a line of JSON; lines of an earlier attempt are removed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(b"")

    def on_epoch(self, record: dict[str, Any]) -> None:
        """Append the record; opened and closed, so that other machines see it."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
