"""Inject wrong labels as in the literature; every function returns new labels."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ulc.config import NoiseSpec
from ulc.data.sources.cifar import CIFAR10_CLASSES
from ulc.errors import InputError
from ulc.typing import Floats, Integers

# Asymmetric noise of Patrini et al. (2017): true class and the class it is mistaken for.
CIFAR10_MAP = {
    "truck": "automobile",
    "bird": "airplane",
    "deer": "horse",
    "cat": "dog",
    "dog": "cat",
}


def corrupt(
    labels: Integers, class_names: Sequence[str], spec: NoiseSpec, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return a copy of the labels with the noise of `spec`, which has any kind except "file"."""
    classes = len(class_names)
    if spec.kind == "symmetric":
        return symmetric(labels, classes, spec.rate, rng)
    if spec.kind == "symmetric_inclusive":
        return symmetric_inclusive(labels, classes, spec.rate, rng)
    if spec.kind == "asymmetric":
        return asymmetric(labels, class_names, spec.rate, rng)
    if spec.kind == "pair_flip":
        return by_matrix(labels, pair_flip_matrix(classes, spec.rate), rng)
    if spec.kind == "matrix":
        return by_matrix(labels, checked_matrix(spec.matrix or (), classes), rng)
    return labels.astype(np.int64)


def symmetric(
    labels: Integers, classes: int, rate: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Change exactly int(rate·N) labels to another class, all others being equally likely (ULC)."""
    noisy, chosen = choose_labels(labels, rate, rng)
    noisy[chosen] = (labels[chosen] + rng.integers(1, classes, len(chosen))) % classes
    return noisy


def symmetric_inclusive(
    labels: Integers, classes: int, rate: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Redraw exactly int(rate·N) labels from all classes, so some keep their class (DivideMix)."""
    noisy, chosen = choose_labels(labels, rate, rng)
    noisy[chosen] = rng.integers(0, classes, len(chosen))
    return noisy


def asymmetric(
    labels: Integers, class_names: Sequence[str], rate: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Map exactly int(rate·N) labels by `CIFAR10_MAP`; classes that are not in it stay."""
    names = [name.strip().lower() for name in class_names]
    if sorted(names) != sorted(CIFAR10_CLASSES):
        raise InputError(
            f"asymmetric noise is defined for the ten classes of CIFAR-10 (airplane, automobile, "
            f"…), not for these {len(names)} classes ({class_names[0]}, …); use pair_flip or a "
            "matrix"
        )
    target = np.array([names.index(CIFAR10_MAP.get(name, name)) for name in names])
    noisy, chosen = choose_labels(labels, rate, rng)
    noisy[chosen] = target[labels[chosen]]
    return noisy


def choose_labels(
    labels: Integers, rate: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], Integers]:
    """Return a copy of the labels, and the positions of int(rate·N) labels drawn at random."""
    # In floating point 0.29·100 is 28.999…, so int() needs a small tolerance.
    count = int(rate * len(labels) + 1e-9)
    return labels.astype(np.int64), rng.permutation(len(labels))[:count]


def pair_flip_matrix(classes: int, rate: float) -> Floats:
    """Return the (K, K) matrix by which each class becomes the next with probability `rate`.

    The class after the last is the first.
    """
    return (1 - rate) * np.eye(classes) + rate * np.roll(np.eye(classes), 1, axis=1)


def by_matrix(labels: Integers, transition: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Change exactly those shares of each class that its row of the (K, K) `transition` states.

    The largest-remainder method rounds the shares to whole numbers of labels.
    """
    noisy = labels.astype(np.int64)
    for k, row in enumerate(transition):
        members = rng.permutation(np.flatnonzero(labels == k))
        noisy[members] = np.repeat(np.arange(len(row)), whole_shares(row, len(members)))
    return noisy


def whole_shares(shares: Floats, total: int) -> Integers:
    """Split `total` into whole numbers in proportion to `shares` (largest-remainder method)."""
    exact = shares / shares.sum() * total
    counts = np.floor(exact).astype(np.int64)
    remainder = total - counts.sum()
    counts[np.argsort(counts - exact, kind="stable")[:remainder]] += 1
    return counts


def checked_matrix(matrix: ArrayLike, classes: int) -> Floats:
    """Return the matrix as an array; raise if a row is not a probability distribution."""
    try:
        transition = np.asarray(matrix, float)
    except ValueError:
        raise InputError(
            f"noise.matrix has rows of different lengths; make it {classes} by {classes}"
        ) from None
    if transition.shape != (classes, classes):
        raise InputError(
            f"noise.matrix has shape {transition.shape}; make it {classes} by {classes}"
        )
    if (transition < 0).any() or not np.allclose(transition.sum(1), 1):
        row = int(((transition < 0).any(1) | ~np.isclose(transition.sum(1), 1)).argmax())
        raise InputError(
            f"noise.matrix: row {row} (counted from 0) is not a probability distribution; "
            "its entries must be ≥ 0 with sum 1"
        )
    return transition


def realised_transition(true: Integers, given: Integers, classes: int) -> Floats:
    """Return (K, K) shares of each true class (row) that have each given label (column).

    The row of a class without examples is 0.
    """
    counts = np.zeros((classes, classes))
    np.add.at(counts, (true, given), 1)
    return counts / np.maximum(counts.sum(1, keepdims=True), 1)
