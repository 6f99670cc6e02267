"""Rows that are held out: a training does not learn from them and is measured on them."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from ulc.data.preprocessing import Preprocessing
from ulc.typing import Integers


@dataclass(frozen=True)
class HeldOutRows:
    """V rows that are held out of the training.

    positions: (V,) places among all rows
    stored: (V, …) inputs as training data keep them; `preprocessing` makes them ready
    given: (V,) labels as they came
    weights: (V,) sample weights; None: all rows count alike
    """

    positions: Integers
    stored: Tensor
    given: Tensor
    preprocessing: Preprocessing
    weights: Tensor | None = None


def draw_held_out(given: Integers, share: float, rng: np.random.Generator) -> Integers:
    """Draw positions of about `share` of the rows, in order; every class keeps a row to learn from.

    The result is empty if every class has one row.
    """
    order = rng.permutation(len(given))
    _, first = np.unique(given[order], return_index=True)
    spare = np.delete(order, first)
    return np.sort(spare[: count_held_out(given, share)])


def count_held_out(given: Integers, share: float) -> int:
    """How many rows `draw_held_out` draws."""
    return min(max(1, round(share * len(given))), len(given) - len(np.unique(given)))
