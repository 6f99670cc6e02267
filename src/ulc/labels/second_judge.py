"""A second judge of labels: kernel ridge regression with leave-one-out predictions.

It learns every label but the one that it judges, in closed form. A network that is trained on a
fold has fewer labels, and errs on other rows, so both together are better than each.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from ulc.typing import Floats, Integers

FEATURES = 1_000  # random Fourier features of the Gaussian kernel
PENALTIES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
BLOCK = 4_096  # rows whose features are in memory at once
PAIRS = 2_000  # random pairs of rows, whose median distance is the width of the kernel
PENALTY_ROWS = 2_000  # random rows on which the penalty is chosen
# Scores become probabilities such that the highest one of a row is 16/17 at this quantile.
SURE, ODDS = 0.9, 16.0


@dataclass(frozen=True)
class FourierFeatures:
    """Random Fourier features z(x) of a Gaussian kernel: z(x)·z(x') ≈ exp(−|x − x'|² / 2w²).

    inputs: (N, d) rows; directions: (d, D), normal with standard deviation 1 / w; phases: (D,)
    """

    inputs: Floats
    directions: Floats
    phases: Floats

    @classmethod
    def draw(cls, inputs: Floats) -> Self:
        """Draw the features; the width w is the median distance of two rows."""
        rng = np.random.default_rng(0)
        one, other = rng.integers(0, len(inputs), (2, PAIRS))
        distances = np.sqrt(((inputs[one] - inputs[other]) ** 2).sum(1, dtype=np.float64))
        positive = distances[distances > 0]
        width = float(np.median(positive)) if len(positive) else 1.0
        directions = rng.normal(size=(inputs.shape[1], FEATURES)) / width
        phases = rng.uniform(0, 2 * np.pi, FEATURES)
        return cls(inputs, directions.astype(np.float32), phases.astype(np.float32))

    def of(self, rows: slice | Integers) -> Floats:
        """(M, D) features of some rows."""
        waves: Floats = np.cos(self.inputs[rows] @ self.directions + self.phases)
        return waves * np.float32(np.sqrt(2 / FEATURES))

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield all features, block by block, with the rows of each block."""
        for rows in blocks(len(self.inputs)):
            yield rows, self.of(rows)


@dataclass(frozen=True)
class Targets:
    """One-hot labels minus their mean, and sums over the copies of a row, left out together.

    Both are made for the rows that are asked for. Only the sums of rows that have copies are kept.

    given: (N,) labels; mean: (K,) of the one-hot labels; sizes: (N,) number of copies of the row
    group: (N,) number of the row's group of copies; -1: there is no other copy
    group_sums: (G, K) sum of the centred labels of each group
    """

    given: Integers
    mean: Floats
    sizes: Floats
    group: Integers
    group_sums: Floats

    @classmethod
    def of(cls, given: Integers, classes: int, first_copy: Integers) -> Self:
        """Targets of (N,) labels; first_copy: (N,) position of the first row with equal inputs."""
        mean = (np.bincount(given, minlength=classes) / len(given)).astype(np.float32)
        sizes = np.bincount(first_copy, minlength=len(given))[first_copy].astype(np.float32)
        copied = np.flatnonzero(sizes > 1)
        firsts, numbers = np.unique(first_copy[copied], return_inverse=True)
        group, sums = np.full(len(given), -1), np.zeros((len(firsts), classes), np.float32)
        group[copied] = numbers
        targets = cls(given, mean, sizes, group, sums)
        for block in blocks(len(copied)):
            np.add.at(sums, numbers[block], targets.centred(copied[block]))
        return targets

    def centred(self, rows: slice | Integers) -> Floats:
        """(M, K) one-hot labels of rows minus the mean of all."""
        centred: Floats = (self.given[rows][:, None] == np.arange(len(self.mean))) - self.mean
        return centred

    def sums(self, rows: slice | Integers) -> Floats:
        """(M, K) sum of the centred labels over all copies of each row."""
        sums, group = self.centred(rows), self.group[rows]
        copied = group >= 0
        sums[copied] = self.group_sums[group[copied]]
        return sums

    def without_own(self, scores: Floats, leverage: Floats, rows: slice | Integers) -> Floats:
        """(M, K) scores of rows by a regression without the row and its copies.

        With leverage h, sum S and m copies it is (scores − h·S) / (1 − m·h).
        """
        left = np.maximum(1 - self.sizes[rows] * leverage, 1e-6)[:, None]
        without: Floats = (scores - leverage[:, None] * self.sums(rows)) / left
        return without


@dataclass(frozen=True)
class Ridge:
    """Ridge regression of labels on features, for every penalty: eigenvectors of Z'Z.

    values: (D,) eigenvalues; vectors: (D, D); moments: (D, K) labels in the eigenvectors' basis
    """

    features: FourierFeatures
    targets: Targets
    values: Floats
    vectors: Floats
    moments: Floats

    @classmethod
    def fit(cls, features: FourierFeatures, targets: Targets) -> Self:
        """Sum Z'Z and Z'Y over all rows, and decompose."""
        gram = np.zeros((FEATURES, FEATURES))
        moments = np.zeros((FEATURES, len(targets.mean)))
        for rows, block in features.blocks():
            gram += block.T @ block
            moments += block.T @ targets.centred(rows)
        values, vectors = np.linalg.eigh(gram)
        vectors = vectors.astype(np.float32)
        return cls(features, targets, np.maximum(values, 0), vectors, vectors.T @ moments)

    def predict(self, block: Floats, rows: slice | Integers, penalty: float) -> Floats:
        """(M, K) leave-one-out scores of rows, whose rotated features are `block`."""
        inverse = 1 / (self.values + penalty)
        leverage = block**2 @ inverse.astype(np.float32)
        scores = block @ (self.moments * inverse[:, None]).astype(np.float32)
        return self.targets.without_own(scores, leverage, rows)

    def choose_penalty(self) -> float:
        """The penalty with the smallest squared error of leave-one-out scores (PRESS)."""
        count = len(self.targets.given)
        rows = np.random.default_rng(0).choice(count, min(count, PENALTY_ROWS), replace=False)
        block = self.features.of(rows) @ self.vectors
        wanted = self.targets.centred(rows)
        errors = [((self.predict(block, rows, each) - wanted) ** 2).mean() for each in PENALTIES]
        return PENALTIES[int(np.argmin(errors))]


def judge_by_kernel(inputs: Floats, given: Integers, classes: int, first_copy: Integers) -> Floats:
    """(N, K) log-probabilities of each row's class, by a regression without the row's own label.

    Random Fourier features approximate kernel ridge regression with a Gaussian kernel on one-hot
    labels (Rahimi and Recht 2007).

    inputs: (N, d) vectors; first_copy: (N,) position of the first row with equal inputs
    """
    targets = Targets.of(given, classes, first_copy)
    ridge = Ridge.fit(FourierFeatures.draw(inputs), targets)
    penalty = ridge.choose_penalty()
    scores = np.empty((len(inputs), classes), np.float32)
    for rows, block in ridge.features.blocks():
        scores[rows] = ridge.predict(block @ ridge.vectors, rows, penalty)
    highest = max(float(np.quantile(scores.max(1), SURE)), 1e-6)
    scale = np.float32(np.log(ODDS * max(classes - 1, 1)) / highest)
    for rows in blocks(len(scores)):
        logits = scores[rows]  # log-probabilities take the place of scores
        logits *= scale
        logits -= logits.max(1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(1, keepdims=True))
    return scores


def pool(probability: Floats, log_probability: Floats) -> Floats:
    """Turn `log_probability` into the pool of both predictions, in place, and return it.

    The pool is their normalised geometric mean (logarithmic opinion pool). Both are (N, K).
    """
    for rows in blocks(len(probability)):
        logs = (np.log(np.maximum(probability[rows], 1e-9)) + log_probability[rows]) / 2
        pooled = np.exp(logs - logs.max(1, keepdims=True))
        log_probability[rows] = pooled / pooled.sum(1, keepdims=True)
    return log_probability


def blocks(count: int) -> Iterator[slice]:
    """Slices of `count` rows, each with at most `BLOCK` rows."""
    for start in range(0, count, BLOCK):
        yield slice(start, start + BLOCK)
