"""Choose the device that a training runs on."""

import torch

from ulc.errors import InputError, first_line


def choose_device(name: str) -> torch.device:
    """The named device; auto: the GPU if there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"device '{name}' does not work here ({first_line(error)}); use cpu"
        ) from None
    return device
