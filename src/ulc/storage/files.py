"""Files that are written whole or not at all, and read without running what they hold."""

import os
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ulc.errors import InputError


def write_whole(path: Path, content: bytes) -> None:
    """Write to a temporary name beside `path`, flush it to the disk, and rename it."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.chmod(0o666 & ~current_umask())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}); choose another place or free it"
        ) from None


def current_umask() -> int:
    """The mask under which the user creates files (mkstemp ignores it)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_npz(file: Path | BinaryIO) -> dict[str, NDArray[Any]]:
    """All arrays of an npz file, or a ValueError that says what is wrong with it.

    An object array would need a pickle, which could run code, and is refused.
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
