"""How well an order puts what is sought first."""

import numpy as np
from numpy.typing import NDArray

from ulc.typing import Floats


def ranking(values: Floats, sought: NDArray[np.bool_]) -> tuple[float | None, float | None]:
    """AUC and average precision of taking the smallest values first; None where all are alike.

    AUC: the chance that something sought has a smaller value than something else, ties half.
    Average precision: precision at each value, weighted by the share of the sought that it adds.
    """
    total = int(sought.sum())
    if total in (0, len(sought)):
        return None, None
    order = values.argsort(kind="stable")
    last = np.append(np.diff(values[order]) > 0, True).nonzero()[0]  # of equal values
    found = sought[order].cumsum()[last]
    taken = last + 1
    added = np.diff(found, prepend=0)
    others = np.diff(taken - found, prepend=0)
    pairs = (others * (found - added / 2)).sum()
    auc = pairs / (total * (len(sought) - total))
    return float(auc), float((added * found / taken).sum() / total)
