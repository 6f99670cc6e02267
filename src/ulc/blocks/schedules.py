"""Ramps: weights that grow from 0 to 1 with epochs or steps."""

import math


def linear_rampup(epochs_since: float, length: float) -> float:
    """Linear from 0 to 1 over `length` epochs; always 1 if `length` is 0."""
    if length <= 0:
        return 1.0
    return min(max(epochs_since / length, 0.0), 1.0)


def sigmoid_rampup(since: float, length: float) -> float:
    """exp(−5(1 − t/L)²): from nearly 0 to 1 over `length`; always 1 if `length` is 0."""
    return math.exp(-5 * (1 - linear_rampup(since, length)) ** 2)
