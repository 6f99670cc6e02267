"""Constants as tensors, copied to a device once."""

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def constant(values: tuple[float, ...], device: torch.device, *, repeats: int = 1) -> Tensor:
    """(repeats · len(values),) float32 numbers on the device: `values`, repeated as a whole.

    A copy to a GPU makes the processor wait, so it is made once and kept.
    """
    if device.type == "cpu":
        return torch.from_numpy(repeated(values, repeats))
    return kept_on_device(values, device, repeats)


@cache  # an array, because tensors made during an ONNX export hold no values
def repeated(values: tuple[float, ...], repeats: int) -> NDArray[np.float32]:
    """The numbers of `constant` as an array."""
    return np.tile(np.asarray(values, np.float32), repeats)


@cache
def kept_on_device(values: tuple[float, ...], device: torch.device, repeats: int) -> Tensor:
    """The numbers of `constant` on a device other than the CPU."""
    return torch.from_numpy(repeated(values, repeats)).to(device)
