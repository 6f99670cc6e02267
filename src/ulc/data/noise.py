"""Label noise: wrong labels are injected as in the literature; the input stays as it is."""

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
    """A copy of the labels with noise of any kind but 'file'."""
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
    """Exactly int(rate·N) labels move to one of the other classes, each as likely (ULC)."""
    noisy, chosen = choose_labels(labels, rate, rng)
    noisy[chosen] = (labels[chosen] + rng.integers(1, classes, len(chosen))) % classes
    return noisy


def symmetric_inclusive(
    labels: Integers, classes: int, rate: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Exactly int(rate·N) labels are redrawn from all classes, their own among them (DivideMix)."""
    noisy, chosen = choose_labels(labels, rate, rng)
    noisy[chosen] = rng.integers(0, classes, len(chosen))
    return noisy


def asymmetric(
    labels: Integers, class_names: Sequence[str], rate: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Exactly int(rate·N) labels go through CIFAR-10's map, which keeps five of the classes."""
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
    """A copy of the labels, and the positions of int(rate·N) of them, drawn at random."""
    # In floating point 0.29·100 is 28.999…, so int() needs a small tolerance.
    count = int(rate * len(labels) + 1e-9)
    return labels.astype(np.int64), rng.permutation(len(labels))[:count]


def pair_flip_matrix(classes: int, rate: float) -> Floats:
    """(K, K) transition matrix: each class becomes the next one with probability `rate`."""
    return (1 - rate) * np.eye(classes) + rate * np.roll(np.eye(classes), 1, axis=1)


def by_matrix(labels: Integers, transition: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Each class gets exactly the shares of its row, rounded by the largest-remainder method."""
    noisy = labels.astype(np.int64)
    for k, row in enumerate(transition):
        members = rng.permutation(np.flatnonzero(labels == k))
        noisy[members] = np.repeat(np.arange(len(row)), whole_shares(row, len(members)))
    return noisy


def whole_shares(shares: Floats, total: int) -> Integers:
    """Shares of `total` as whole numbers that sum to it (largest-remainder method)."""
    exact = shares / shares.sum() * total
    counts = np.floor(exact).astype(np.int64)
    remainder = total - counts.sum()
    counts[np.argsort(counts - exact, kind="stable")[:remainder]] += 1
    return counts


def checked_matrix(matrix: ArrayLike, classes: int) -> Floats:
    """The matrix as an array; raises an InputError if a row is no distribution over the classes."""
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
    """(K, K) share of each true class that has each given label; the row of an empty class is 0."""
    counts = np.zeros((classes, classes))
    np.add.at(counts, (true, given), 1)
    return counts / np.maximum(counts.sum(1, keepdims=True), 1)
