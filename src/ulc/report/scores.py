"""Per class the posterior scores of its labels, where a confusion model decided."""

from dataclasses import dataclass

import numpy as np

from ulc.report.findings import Findings
from ulc.typing import Floats

BINS = 20


@dataclass(frozen=True)
class ClassScores:
    """The histogram of one class's scores, as shares of its labels.

    edges: (BINS + 1,); right, wrong: (BINS,) labels that look right and labels that look wrong
    confusions: the most frequent ways to get this label: true class and P(given | true)
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
    """The other classes that are labelled as `given` most often, with P(given | true)."""
    if findings.evidence is None:
        return []
    column = findings.evidence.transition[:, given]
    order = [int(k) for k in np.argsort(-column, kind="stable") if k != given]
    return [(k, float(column[k])) for k in order[:most] if column[k] >= 0.005]
