"""Save the state of a run, so that a killed run can be resumed to the same bits."""

import io
from dataclasses import dataclass
from typing import Any

import torch

from ulc.algorithms.base import Algorithm
from ulc.data.sources.pickle_machine import PickleError
from ulc.data.torch_file import read_torch
from ulc.errors import InputError, first_line
from ulc.networks.processes import by_first
from ulc.storage.run_folder import Records, RunFolder
from ulc.training.best_epoch import Snapshot

NAME = "checkpoint.pt"


@dataclass(frozen=True)
class Resumed:
    """Where a run continues.

    start: number of its next epoch; best: the best epoch so far; None: no epoch is kept
    """

    start: int = 0
    best: Snapshot | None = None


def save(algorithm: Algorithm, epoch: int, folder: RunFolder, best: Snapshot | None = None) -> None:
    """Write the algorithm's state after `epoch`, and the best epoch so far if one is kept."""
    buffer = io.BytesIO()
    content = {"epoch": epoch, "torch": str(torch.__version__), "state": algorithm.state_dict()}
    if best is not None:
        content["best"] = {"epoch": best.epoch, "state": best.state}
    torch.save(content, buffer)
    if not epoch and not type(algorithm).__module__.startswith("ulc."):
        check_readable(buffer, type(algorithm).__name__)
    folder.write(NAME, buffer.getvalue())


def check_readable(saved: io.BytesIO, algorithm: str) -> None:
    """Raise an InputError if the state of a user's own algorithm could not be read again."""
    saved.seek(0)
    try:
        read_torch(saved, "the state")
    except PickleError as error:
        raise InputError(
            f"the state of {algorithm} cannot be resumed ({error}); keep only tensors, numbers, "
            "texts, lists and dictionaries in it"
        ) from None


def restore(algorithm: Algorithm, folder: RunFolder) -> Resumed:
    """Load the state that `save` wrote; without a checkpoint the run starts at epoch 0."""
    content = by_first(lambda: read(folder) if folder.has(NAME) else None)
    if content is None:
        return Resumed()
    try:
        algorithm.load_state_dict(content["state"])
        best = Snapshot(**content["best"]) if "best" in content else None
        return Resumed(int(content["epoch"]) + 1, best)
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder.path / NAME} does not fit this version "
            f"({first_line(error).rstrip(':')}); train anew with --fresh"
        ) from None


def earlier_records(folder: RunFolder, resumed: Resumed) -> Records:
    """The records of all epochs before the one at which the run continues."""
    if not resumed.start:
        return []
    records = by_first(lambda: folder.records)
    if len(records) < resumed.start:
        reason = f"it ends after {len(records)} epochs, the checkpoint after {resumed.start}"
        raise folder.damaged("records.jsonl", ValueError(reason))
    return records[: resumed.start]


def read(folder: RunFolder) -> dict[str, Any]:
    """The checkpoint's content; a pickle inside it is not executed."""
    stored = io.BytesIO(folder.read(NAME))
    try:
        return read_torch(stored, str(folder.path / NAME))
    except PickleError as error:
        reason = error
    raise folder.damaged(NAME, reason)
