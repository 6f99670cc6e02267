"""Write files atomically, and read npz files without unpickling."""

import os
import re
import secrets
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ulc.errors import InputError

TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}")  # names of the temporary files of `write_whole`


def check_output_file(
    option: str,
    path: Path,
    *,
    endings: Sequence[str] = (),
    inputs: Mapping[str, Path] | None = None,
    remedy: str = "give another name",
) -> None:
    """Raise an InputError if a file cannot or must not be written; to be called before the work.

    option: command-line option that names the file, for the message
    endings: allowed endings of the file's name; empty: any ending
    inputs: files that must not be overwritten; the key, a plural such as "the images", says what
        the file holds
    remedy: what the user can do if the file is one of `inputs`
    """
    if endings and path.suffix.lower() not in endings:
        raise InputError(f"{option} {path}: let the name end in {' or '.join(endings)}")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{option} {path}: there is no folder {path.parent}; make it first")
    if path.is_dir():
        raise InputError(f"{option} {path}: a folder; give the name of a file")
    for name, other in (inputs or {}).items():
        if path.exists() and other.exists() and path.samefile(other):
            raise InputError(f"{option} {path}: these are {name} themselves; {remedy}")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: a temporary file beside it is written, flushed and renamed."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        try:
            # Mode x opens with O_EXCL and permissions 0o666, less the user's umask.
            with temporary.open("xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}); choose another place, "
            "or make this one writable"
        ) from None


def remove_temporaries(folder: Path) -> None:
    """Remove the temporary files that a killed process has left in the folder.

    To be called while no other process writes there.
    """
    for path in folder.iterdir():
        if TEMPORARY.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def read_npz(file: Path | BinaryIO) -> dict[str, NDArray[Any]]:
    """Read all arrays of an npz file by name; raise a ValueError if the file is damaged.

    Object arrays are refused, because reading their pickle could run code.
    """
    arrays = {}
    try:
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                with archive.open(name) as member:
                    arrays[name.removesuffix(".npy")] = np.lib.format.read_array(member)
    except (EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(str(error)) from None
    except ValueError as error:
        pickled = "pickle" in str(error)
        reason = "it holds pickled objects, which could run code" if pickled else str(error)
        raise ValueError(reason) from None
    return arrays
