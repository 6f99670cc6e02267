"""Mean of each example's losses over the last epochs (DivideMix at 90 % noise)."""

import torch
from torch import Tensor, nn


class LossHistory(nn.Module):
    """Losses of both networks in the last `length` epochs.

    The losses of a network in an epoch are scaled to [0, 1].
    """

    past: Tensor

    def __init__(self, length: int, given: Tensor) -> None:
        super().__init__()
        past = torch.full((length, 2, len(given)), torch.nan, device=given.device)
        self.register_buffer("past", past)

    def smooth(self, losses: Tensor) -> Tensor:
        """Store (2, N) losses of this epoch; return the (2, N) mean over the stored epochs.

        With a length of 1 the losses are returned as they are, unscaled.
        """
        if len(self.past) == 1:
            return losses
        low, high = losses.amin(1, keepdim=True), losses.amax(1, keepdim=True)
        scaled = (losses - low) / (high - low).clamp(min=1e-12)
        self.past = torch.cat([scaled[None], self.past[:-1]])
        return self.past.nanmean(0)
