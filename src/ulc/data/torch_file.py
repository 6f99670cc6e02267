"""Read what `torch.save` wrote; nothing in the file is called, and its sizes are checked first.

torch's own reader finds the members of a zip by another rule than Python, and calls functions that
take memory for a number, such as `bytearray(10**12)`. This one executes only the instructions that
tensors, dictionaries, lists and numbers need, and makes the tensors itself.
"""

import io
import sys
import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO

import torch
from torch import Tensor

from ulc.data.sources.pickle_machine import PickleError, run_pickle
from ulc.data.torch_pickle import STATES, TorchMachine
from ulc.errors import InputError, is_of_system, is_out_of_memory
from ulc.storage.memory import check_memory

TEXT_COPIES = 5  # bytes of memory that a byte of text in a pickle takes beside itself
PIECE = 2**20  # bytes that are read at once
ZIP = b"PK\3\4"  # what files of today's format begin with
# What files of the older format begin with: a magic number, then the version.
OLDER = (0x1950A86A20F9469CFC6C, 1001)


def read_torch(stream: BinaryIO, file: str, names: Mapping[str, str] = STATES) -> Any:
    """Return what `torch.save` wrote, with tensors on the CPU.

    Raise a PickleError if the file is damaged or holds something else, an InputError if it is above
    the bound of memory, a MemoryError if there is no memory.

    file: its name, for errors about the bound of memory
    names: the functions and classes that it may name
    """
    begin = stream.read(len(ZIP))
    stream.seek(0)
    try:
        if begin != ZIP:
            return read_older(stream, file, names)
        with zipfile.ZipFile(stream) as archive:
            return read_zip(archive, file, names)
    except (InputError, PickleError):
        raise
    except Exception as error:  # a damaged file can raise any error
        if is_out_of_memory(error):
            raise MemoryError(str(error)) from None
        if is_of_system(error):
            raise
        raise PickleError(type(error).__name__) from None


def read_zip(archive: zipfile.ZipFile, file: str, names: Mapping[str, str]) -> Any:
    """Return the content of a file of today's format: a pickle, and a member for each storage."""
    sizes = {member.filename: member.file_size for member in archive.infolist()}
    place = next((name for name in sizes if name.endswith("/data.pkl")), None)
    if place is None:
        raise PickleError("it has no data.pkl")
    check_memory(sum(sizes.values()) + TEXT_COPIES * sizes[place], f"{file}: its content")
    folder = place.removesuffix("data.pkl")

    def read(name: str) -> Tensor:
        raw = torch.empty(sizes[name], dtype=torch.uint8, device="cpu")
        try:
            with archive.open(name) as member:
                fill(raw, member)
                member.read(1)  # at its end, zipfile compares the checksum
        except zipfile.BadZipFile:
            raise PickleError(f"{name} fails its checksum") from None
        return raw

    def load(key: str, count: int, item: int) -> Tensor:
        name = f"{folder}data/{key}"
        if sizes.get(name) != count * item:
            raise PickleError("a storage is missing, or has another size")
        return read(name)

    if f"{folder}byteorder" in sizes:
        check_order(bytes(read(f"{folder}byteorder").numpy()) == sys.byteorder.encode())
    machine = TorchMachine(file=file, load=load, names=names)
    return run_pickle(bytes(read(place).numpy()), machine)


def read_older(stream: BinaryIO, file: str, names: Mapping[str, str]) -> Any:
    """Return the content of a file of the older format: five pickles, then all storages.

    left: storages that are not filled yet, with the number of their elements
    """
    left: dict[str, tuple[Tensor, int]] = {}
    room = stream.seek(0, io.SEEK_END)
    stream.seek(0)

    def load(key: str, count: int, item: int) -> Tensor:
        nonlocal room
        room -= count * item
        if room < 0:
            raise PickleError("a storage is larger than the file")
        raw = torch.empty(count * item, dtype=torch.uint8, device="cpu")
        left[key] = raw, count
        return raw

    def read() -> Any:
        return run_pickle(stream, TorchMachine(file=file, load=load, names=names))

    if (read(), read()) != OLDER:
        raise PickleError("it was not written by torch.save")
    check_order(read()["little_endian"] == (sys.byteorder == "little"))
    content = read()
    for key in read():
        raw, count = take(left, key)
        if int.from_bytes(stream.read(8), "little") != count:
            raise PickleError("a storage has another size")
        fill(raw, stream)
    if left:
        raise PickleError("a storage is missing")
    return content


def take(left: dict[str, tuple[Tensor, int]], key: Any) -> tuple[Tensor, int]:
    """Take a storage that is not filled yet, and the number of its elements."""
    if not isinstance(key, str) or key not in left:
        raise PickleError("it has a storage that no tensor has")
    return left.pop(key)


def check_order(same: bool) -> None:
    """Raise a PickleError unless bytes of numbers are in this machine's order."""
    if not same:
        raise PickleError("the bytes of its numbers are in another order")


def fill(raw: Tensor, stream: Any) -> None:
    """Fill a tensor of bytes from a stream; raise a PickleError if it ends before.

    Pieces, because a member of a zip is copied once more while it is read.
    """
    whole = memoryview(raw.numpy().data)
    for start in range(0, len(whole), PIECE):
        piece = whole[start : start + PIECE]
        if stream.readinto(piece) != len(piece):
            raise PickleError("a storage is cut short")
