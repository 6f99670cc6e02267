"""Rows that are not learned from, so that their given labels can say how training goes."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from ulc.typing import Integers


@dataclass(frozen=True)
class HeldOutRows:
    """The rows that were held out: their positions, inputs as stored, and given labels."""

    positions: Integers
    stored: Tensor
    given: Tensor


def hold_out(given: Integers, share: float, rng: np.random.Generator) -> Integers:
    """Positions of about `share` of the rows, in order; every class keeps a row to learn from."""
    order = rng.permutation(len(given))
    _, first = np.unique(given[order], return_index=True)
    spare = np.delete(order, first)
    return np.sort(spare[: max(1, round(share * len(given)))])
