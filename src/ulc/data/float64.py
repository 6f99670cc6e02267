"""Numbers of double precision, on the CPU where a device has none."""

import torch
from torch import Tensor

WITHOUT_FLOAT64 = {"mps"}  # types of devices


def float64_device(device: torch.device) -> torch.device:
    """The device itself if it has float64, else the CPU."""
    return torch.device("cpu") if device.type in WITHOUT_FLOAT64 else device


def to_float64(values: Tensor) -> Tensor:
    """The values as float64, on `float64_device`."""
    return values.to(float64_device(values.device)).double()
