"""True labels and the test set, which no algorithm can reach.

Only code that scores (`training/scores.py`, `auditing/results.py`) reads them, and passes arrays to
`evaluation`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ulc.data.lazy.training import LazyInputs
from ulc.typing import Integers


@dataclass(frozen=True)
class TestSet:
    """A test set or validation set: inputs as training data store them, and true labels."""

    __test__ = False  # tells pytest that this class is not a test

    stored: Tensor | LazyInputs
    labels: Integers


@dataclass(frozen=True)
class Truth:
    """What only evaluation knows.

    train: (N,) true labels of the training set; None: unknown
    test: the test set; None: there is none
    small: (K,) mask of the small classes
    """

    train: Integers | None
    test: TestSet | None
    small: NDArray[np.bool_]


def small_classes(labels: Integers, classes: int) -> NDArray[np.bool_]:
    """Return the (K,) mask of the classes that are smaller than the mean class size.

    No class counts as small if the largest has less than 1.5 times the examples of the smallest.
    """
    sizes = np.bincount(labels, minlength=classes)
    if sizes.max() < 1.5 * sizes.min():
        return np.zeros(classes, bool)
    return sizes < sizes.mean()
