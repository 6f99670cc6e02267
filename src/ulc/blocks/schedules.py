"""How a weight grows with the epochs or the steps."""

import math


def linear_rampup(epochs_since: float, length: float) -> float:
    """From 0 to 1 over `length` epochs; 1 at once if there are none."""
    if length <= 0:
        return 1.0
    return min(max(epochs_since / length, 0.0), 1.0)


def sigmoid_rampup(since: float, length: float) -> float:
    """exp(−5(1 − t/L)²): from nearly 0 to 1 over `length`; 1 at once if there is none."""
    return math.exp(-5 * (1 - linear_rampup(since, length)) ** 2)
