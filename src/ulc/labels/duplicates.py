"""Rows that are copies of one another."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.typing import Integers

CHUNK = 1 << 24  # bytes hashed at a time


@dataclass(frozen=True)
class Copies:
    """Groups of rows with identical inputs.

    rows: (M,) positions, group after group; groups in the order of their first rows
    starts: (G,) start of each group in `rows`
    """

    rows: Integers
    starts: Integers

    @property
    def sizes(self) -> Integers:
        """(G,) number of rows in each group, at least 2."""
        return np.diff(self.starts, append=len(self.rows))

    def in_conflict(self, given: Integers) -> NDArray[np.bool_]:
        """(G,) mask of the groups whose rows have different given labels."""
        if len(self.starts) == 0:
            return np.zeros(0, bool)
        labels = given[self.rows]
        lowest = np.minimum.reduceat(labels, self.starts)
        return lowest != np.maximum.reduceat(labels, self.starts)

    def group(self, number: int) -> Integers:
        """Positions of the rows of one group."""
        start = self.starts[number]
        return self.rows[start : start + self.sizes[number]]


def find_copies(inputs: NDArray[Any], left_out: NDArray[np.bool_] | None = None) -> Copies:
    """Groups of (N, …) inputs that are equal byte by byte.

    left_out: (N,) mask of rows that do not count; None: all rows count
    """
    if left_out is not None and left_out.any():
        kept = np.flatnonzero(~left_out)
        found = find_copies(inputs[kept])
        return Copies(kept[found.rows], found.starts)
    rows = as_bytes(inputs)
    hashes = hash_rows(rows)
    _, inverse, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    likely = np.flatnonzero(counts[inverse] > 1)
    # Different rows may have equal hashes, so the rows themselves are compared.
    packed = rows[likely].view(np.dtype((np.void, rows.shape[1]))).ravel()
    _, first, group, sizes = np.unique(
        packed, return_index=True, return_inverse=True, return_counts=True
    )
    copied = sizes[group] > 1
    likely, leader = likely[copied], first[group][copied]
    order = np.lexsort((likely, leader))
    ordered = leader[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)])
    return Copies(likely[order], starts)


def as_bytes(inputs: NDArray[Any]) -> NDArray[np.uint8]:
    """(N, W) the bytes of each row."""
    if inputs.ndim == 4 and not inputs.flags.c_contiguous:  # channels last in memory
        inputs = inputs.transpose(0, 2, 3, 1)
    flat = np.ascontiguousarray(inputs).reshape(len(inputs), -1)
    return flat.view(np.uint8).reshape(len(inputs), -1)


def hash_rows(rows: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """(N,) hash of each row: its 64-bit words times random odd numbers, summed modulo 2⁶⁴."""
    width = -(-rows.shape[1] // 8)
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 1 << 63, width, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    hashes = np.empty(len(rows), np.uint64)
    size = max(1, CHUNK // (8 * width))
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        words = np.pad(part, ((0, 0), (0, 8 * width - part.shape[1]))).view(np.uint64)
        # High bits of a word do not reach low bits of a product, so they are mixed in first.
        hashes[start : start + size] = (words ^ (words >> np.uint64(32))) @ factors
    return hashes
