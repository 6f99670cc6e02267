"""Safetensors files with a JSON description and a checksum in their header."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from ulc.errors import InputError, first_line
from ulc.storage.files import write_whole


@dataclass(frozen=True)
class TensorFileKind:
    """A kind of safetensors file, for error messages.

    what: noun for the file
    missing, damaged: what the user can do if the file is missing or damaged
    """

    what: str
    missing: str
    damaged: str

    def unreadable(self, path: Path, error: Exception) -> InputError:
        """Return the error for a damaged file."""
        return InputError(
            f"{path}: not a readable {self.what} ({first_line(error)}); {self.damaged}"
        )


def write_tensors(
    path: Path, description: str, tensors: Mapping[str, Tensor], **texts: str
) -> None:
    """Write tensors, which are on the CPU and contiguous, by name.

    description: JSON text; texts: further texts for the header, which are not read back
    """
    checksum = digest_tensors(description, tensors)
    header = {**texts, "ulc": description, "checksum": checksum}
    write_whole(path, with_fixed_header(safetensors.torch.save(dict(tensors), header)))


def with_fixed_header(content: bytes) -> bytes:
    """Return the bytes of a safetensors file with its header in sorted order.

    safetensors writes the texts of the header in an order that changes from call to call.
    """
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True, separators=(",", ":"))
    packed = header.encode()
    packed += b" " * (-len(packed) % 8)  # tensors begin at a multiple of 8
    return len(packed).to_bytes(8, "little") + packed + content[8 + size :]


def read_tensors(path: Path, kind: TensorFileKind) -> tuple[Any, dict[str, Tensor]]:
    """Read a file: return its description, and its tensors by name."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        check_digest(header, tensors)
        return json.loads(header["ulc"]), tensors
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {kind.missing}") from None
    except Exception as error:
        # safetensors raises several types for a damaged file.
        raise kind.unreadable(path, error) from None


def check_digest(header: Mapping[str, str], tensors: Mapping[str, Tensor]) -> None:
    """Raise a ValueError unless the header has the digest of its description and the tensors."""
    if header.get("checksum") != digest_tensors(header["ulc"], tensors):
        raise ValueError("its checksum differs")


def digest_tensors(description: str, tensors: Mapping[str, Tensor]) -> str:
    """Return a digest of the description and of names, types, shapes and values of the tensors."""
    found = hashlib.sha256(description.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
