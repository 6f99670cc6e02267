"""A training that a launcher has sent to another process or machine, and its files of progress."""

import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ulc.config import RunSpec
from ulc.errors import InputError, first_line
from ulc.storage.run_folder import FolderInUseError

if TYPE_CHECKING:  # a launched process imports this file before it trains
    from ulc.experiments.side_by_side import Place
    from ulc.storage.run_folder import RunFolder

EPOCHS, TRACEBACK = "epochs.jsonl", "traceback.txt"  # files in the log folder of a training
PATIENCE = 120.0  # seconds to wait for a folder that a lost machine may still have locked
PAUSE = 2.0  # seconds between two attempts to lock it


@dataclass(frozen=True)
class Task:
    """A training for another process, perhaps on another machine; all that it needs can be pickled.

    where: its `out` is an absolute path; it has one device
    log: folder for the files of progress, which exists; absolute
    folder: working directory of the command: relative paths of the data start there
    search: Python's search path of the command, for code of the user's own
    """

    spec: RunSpec
    where: "Place"
    log: Path
    folder: Path
    search: tuple[str, ...]

    def __call__(self) -> Path | Exception:
        """Train; return the path of the run folder, or the error for the user."""
        for path in (self.log, self.folder):
            if not path.is_dir():
                return InputError(
                    f"{path}: not found on the machine {platform.node()}; keep data and --out in "
                    "folders that all machines share"
                )
        os.chdir(self.folder)
        sys.path.extend(each for each in self.search if each not in sys.path)
        try:
            return self.train().path
        except InputError as error:
            return error
        except Exception as error:  # also of the user's own code
            (self.log / TRACEBACK).write_text(traceback.format_exc(), encoding="utf-8")
            reason = f"{type(error).__name__}: {first_line(error)}"
            return RuntimeError(f"{reason}; see {self.log / TRACEBACK}")

    def train(self) -> "RunFolder":
        """Train in the run folder; wait for its lock, which a lost machine may hold for a while."""
        import torch

        from ulc.experiments.epoch_file import EpochFile
        from ulc.training.device import choose_device
        from ulc.training.run import run

        where, device = self.where, self.where.devices[0]
        torch.set_num_threads(where.threads)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                progress = EpochFile(self.log / EPOCHS)
                data = None
                if where.prepare is not None:
                    data = where.prepare(self.spec, choose_device(device))
                return run(self.spec, where.out, device=device, progress=progress, prepared=data)
            except FolderInUseError:
                if time.monotonic() > end:
                    raise
                time.sleep(PAUSE)


def read_epochs(log: Path) -> Iterator[dict[str, Any]]:
    """The records of all epochs that a launched training has reported so far."""
    try:
        content = (log / EPOCHS).read_text(encoding="utf-8")
    except OSError:
        return  # not begun
    for line in content.splitlines(keepends=True):
        if line.endswith("\n"):  # else it is being written
            yield json.loads(line)
