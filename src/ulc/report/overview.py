"""Tables of classes: how many labels look wrong, and which classes are confused."""

from dataclasses import dataclass

import numpy as np

from ulc.report.findings import Findings

MOST_CLASSES = 500  # rows of the table of classes
HEAT_MAP_CLASSES = 30  # more cannot be read
SHADES = 9  # colours of the heat map


@dataclass(frozen=True)
class ClassRow:
    """A row of the table of classes.

    given: labels of the class; wrong: those of them that look wrong
    missing: labels of other classes for which this class is suggested
    belongs: examples of the class by the corrected labels
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
        """Share of its labels that look wrong."""
        return self.wrong / self.given if self.given else 0.0


@dataclass(frozen=True)
class ClassTable:
    """The table of classes, and how many classes are left out."""

    rows: list[ClassRow]
    left_out: int


def class_rows(findings: Findings) -> ClassTable:
    """The table of classes, the smallest first: each wrong label weighs most there."""
    classes = findings.classes
    wrong, missing = findings.pairs.sum(1), findings.pairs.sum(0)
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
    """An entry of the noise matrix, its colour, and how many suspects belong to it."""

    given: int
    share: float
    shade: int
    suspects: int
    right: bool


@dataclass(frozen=True)
class HeatRow:
    """A row of the heat map: a class by the corrected labels."""

    number: int
    name: str
    cells: list[Cell]


@dataclass(frozen=True)
class HeatMap:
    """The noise matrix of the classes with the most corrections."""

    names: list[str]
    rows: list[HeatRow]
    left_out: int


def heat_map(findings: Findings) -> HeatMap:
    """The noise matrix; row: class by the corrected labels, column: given class."""
    matrix = findings.noise_matrix
    off = findings.moved - np.diag(np.diag(findings.moved))
    busiest = np.argsort(-(off.sum(0) + off.sum(1)), kind="stable")[:HEAT_MAP_CLASSES]
    chosen = np.sort(busiest)
    pairs = findings.pairs
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


def shade(share: float) -> int:
    """The colour of a share, on a square-root scale, so that small shares are visible."""
    return round((SHADES - 1) * float(np.sqrt(min(max(share, 0), 1))))
