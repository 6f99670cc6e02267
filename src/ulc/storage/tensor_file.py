"""Read safetensors files that have a JSON description in their header."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
from torch import Tensor

from ulc.errors import InputError, first_line


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
            description = json.loads((file.metadata() or {})["ulc"])
            return description, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {kind.missing}") from None
    except Exception as error:
        # safetensors raises several types for a damaged file.
        raise kind.unreadable(path, error) from None
