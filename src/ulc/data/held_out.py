"""Rows that are held out: a training does not learn from them and is measured on them."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from ulc.data.lazy.training import LazyInputs
from ulc.data.preprocessing import Preprocessing
from ulc.typing import Integers


@dataclass(frozen=True)
class HeldOutRows:
    """V rows that are held out of the training.

    positions: (V,) positions among all rows
    stored: (V, …) inputs as `TensorData` stores them; `preprocessing.ready` normalises them
    given: (V,) given labels
    weights: (V,) sample weights; None: all rows have the same weight
    """

    positions: Integers
    stored: Tensor | LazyInputs
    given: Tensor
    preprocessing: Preprocessing
    weights: Tensor | None = None


def draw_held_out(given: Integers, share: float, rng: np.random.Generator) -> Integers:
    """Draw about `share` of the rows; return their sorted positions.

    At least one row of each class is not drawn, so the result is empty if no class has two rows.
    Otherwise at least one row is drawn.
    """
    order = rng.permutation(len(given))
    _, first = np.unique(given[order], return_index=True)
    spare = np.delete(order, first)
    return np.sort(spare[: count_held_out(given, share)])


def count_held_out(given: Integers, share: float) -> int:
    """How many rows `draw_held_out` draws."""
    return min(max(1, round(share * len(given))), len(given) - len(np.unique(given)))
