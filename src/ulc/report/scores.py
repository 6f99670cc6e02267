"""Posterior scores of the labels of each class, if a confusion model decided."""

from dataclasses import dataclass

import numpy as np

from ulc.report.findings import Findings
from ulc.typing import Floats

BINS = 20


@dataclass(frozen=True)
class ClassScores:
    """The histogram of one class's scores, as shares of its labels.

    number: of the class; edges: (BINS + 1,) of the bins
    right, wrong: (BINS,) shares of labels that look right and of labels that look wrong
    confusions: other true classes that most often get this label, with P(given | true)
    """

    number: int
    edges: Floats
    right: Floats
    wrong: Floats
    confusions: list[tuple[int, float]]

    @property
    def tallest(self) -> float:
        """Height of the tallest bar."""
        return float((self.right + self.wrong).max())


def class_scores(findings: Findings, chosen: list[int], most: int = 3) -> list[ClassScores]:
    """The scores of the chosen classes, each with its `most` largest entries P(given | true)."""
    edges = np.linspace(0, 1, BINS + 1)
    drawn = []
    for number in chosen:
        members = findings.given == number
        score, issue = findings.score[members], findings.issue[members]
        right, wrong = (
            np.histogram(score[each], edges)[0] / len(score) for each in (~issue, issue)
        )
        drawn.append(ClassScores(number, edges, right, wrong, confusions(findings, number, most)))
    return drawn


def confusions(findings: Findings, given: int, most: int) -> list[tuple[int, float]]:
    """The other classes that most often get the label `given`, with P(given | true).

    Classes below 0.5 % are left out. Without a confusion model the list is empty.

    most: largest number of classes
    """
    if findings.evidence is None:
        return []
    column = findings.evidence.transition[:, given]
    order = [int(k) for k in np.argsort(-column, kind="stable") if k != given]
    return [(k, float(column[k])) for k in order[:most] if column[k] >= 0.005]
