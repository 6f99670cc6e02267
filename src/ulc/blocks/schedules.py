"""How a weight grows with the epochs."""


def linear_rampup(epochs_since: float, length: float) -> float:
    """From 0 to 1 over `length` epochs; 1 at once if there are none."""
    if length <= 0:
        return 1.0
    return min(max(epochs_since / length, 0.0), 1.0)
