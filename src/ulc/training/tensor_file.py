"""Tensors in one safetensors file, with a description as JSON in its header."""

import json
from pathlib import Path
from typing import Any

import safetensors
from torch import Tensor

from ulc.errors import InputError


def read_tensors(path: Path, what: str, remedy: str) -> tuple[Any, dict[str, Tensor]]:
    """The description and the tensors by name; `what` the file is and the `remedy` if it is not."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            description = json.loads((file.metadata() or {})["ulc"])
            return description, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; give the path of a saved {what}") from None
    except Exception as error:
        # safetensors raises several kinds for a damaged file.
        raise unreadable(path, what, remedy, error) from None


def unreadable(path: Path, what: str, remedy: str, error: Exception) -> InputError:
    """One sentence for a file that is not what it should be."""
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return InputError(f"{path}: not a readable {what} ({reason}); {remedy}")
