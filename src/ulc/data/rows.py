"""Select rows of a tensor."""

from torch import Tensor


def rows_at(values: Tensor, index: Tensor) -> Tensor:
    """Return `values[index]` for (N, …) values and a (B,) index.

    Channels-last images stay channels-last; torch's own indexing would be slow for them.
    """
    if values.ndim == 4:
        return values.permute(0, 2, 3, 1).index_select(0, index).permute(0, 3, 1, 2)
    return values.index_select(0, index)
