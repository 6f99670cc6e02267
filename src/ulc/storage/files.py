"""Write files atomically, and read npz files without unpickling."""

import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ulc.errors import InputError, first_line, is_of_system
from ulc.storage.memory import check_file, check_memory
from ulc.storage.temporary import hold, remove_temporaries, temporary_path


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
    if path.exists() and not path.is_file():
        raise InputError(f"{option} {path}: a pipe or device; give the name of a file")
    for name, other in (inputs or {}).items():
        if path.exists() and other.exists() and path.samefile(other):
            raise InputError(f"{option} {path}: these are {name} themselves; {remedy}")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: a temporary file beside it is written, flushed and renamed.

    Temporary files that killed processes have left of the same file are removed first.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(f"{path}: a pipe or device, which a file would replace; choose a file")
    try:
        remove_temporaries(path.parent, path.name)
        try:
            replace_file(path, content)
        except FileNotFoundError:
            # Another process that writes this file can take ours for a left one, before it is held.
            replace_file(path, content)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}); choose another place, "
            "or make this one writable"
        ) from None


def replace_file(path: Path, content: bytes) -> None:
    """Write a temporary file and rename it to `path`; remove it after an error."""
    temporary = temporary_path(path)
    try:
        # Mode x opens with O_EXCL and permissions 0o666, less the user's umask.
        with temporary.open("xb") as stream:
            hold(stream)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_npz(
    file: Path | BinaryIO, wanted: Callable[[str], bool] | None = None
) -> dict[str, NDArray[Any]]:
    """Read arrays of an npz file by name; raise a ValueError if the file is damaged.

    All headers are read first: what the arrays would take in memory must be within the bound.
    Object arrays are refused, because reading their pickle could run code.

    wanted: function from a name to whether the array is read; None: all arrays are read
    """
    if isinstance(file, Path):
        check_file(file)
    with one_reason(), zipfile.ZipFile(file) as archive:
        members = {each.filename.removesuffix(".npy"): each for each in archive.infolist()}
        chosen = {k: each for k, each in members.items() if wanted is None or wanted(k)}
        needed = sum(member_size(archive, each) for each in chosen.values())
        check_memory(needed, f"{file if isinstance(file, Path) else 'the npz file'}: its arrays")
        return {name: read_member(archive, each) for name, each in chosen.items()}


@contextmanager
def one_reason() -> Iterator[None]:
    """Context manager: turn what zipfile and NumPy raise for a damaged file into a ValueError."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        if is_of_system(error):
            raise
        pickled = "pickle" in str(error)
        reason = "it holds pickled objects, which could run code" if pickled else first_line(error)
        raise ValueError(reason) from None


def npz_names(path: Path) -> list[str]:
    """Return the names of the arrays of an npz file; raise a ValueError if it is damaged."""
    check_file(path)
    with one_reason(), zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def member_size(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """Return the memory in bytes that a stored array takes, by its header.

    (N, D) arrays are inputs, and a copy of them as float32 is counted too.
    """
    with archive.open(member) as stream:
        shape, _, dtype = read_npy_header(stream)
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * max(dtype.itemsize, 1) > member.file_size:
        raise ValueError(f"{member.filename} holds less than its header says")
    return count * (dtype.itemsize + (4 if len(shape) == 2 else 0))


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Return a stored array."""
    with archive.open(member) as stream:
        array: NDArray[Any] = np.lib.format.read_array(stream)
    if array.dtype.kind == "U" and array.dtype.itemsize:
        numbers = np.ascontiguousarray(array).reshape(-1).view(f"{array.dtype.byteorder}u4")
        # Python cannot make a text of such numbers, or cannot write it.
        if ((numbers > 0x10FFFF) | ((numbers >= 0xD800) & (numbers < 0xE000))).any():
            raise ValueError(f"{member.filename} holds text that is no Unicode")
    return array


def read_npy_header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, memory order (True: Fortran's) and type of a stored array."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(stream)
    raise ValueError(f"an array is stored in the unknown version {version}")
