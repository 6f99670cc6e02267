"""Make class sizes unequal by leaving out examples."""

import numpy as np

from ulc.config import ImbalanceSpec
from ulc.typing import Integers


def choose_rows(
    labels: Integers, classes: int, spec: ImbalanceSpec, rng: np.random.Generator
) -> Integers:
    """Return sorted positions of the examples to keep, drawn by `rng` from each class."""
    sizes: Integers = np.bincount(labels, minlength=classes)
    if spec.kind == "half":
        sizes = reduce_half_of_classes(sizes, spec.ratio, rng)
    elif spec.kind == "long_tail":
        sizes = long_tail_sizes(sizes, spec.ratio)
    members = (np.flatnonzero(labels == k) for k in range(classes))
    chosen = [rng.permutation(each)[:size] for each, size in zip(members, sizes, strict=True)]
    return np.sort(np.concatenate(chosen))


def reduce_half_of_classes(sizes: Integers, ratio: float, rng: np.random.Generator) -> Integers:
    """Divide the sizes of a random half of the classes by `ratio`, as in the paper."""
    small = rng.permutation(len(sizes))[: len(sizes) // 2]
    reduced = sizes.copy()
    reduced[small] = np.minimum(sizes[small], np.maximum(1, np.rint(sizes[small] / ratio)))
    return reduced


def long_tail_sizes(sizes: Integers, ratio: float) -> Integers:
    """Return sizes of a long tail: they decay exponentially from the first class to the last.

    The first class gets the largest of `sizes`, the last 1/ratio of it; no class grows.
    """
    share = ratio ** (-np.arange(len(sizes)) / max(1, len(sizes) - 1))
    wanted = np.maximum(1, np.rint(sizes.max() * share)).astype(np.int64)
    return np.minimum(wanted, sizes)
