"""A paired test of two predictions of the same rows."""

import numpy as np

from ulc.typing import Floats

ONE_SIDED_95 = 1.64  # standard errors that chance exceeds in 5 % of cases


def is_significantly_negative(difference: Floats, weights: Floats | None = None) -> bool:
    """Whether the weighted mean of (V,) differences is negative by more than 1.64 errors.

    weights: (V,), of sum 1; None: equal ones
    """
    if weights is None:
        weights = np.full(len(difference), 1 / len(difference))
    mean = float((weights * difference).sum())
    error = float(np.sqrt((weights**2 * (difference - mean) ** 2).sum()))
    return mean < -ONE_SIDED_95 * error
