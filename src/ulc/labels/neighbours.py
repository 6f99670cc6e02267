"""Rows that lie far from all others, and pairs of rows that are almost equal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.labels.duplicates import Copies
from ulc.typing import Floats, Integers

NEIGHBOUR = 10  # the distance to this neighbour tells how lonely a row is
COMPONENTS = 16  # distances are measured in so many principal components
WIDEST = 1024  # wider rows cost too much
MOST_ROWS = 200_000  # of more rows, so many are looked at, at even distances
FITTED = 10_000  # rows to which the components are fitted
REFERENCE = (1_000, 4_000)  # rows among which neighbours are sought, at least and at most
DISTANCES = 40_000_000  # computed at most, if the least number of these rows allows it
BLOCK = 1024  # rows at a time
FAR = 5.0  # outlier: log distance above the median by so many robust standard deviations
NEAR = 0.05  # almost equal: closer than this share of the median distance to the neighbour
FEWEST = 4  # dimensions in which pairs of almost equal rows are sought
LISTED = 100  # rows and pairs that are written


@dataclass(frozen=True)
class Neighbours:
    """Distances as multiples of the median distance to the tenth neighbour.

    checked: number of rows that were looked at
    outliers: (M,) positions of the outliers, the farthest first; far: (M,) their distances to the
        tenth neighbour
    pairs: (P, 2) positions of almost equal rows, the closest first; near: (P,) their distances
    """

    checked: int
    outliers: Integers
    far: Floats
    pairs: Integers
    near: Floats


def find_neighbours(inputs: NDArray[Any], copies: Copies) -> Neighbours | None:
    """Outliers and almost equal rows of (N, D) vectors; copies are looked at once.

    None: inputs are images, too wide, too few, or mostly equal.
    """
    if inputs.ndim != 2 or inputs.shape[1] > WIDEST:
        return None
    repeated = np.delete(copies.rows, copies.starts)
    rows = np.delete(np.arange(len(inputs)), repeated)
    rows = rows[evenly(len(rows), MOST_ROWS)]
    if len(rows) <= 2 * NEIGHBOUR:
        return None
    sample = inputs[rows[evenly(len(rows), FITTED)]].astype(np.float64)
    axes, middle = principal_axes(sample, COMPONENTS)[0], sample.mean(0)
    blocks = np.split(rows, range(BLOCK, len(rows), BLOCK))
    places = np.concatenate([(inputs[block] - middle) @ axes for block in blocks])
    distance = neighbour_distance(places)
    unit = float(np.median(distance))
    if not unit > 0:
        return None
    lonely = lonely_places(distance)
    pairs, near = close_pairs(places, NEAR * unit)
    return Neighbours(len(rows), rows[lonely], distance[lonely] / unit, rows[pairs], near / unit)


def evenly(count: int, most: int) -> Integers:
    """At most `most` of the numbers 0 to count − 1, at even distances."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)


def principal_axes(features: Floats, count: int) -> tuple[Floats, Floats]:
    """(D, P) principal axes of (n, D) features, P ≤ count, and (P,) their shares of the variance.

    The largest loading of an axis is positive, so that the order of the rows does not matter.
    """
    centred = features - features.mean(0)
    values, axes = np.linalg.eigh(centred.T @ centred)
    axes, values = axes[:, ::-1][:, :count], np.maximum(values[::-1][:count], 0)
    largest = np.abs(axes).argmax(0)
    axes = axes * np.sign(axes[largest, np.arange(axes.shape[1])])
    variance = float((centred**2).sum())
    return axes, values / variance if variance > 0 else np.zeros(len(values))


def neighbour_distance(places: Floats) -> Floats:
    """(N,) distance of each row to its tenth neighbour among some thousand rows."""
    members = evenly(len(places), int(np.clip(DISTANCES // len(places), *REFERENCE)))
    column = np.full(len(places), -1)
    column[members] = np.arange(len(members))
    reference = places[members].astype(np.float32)
    lengths = (reference**2).sum(1)
    found = np.empty(len(places))
    for start in range(0, len(places), BLOCK):
        block = places[start : start + BLOCK].astype(np.float32)
        squares = (block**2).sum(1)[:, None] + lengths - 2 * block @ reference.T
        own = column[start : start + BLOCK]
        squares[np.flatnonzero(own >= 0), own[own >= 0]] = np.inf  # a row is not its neighbour
        nearest = np.partition(squares, NEIGHBOUR - 1, axis=1)[:, NEIGHBOUR - 1]
        found[start : start + BLOCK] = np.sqrt(np.maximum(nearest, 0))
    return found


def lonely_places(distance: Floats) -> Integers:
    """Places of the outliers among (N,) distances, the farthest first."""
    logs = np.log(np.maximum(distance, np.finfo(np.float32).tiny))
    middle = np.median(logs)
    spread = 1.4826 * np.median(np.abs(logs - middle))
    lonely = np.flatnonzero(logs > middle + FAR * spread) if spread > 0 else np.empty(0, np.int64)
    return lonely[np.argsort(-distance[lonely], kind="stable")]


def close_pairs(places: Floats, limit: float) -> tuple[Integers, Floats]:
    """(P, 2) pairs of a row and its nearest row below the limit, the closest first, and distances.

    Only the nearest row is sought, so the number of pairs is at most that of the rows. With fewer
    than four dimensions there are none, because rows are close by chance.
    """
    if places.shape[1] < FEWEST:
        return np.empty((0, 2), np.int64), np.empty(0)
    from scipy.spatial import cKDTree

    distance, nearest = cKDTree(places).query(places, k=2, distance_upper_bound=limit)
    # The first of the two is mostly the row itself, but not where distances are 0.
    own = np.arange(len(places))
    second = nearest[:, 0] == own
    other = np.where(second, nearest[:, 1], nearest[:, 0])
    apart = np.where(second, distance[:, 1], distance[:, 0])
    close = np.isfinite(apart)
    pairs = np.sort(np.stack([own[close], other[close]], axis=1), axis=1)
    pairs, first = np.unique(pairs, axis=0, return_index=True)
    apart = apart[close][first]
    order = np.argsort(apart, kind="stable")
    return pairs[order], apart[order]


def outlier_entry(
    found: Neighbours, given: Integers, class_names: Sequence[str], ids: Sequence[str] | None
) -> dict[str, Any]:
    """The entry of outliers in `health.json`."""
    return {
        "checked": found.checked,
        "rows": len(found.outliers),
        "listed": [
            {
                "id": int(row) if ids is None else ids[row],
                "label": class_names[given[row]],
                "distance": round(float(far), 3),
            }
            for row, far in zip(found.outliers[:LISTED], found.far[:LISTED], strict=True)
        ],
    }


def near_duplicate_entry(
    found: Neighbours, given: Integers, class_names: Sequence[str], ids: Sequence[str] | None
) -> dict[str, Any]:
    """The entry of almost equal rows in `health.json`."""
    labels = given[found.pairs]
    return {
        "checked": found.checked,
        "pairs": len(found.pairs),
        "conflicts": int((labels[:, 0] != labels[:, 1]).sum()),
        "listed": [
            {
                "ids": [int(row) if ids is None else ids[row] for row in pair],
                "labels": [class_names[given[row]] for row in pair],
                "distance": round(float(near), 4),
            }
            for pair, near in zip(found.pairs[:LISTED], found.near[:LISTED], strict=True)
        ],
    }
