"""Tables of classes: how many labels look wrong, and which classes are confused."""

from dataclasses import dataclass

import numpy as np

from ulc.report.findings import Findings

MOST_CLASSES = 500  # rows of the table of classes
HEAT_MAP_CLASSES = 30  # most classes of the heat map: more cannot be read
SHADES = 9  # colours of the heat map


@dataclass(frozen=True)
class ClassRow:
    """A row of the table of classes.

    given: number of labels of the class; wrong: number of these labels that look wrong
    missing: number of labels of other classes for which this class is suggested
    belongs: number of examples of the class by the soft corrected labels
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
        """Share of the class's labels that looks wrong; 0 without labels."""
        return self.wrong / self.given if self.given else 0.0


@dataclass(frozen=True)
class ClassTable:
    """The table of classes, and the number of classes that are left out of it."""

    rows: list[ClassRow]
    left_out: int


def class_rows(findings: Findings) -> ClassTable:
    """The table of classes, the smallest class first, where each wrong label matters most."""
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
    """An entry of the noise matrix.

    given: number of the given class; share: the entry; shade: its colour
    suspects: number of suspects with these two classes; right: whether the classes are the same
    """

    given: int
    share: float
    shade: int
    suspects: int
    right: bool


@dataclass(frozen=True)
class HeatRow:
    """A row of the heat map: number and name of a corrected class, and its entries."""

    number: int
    name: str
    cells: list[Cell]


@dataclass(frozen=True)
class HeatMap:
    """The noise matrix of the classes with the most corrections.

    names: of the columns; left_out: number of classes that are not shown
    """

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
    """Number of the colour of a share, on a square-root scale so that small shares are visible."""
    return round((SHADES - 1) * float(np.sqrt(min(max(share, 0), 1))))
