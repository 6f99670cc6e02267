"""A bound of the memory that one file may take; checked by its header, before it is read."""

import errno
import os
import re
from pathlib import Path

from ulc.errors import InputError

VARIABLE = "ULC_MEMORY_LIMIT"
SHARE = 0.5  # of the machine's memory: the default bound
SMALL = 16 * 2**20  # bytes of a file of a run folder that are always read
UNKNOWN = 8 * 2**30  # the machine's memory in bytes where the system does not tell it
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def memory_limit() -> int:
    """Return the bound in bytes: the environment variable, else half of the machine's memory."""
    text = os.environ.get(VARIABLE, "").strip()
    return parse_bytes(text, VARIABLE) if text else int(SHARE * machine_memory())


def parse_bytes(text: str, variable: str) -> int:
    """Return a number of bytes from text such as 8GB; variable: where it stands, for the error."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", text.upper())
    if match is None:
        raise InputError(f"{variable}={text}: give bytes, or a number with a unit such as 8GB")
    return int(float(match[1]) * UNITS[match[2]])


def machine_memory() -> int:
    """Return the size of the machine's memory in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return UNKNOWN


def check_memory(needed: int, what: str) -> None:
    """Raise an InputError if `needed` bytes are above the bound.

    what: the file and what it holds, as the subject of the sentence
    """
    limit = memory_limit()
    if needed > limit:
        raise InputError(
            f"{what} would take {show_bytes(needed)} of memory, more than the {show_bytes(limit)} "
            f"that one file may take; make it smaller, or set {VARIABLE}, such as {VARIABLE}=32GB"
        )


def show_bytes(count: int) -> str:
    """Return a number of bytes as text, such as 7.2 GB."""
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.1f} MB"


def check_file(path: Path, copies: int = 1) -> None:
    """Raise an OSError unless `path` is a regular file, an InputError if it exceeds the bound.

    A pipe could be waited for without end.

    copies: how often its content is in memory
    """
    size = path.stat().st_size
    if not path.is_file():
        raise OSError(errno.EINVAL, "no regular file")
    check_memory(copies * size, str(path))


def read_file(path: Path) -> bytes:
    """Return the content of a regular file that fits the bound."""
    check_file(path)
    return path.read_bytes()


def read_run_file(path: Path) -> bytes:
    """Return the content of a file of a run folder: it is small or fits the bound.

    A bound below the size of a small model is meant for the data.
    """
    if path.is_file() and path.stat().st_size <= SMALL:
        return path.read_bytes()
    return read_file(path)
