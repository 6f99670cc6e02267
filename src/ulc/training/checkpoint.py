"""Save an algorithm so that a killed run goes on to the same bits."""

import io
import zipfile
from dataclasses import dataclass
from typing import Any

import torch

from ulc.algorithms.base import Algorithm
from ulc.errors import InputError, first_line
from ulc.storage.run_folder import RunFolder

NAME = "checkpoint.pt"


@dataclass(frozen=True)
class Kept:
    """The state of an epoch to come back to."""

    epoch: int
    state: dict[str, Any]


def save(algorithm: Algorithm, epoch: int, folder: RunFolder, kept: Kept | None = None) -> None:
    """Keep the state after `epoch`."""
    buffer = io.BytesIO()
    content = {"epoch": epoch, "torch": str(torch.__version__), "state": algorithm.state_dict()}
    if kept is not None:
        content["kept"] = {"epoch": kept.epoch, "state": kept.state}
    torch.save(content, buffer)
    folder.write(NAME, buffer.getvalue())


def restore(algorithm: Algorithm, folder: RunFolder) -> tuple[int, Kept | None]:
    """Take up the saved state; return the epoch to go on with, 0 if nothing is saved."""
    if not folder.has(NAME):
        return 0, None
    content = read(folder)
    try:
        algorithm.load_state_dict(content["state"])
        kept = Kept(**content["kept"]) if "kept" in content else None
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder.path / NAME} does not fit this version ({first_line(error)}); "
            "train anew with --fresh"
        ) from None
    return int(content["epoch"]) + 1, kept


def read(folder: RunFolder) -> dict[str, Any]:
    """The checkpoint's content, without running what a pickle may ask for."""
    stored = io.BytesIO(folder.read(NAME))
    try:
        with zipfile.ZipFile(stored) as archive:
            broken = archive.testzip()  # torch itself does not look at the checksums
        stored.seek(0)
        if broken is None:
            return torch.load(stored, map_location="cpu", weights_only=True)
        reason = f"{broken} fails its checksum"
    except Exception as error:
        # torch raises many kinds for a damaged file, with advice that is not ours.
        reason = type(error).__name__
    raise folder.damaged(NAME, ValueError(reason))
