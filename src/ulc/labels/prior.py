"""Class priors: the class frequencies that a prediction assumes."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from ulc.errors import InputError
from ulc.typing import Floats

Prior = Literal["training", "balanced"] | Sequence[float]


def with_prior(probability: Floats, learned: Floats, prior: Prior) -> Floats:
    """(N, K) probabilities, adjusted from the class frequencies `learned` to another prior.

    training: unchanged; balanced: p / learned, normalised; numbers q: p·q / learned, normalised.
    """
    if isinstance(prior, str):
        if check_prior_name(prior) == "training":
            return probability
        wanted = np.full(probability.shape[1], 1 / probability.shape[1])
    else:
        wanted = checked_prior(prior, probability.shape[1])
    # A class may be missing among the corrected labels: its learned frequency is 0.
    weighted = probability * (wanted / np.maximum(learned, 1e-6))
    return weighted / np.maximum(weighted.sum(1, keepdims=True), 1e-30)


def check_prior_name(prior: str) -> Literal["training", "balanced"]:
    """The name of a prior; raise an InputError if it is unknown."""
    if prior == "training":
        return "training"
    if prior == "balanced":
        return "balanced"
    raise InputError(f"unknown prior '{prior}'; use training, balanced or a number per class")


def checked_prior(prior: Sequence[float], classes: int) -> Floats:
    """The numbers divided by their sum; raise an InputError if they do not fit."""
    wanted = np.asarray(prior, float)
    if wanted.shape != (classes,) or not (wanted >= 0).all() or not 0 < wanted.sum() < np.inf:
        raise InputError(
            f"prior {list(prior)} does not fit; give {classes} non-negative numbers, not all zero"
        )
    return wanted / wanted.sum()
