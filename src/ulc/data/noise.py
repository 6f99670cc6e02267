"""Make labels wrong, in the ways the literature does; the input is never changed in place."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ulc.config import NoiseSpec
from ulc.errors import InputError
from ulc.typing import Floats, Integers

# Look-alike pairs of CIFAR-10: truck to automobile, bird to airplane, deer to horse, cat and dog.
CIFAR10_MAP = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}


def corrupt(
    labels: Integers, classes: int, spec: NoiseSpec, rng: np.random.Generator
) -> NDArray[np.int64]:
    """New labels of which some are wrong, for every kind but 'file'."""
    if spec.kind == "symmetric":
        return symmetric(labels, classes, spec.rate, rng)
    if spec.kind == "symmetric_inclusive":
        return symmetric_inclusive(labels, classes, spec.rate, rng)
    if spec.kind == "asymmetric":
        return asymmetric(labels, classes, spec.rate, rng)
    if spec.kind == "pair_flip":
        return by_matrix(labels, pair_flip_matrix(classes, spec.rate), rng)
    if spec.kind == "matrix":
        return by_matrix(labels, checked_matrix(spec.matrix or (), classes), rng)
    return labels.astype(np.int64)


def symmetric(
    labels: Integers, classes: int, rate: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Exactly int(rate·N) labels move to one of the other classes, each as likely (ULC)."""
    noisy, chosen = start(labels, rate, rng)
    noisy[chosen] = (labels[chosen] + rng.integers(1, classes, len(chosen))) % classes
    return noisy


def symmetric_inclusive(
    labels: Integers, classes: int, rate: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Exactly int(rate·N) labels are redrawn from all classes, their own among them (DivideMix)."""
    noisy, chosen = start(labels, rate, rng)
    noisy[chosen] = rng.integers(0, classes, len(chosen))
    return noisy


def asymmetric(
    labels: Integers, classes: int, rate: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Exactly int(rate·N) labels go through CIFAR-10's map, which leaves five classes alone."""
    if classes != 10:
        raise InputError(
            f"asymmetric noise is CIFAR-10's map of ten classes, not {classes}; "
            "use pair_flip or a matrix"
        )
    target = np.arange(10)
    target[list(CIFAR10_MAP)] = list(CIFAR10_MAP.values())
    noisy, chosen = start(labels, rate, rng)
    noisy[chosen] = target[labels[chosen]]
    return noisy


def start(
    labels: Integers, rate: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], Integers]:
    """A copy of the labels, and which int(rate·N) of them to redraw."""
    # 0.29·100 is 28.999…: a hair is added so that a whole product stays whole.
    count = int(rate * len(labels) + 1e-9)
    return labels.astype(np.int64), rng.permutation(len(labels))[:count]


def pair_flip_matrix(classes: int, rate: float) -> Floats:
    """Each class is taken for the next one with probability `rate`."""
    return (1 - rate) * np.eye(classes) + rate * np.roll(np.eye(classes), 1, axis=1)


def by_matrix(labels: Integers, transition: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Give each class exactly its row's shares of labels (rounded by largest remainder)."""
    noisy = labels.astype(np.int64)
    for k, row in enumerate(transition):
        members = rng.permutation(np.flatnonzero(labels == k))
        noisy[members] = np.repeat(np.arange(len(row)), whole_shares(row, len(members)))
    return noisy


def whole_shares(shares: Floats, total: int) -> Integers:
    """Whole numbers near shares·total that sum to `total`."""
    exact = shares / shares.sum() * total
    counts = np.floor(exact).astype(np.int64)
    remainder = total - counts.sum()
    counts[np.argsort(counts - exact, kind="stable")[:remainder]] += 1
    return counts


def checked_matrix(matrix: ArrayLike, classes: int) -> Floats:
    """The matrix as an array, if it is one of `classes` distributions."""
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
            f"noise.matrix: row {row} is no distribution; make it non-negative with sum 1"
        )
    return transition


def realised_transition(true: Integers, given: Integers, classes: int) -> Floats:
    """(K, K) share of each true class that carries each given label; an empty class is zero."""
    counts = np.zeros((classes, classes))
    np.add.at(counts, (true, given), 1)
    return counts / np.maximum(counts.sum(1, keepdims=True), 1)
