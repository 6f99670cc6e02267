"""A map of the data: the rows in the first two principal components of their features."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from ulc.labels.neighbours import principal_axes
from ulc.report.features import find_features
from ulc.report.findings import Findings
from ulc.report.svg import Plot, drawing, element
from ulc.storage.run_folder import RunFolder
from ulc.typing import Floats, Integers

POINTS = 4000  # most rows on the map
MARKED = 1000  # most labels of the gallery among them
WIDEST = 4096  # wider features cost too much
EDGES = (0.5, 99.5)  # percentiles that the map spans; points beyond are drawn at its edge


@dataclass(frozen=True)
class DataMap:
    """The drawing, the number of rows on it, and the share of the variance that it shows."""

    plot: Markup
    rows: int
    explained: float


def draw_map(
    folder: RunFolder, findings: Findings, ids: Sequence[str] | None, marked: Integers
) -> DataMap | None:
    """The map of a run's data; None: the rows have no features, or fewer than two dimensions.

    ids: names of all rows; None: the data have no ids
    marked: positions of the labels in the gallery, in its order
    """
    rows = chosen_rows(findings, marked)
    names = None if ids is None else [ids[row] for row in rows]
    features = find_features(folder, rows, names)
    if features is None or not 2 <= features.shape[1] <= WIDEST or len(rows) < 3:
        return None
    places, explained = principal_plane(features)
    if explained == 0:  # all rows are equal
        return None
    return DataMap(draw_points(findings, rows, places, marked), len(rows), explained)


def chosen_rows(findings: Findings, marked: Integers) -> Integers:
    """Positions of the rows on the map: labels that look right, then the first of `marked`.

    The former are taken at even distances in the order of their classes, so that each class has
    its share.
    """
    trusted = ~findings.issue
    trusted[marked] = False
    others = np.flatnonzero(trusted)
    others = others[np.argsort(findings.given[others], kind="stable")]
    marked = marked[:MARKED]
    count = min(POINTS - len(marked), len(others))
    places = np.linspace(0, len(others) - 1, count).round().astype(np.int64)
    return np.concatenate([others[places], marked])


def principal_plane(features: Floats) -> tuple[Floats, float]:
    """(n, 2) coordinates of (n, D) features in their first two principal components.

    Also returns the share of the variance that the two components have.
    """
    axes, shares = principal_axes(features, 2)
    return (features - features.mean(0)) @ axes, min(float(shares.sum()), 1.0)


def draw_points(findings: Findings, rows: Integers, places: Floats, marked: Integers) -> Markup:
    """The drawing: one path for the trusted rows of each class, a circle for each marked row."""
    low, high = np.percentile(places, EDGES, axis=0)
    plot = Plot(
        (float(low[0]), float(high[0])),
        (float(low[1]), float(high[1])),
        760, 460, left=10, right=10, top=10, bottom=10,
    )  # fmt: skip
    clipped = np.clip(places, low, high)
    x = np.array([plot.x(value) for value in clipped[:, 0]])
    y = np.array([plot.y(value) for value in clipped[:, 1]])
    suspect = np.isin(rows, marked)
    paths = []
    for number in np.unique(findings.given[rows[~suspect]]):
        members = np.flatnonzero(~suspect & (findings.given[rows] == number))
        points = "".join(f"M{x[i]:.1f} {y[i]:.1f}h0" for i in members)
        paths.append(element("path", d=points, class_="points", data_class=int(number)))
    circles = [
        element(
            "circle",
            element("title", describe_pair(findings, int(rows[i]))),
            cx=float(x[i]), cy=float(y[i]), r=4, class_="suspect", data_row=int(rows[i]),
        )
        for i in np.flatnonzero(suspect)[::-1]  # the most suspicious on top
    ]  # fmt: skip
    label = f"Map of {len(rows)} examples, {int(suspect.sum())} of them with suspicious labels"
    return drawing(label, plot.width, plot.height, *paths, *circles)


def describe_pair(findings: Findings, row: int) -> str:
    """The given and the suggested class of a row; only the given one if they are the same."""
    names = findings.class_names
    given, suggested = names[findings.given[row]], names[findings.suggested[row]]
    return given if given == suggested else f"{given} → {suggested}"
