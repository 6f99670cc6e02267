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

from ulc.data.sources.unpickling import PickleError, run_pickle
from ulc.data.torch_pickle import STATES, TorchMachine
from ulc.storage.memory import check_memory

TEXT_COPIES = 5  # bytes of memory that a byte of text in a pickle takes beside itself
# What files of the older format begin with: a magic number, then the version.
OLDER = (0x1950A86A20F9469CFC6C, 1001)


def read_torch(stream: BinaryIO, file: str, names: Mapping[str, str] = STATES) -> Any:
    """Return what `torch.save` wrote, with tensors on the CPU; raise an error if it is damaged.

    file: its name, for errors about the bound of memory
    names: the functions and classes that it may name
    """
    if zipfile.is_zipfile(stream):
        with zipfile.ZipFile(stream) as archive:
            return read_zip(archive, file, names)
    stream.seek(0)
    return read_older(stream, file, names)


def read_zip(archive: zipfile.ZipFile, file: str, names: Mapping[str, str]) -> Any:
    """Return the content of a file of today's format: a pickle, and a member for each storage."""
    sizes = {member.filename: member.file_size for member in archive.infolist()}
    place = next((name for name in sizes if name.endswith("/data.pkl")), "")
    needed = sum(member.file_size for member in archive.infolist())
    check_memory(needed + TEXT_COPIES * sizes.get(place, 0), f"{file}: its content")
    broken = archive.testzip()
    if broken is not None:
        raise PickleError(f"{broken} fails its checksum")
    folder = place.removesuffix("data.pkl")
    if f"{folder}byteorder" in sizes:
        check_order(archive.read(f"{folder}byteorder") == sys.byteorder.encode())

    def load(key: str, size: int) -> Tensor:
        member = f"{folder}data/{key}"
        if sizes.get(member) != size:
            raise PickleError("a storage is missing, or has another size")
        with archive.open(member) as stream:
            return fill(torch.empty(size, dtype=torch.uint8, device="cpu"), stream)

    return run_pickle(archive.read(place), TorchMachine(file=file, load=load, names=names))


def read_older(stream: BinaryIO, file: str, names: Mapping[str, str]) -> Any:
    """Return the content of a file of the older format: five pickles, then all storages."""
    left: dict[str, Tensor] = {}
    room = stream.seek(0, io.SEEK_END)
    stream.seek(0)

    def load(key: str, size: int) -> Tensor:
        nonlocal room
        room -= size
        if room < 0:
            raise PickleError("a storage is larger than the file")
        left[key] = torch.empty(size, dtype=torch.uint8, device="cpu")
        return left[key]

    def read() -> Any:
        return run_pickle(stream, TorchMachine(file=file, load=load, names=names))

    if (read(), read()) != OLDER:
        raise PickleError("it was not written by torch.save")
    check_order(read()["little_endian"] == (sys.byteorder == "little"))
    content = read()
    for key in read():
        stream.read(8)  # the number of its elements, which the pickle has told
        fill(left.pop(key), stream)
    if left:
        raise PickleError("a storage is missing")
    return content


def check_order(same: bool) -> None:
    """Raise a PickleError unless bytes of numbers are in this machine's order."""
    if not same:
        raise PickleError("the bytes of its numbers are in another order")


def fill(raw: Tensor, stream: Any) -> Tensor:
    """Fill a tensor of bytes from a stream; raise a PickleError if it ends before."""
    if stream.readinto(raw.numpy().data) != len(raw):
        raise PickleError("a storage is cut short")
    return raw
