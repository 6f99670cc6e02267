"""Select rows of a tensor."""

import math

from torch import Tensor

VALUES_AT_ONCE = 1024 * 3 * 32 * 32  # of 1,024 images of 32 pixels a side


def rows_at_once(shape: tuple[int, ...], most: int = 1024) -> int:
    """Number of rows in a batch of evaluation: fewer if the inputs are large images.

    A network's activations grow with the pixels, so that 1,024 photographs would fill a GPU.

    shape: of one input, (C, H, W) or (D,); most: largest number of rows
    """
    if len(shape) == 1:
        return most
    return min(most, max(1, VALUES_AT_ONCE // math.prod(shape)))


def rows_at(values: Tensor, index: Tensor) -> Tensor:
    """Return `values[index]` for (N, …) values and a (B,) index.

    Channels-last images stay channels-last; torch's own indexing would be slow for them.
    """
    if values.ndim == 4:
        return values.permute(0, 2, 3, 1).index_select(0, index).permute(0, 3, 1, 2)
    return values.index_select(0, index)
