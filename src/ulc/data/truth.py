"""What only the examiner knows: true labels and the test set."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ulc.typing import Integers


@dataclass(frozen=True)
class TestSet:
    """Inputs as stored in memory, with true labels."""

    __test__ = False  # pytest, this is no test

    stored: Tensor
    labels: Integers


@dataclass(frozen=True)
class Truth:
    """True labels of the training set and a test set, where they are known."""

    train: Integers | None
    test: TestSet | None
    small: NDArray[np.bool_]


def small_classes(labels: Integers, classes: int) -> NDArray[np.bool_]:
    """(K,) the classes with less than the mean size, if sizes differ by half or more."""
    sizes = np.bincount(labels, minlength=classes)
    if sizes.max() < 1.5 * sizes.min():
        return np.zeros(classes, bool)
    return sizes < sizes.mean()
