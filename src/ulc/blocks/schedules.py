"""Ramps: weights that grow from 0 to 1 with epochs or steps."""

import math


def linear_rampup(since: float, length: float) -> float:
    """Weight that grows linearly from 0 to 1 over `length`; always 1 if `length` is 0.

    since: epochs or steps since the start of the ramp; length: in the same unit
    """
    if length <= 0:
        return 1.0
    return min(max(since / length, 0.0), 1.0)


def sigmoid_rampup(since: float, length: float) -> float:
    """Weight exp(−5(1 − since/length)²), which grows from nearly 0 to 1; see `linear_rampup`."""
    return math.exp(-5 * (1 - linear_rampup(since, length)) ** 2)
