"""AUC and average precision of a ranking."""

import numpy as np
from numpy.typing import NDArray

from ulc.typing import Floats


def ranking(values: Floats, sought: NDArray[np.bool_]) -> tuple[float | None, float | None]:
    """AUC and average precision of ranking by ascending value; None if all or none are sought.

    values: (N,); sought: (N,) mask of the items that should have small values

    AUC: probability that a sought item has a smaller value than another one; ties count half.
    Average precision: precision at each value, weighted by the gain in recall.
    """
    total = int(sought.sum())
    if total in (0, len(sought)):
        return None, None
    order = values.argsort(kind="stable")
    last = np.append(np.diff(values[order]) > 0, True).nonzero()[0]  # of each run of equal values
    found = sought[order].cumsum()[last]
    taken = last + 1
    added = np.diff(found, prepend=0)
    others = np.diff(taken - found, prepend=0)
    pairs = (others * (found - added / 2)).sum()
    auc = pairs / (total * (len(sought) - total))
    return float(auc), float((added * found / taken).sum() / total)
