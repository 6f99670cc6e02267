"""Dropout that is not slower than the layers around it."""

import torch
from torch import Tensor, nn

LEVELS = 2**16  # chances are multiples of 1/65536


class Dropout(nn.Dropout):
    """Zero each value with probability p, divide the rest by 1 − p.

    Each row draws for itself, as learning wants it; `mask` draws once for all rows, which makes
    the network one of those that dropout stands for.

    On a CPU torch's own draws one random number for each value, and takes three times as long as
    the layer before it. Here four values share one draw of 64 bits.
    """

    def forward(self, values: Tensor) -> Tensor:
        """Values of any shape; unchanged in evaluation mode."""
        if not self.training or values.device.type != "cpu":
            return super().forward(values)
        return values * kept(values, self.p).mul_(1 / (1 - self.p))

    def mask(self, values: Tensor, generator: torch.Generator) -> Tensor:
        """What each value of a row is multiplied by, the same in all rows."""
        drawn = torch.rand(values.shape[1:], generator=generator, device=generator.device)
        return (drawn.ge(self.p) / (1 - self.p)).to(values)


def kept(values: Tensor, p: float) -> Tensor:
    """Ones with probability 1 − p, zeros elsewhere, like `values`."""
    count = values.numel()
    draws = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.int16)[:count].view(values.shape)
    ones = torch.empty(values.shape, dtype=values.dtype)
    return torch.ge(bits, min(round(p * LEVELS), LEVELS - 1) - LEVELS // 2, out=ones)
