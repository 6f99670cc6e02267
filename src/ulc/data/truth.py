"""True labels and the test set, which no algorithm can reach.

Only code that scores (`training/scores.py`, `auditing/results.py`) reads them, and passes arrays to
`evaluation`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ulc.typing import Integers


@dataclass(frozen=True)
class TestSet:
    """Inputs as stored in memory, with true labels."""

    __test__ = False  # tells pytest that this class is not a test

    stored: Tensor
    labels: Integers


@dataclass(frozen=True)
class Truth:
    """True labels of the training set, and a test set; None where unknown.

    small: (K,) mask of the small classes
    """

    train: Integers | None
    test: TestSet | None
    small: NDArray[np.bool_]


def small_classes(labels: Integers, classes: int) -> NDArray[np.bool_]:
    """(K,) mask of the classes below the mean size; none if the largest is < 1.5 × the smallest."""
    sizes = np.bincount(labels, minlength=classes)
    if sizes.max() < 1.5 * sizes.min():
        return np.zeros(classes, bool)
    return sizes < sizes.mean()
