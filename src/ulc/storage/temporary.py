"""Temporary files of `write_whole`: their names, and the removal of those that were left behind.

A process holds a lock on the temporary file that it writes. The lock ends with the process, so a
file that a killed process has left is told from one that is being written. On Windows no lock is
needed: a file that is open there cannot be removed.
"""

import re
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}\.part", re.DOTALL)


def temporary_path(path: Path) -> Path:
    """Return a new name for a temporary file beside `path`."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")


def hold(stream: BinaryIO) -> None:
    """Lock a temporary file until it is closed, or its process ends."""
    if sys.platform != "win32":
        import fcntl

        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(stream, fcntl.LOCK_EX)


def remove_temporaries(folder: Path, name: str | None = None) -> None:
    """Remove the temporary files in a folder that killed processes have left.

    name: only those of the file with this name; None: all
    """
    try:
        paths = list(folder.iterdir())
    except OSError:
        return
    for path in paths:
        match = TEMPORARY.fullmatch(path.name)
        if match and name in (None, match["name"]) and path.is_file():
            remove_unless_held(path)


def remove_unless_held(path: Path) -> None:
    """Remove a temporary file unless a process writes it."""
    with suppress(OSError):
        if sys.platform == "win32":
            path.unlink()
            return
        import fcntl

        with path.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if it is held
            path.unlink()
