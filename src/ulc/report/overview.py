"""Class by class: how many labels look wrong, and what is mistaken for what."""

from dataclasses import dataclass

import numpy as np

from ulc.report.findings import Findings

MOST_CLASSES = 500  # rows of the table of classes
MOST_CELLS = 30  # classes of the heat map: more cannot be read
SHADES = 9  # steps of the heat map's colours


@dataclass(frozen=True)
class ClassRow:
    """One class.

    given: labels of it; wrong: those that look wrong
    missing: labels of other classes that look as if they belonged here
    belongs: examples that belong to it by the corrected labels
    """

    number: int
    name: str
    small: bool
    collapsed: bool
    given: int
    wrong: int
    missing: int
    belongs: float

    @property
    def share(self) -> float:
        """Of its labels that look wrong."""
        return self.wrong / self.given if self.given else 0.0


@dataclass(frozen=True)
class ClassTable:
    """The smallest classes first, and how many are left out."""

    rows: list[ClassRow]
    left_out: int


def class_rows(findings: Findings) -> ClassTable:
    """The smallest class first: it has the most to lose."""
    classes = findings.classes
    wrong = np.bincount(findings.given[findings.issue], minlength=classes)
    missing = np.bincount(findings.suggested[findings.issue], minlength=classes)
    belongs = findings.moved.sum(1)
    order = np.argsort(findings.sizes, kind="stable")
    rows = [
        ClassRow(
            number=int(k),
            name=findings.class_names[k],
            small=bool(findings.small[k]),
            collapsed=bool(findings.collapsed[k]),
            given=int(findings.sizes[k]),
            wrong=int(wrong[k]),
            missing=int(missing[k]),
            belongs=float(belongs[k]),
        )
        for k in order[:MOST_CLASSES]
    ]
    return ClassTable(rows, classes - len(rows))


@dataclass(frozen=True)
class Cell:
    """A share of the noise matrix, the depth of its colour, and how many suspects it has."""

    given: int
    share: float
    shade: int
    suspects: int
    right: bool


@dataclass(frozen=True)
class HeatRow:
    """A class by the corrected labels."""

    number: int
    name: str
    cells: list[Cell]


@dataclass(frozen=True)
class HeatMap:
    """The noise matrix of the classes that take part in most corrections."""

    names: list[str]
    rows: list[HeatRow]
    left_out: int


def heat_map(findings: Findings) -> HeatMap:
    """Row: the class by corrected labels; column: the given class."""
    matrix = findings.noise_matrix
    off = findings.moved - np.diag(np.diag(findings.moved))
    busiest = np.argsort(-(off.sum(0) + off.sum(1)), kind="stable")[:MOST_CELLS]
    chosen = np.sort(busiest)
    pairs = pair_counts(findings)
    rows = [
        HeatRow(
            number=int(i),
            name=findings.class_names[i],
            cells=[
                Cell(int(j), float(matrix[i, j]), shade(matrix[i, j]), int(pairs[j, i]), i == j)
                for j in chosen
            ],
        )
        for i in chosen
    ]
    names = [findings.class_names[j] for j in chosen]
    return HeatMap(names, rows, findings.classes - len(chosen))


def pair_counts(findings: Findings) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """(K, K) suspects by given class and suggestion."""
    classes = findings.classes
    pair = findings.given[findings.issue].astype(np.int64) * classes
    pair += findings.suggested[findings.issue]
    return np.bincount(pair, minlength=classes * classes).reshape(classes, classes)


@dataclass(frozen=True)
class Pair:
    """Suspects with one given class and one suggestion."""

    given: int
    suggested: int
    count: int


def frequent_pairs(findings: Findings, most: int = 10) -> list[Pair]:
    """What is most often mistaken for what."""
    counts = pair_counts(findings)
    order = np.argsort(-counts, axis=None, kind="stable")[:most]
    places = [np.unravel_index(place, counts.shape) for place in order]
    return [Pair(int(i), int(j), int(counts[i, j])) for i, j in places if counts[i, j]]


def shade(share: float) -> int:
    """The square root lets small shares be seen."""
    return round((SHADES - 1) * float(np.sqrt(min(max(share, 0), 1))))
