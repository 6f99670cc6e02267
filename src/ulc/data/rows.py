"""Some rows of a tensor."""

from torch import Tensor


def rows_at(values: Tensor, index: Tensor) -> Tensor:
    """`values[index]` of (N, …) values and a (B,) index, copied row by row.

    Images keep their channels last in memory, where torch's own indexing would be slow.
    """
    if values.ndim == 4:
        return values.permute(0, 2, 3, 1).index_select(0, index).permute(0, 3, 1, 2)
    return values.index_select(0, index)
