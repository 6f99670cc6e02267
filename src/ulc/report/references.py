"""Pictures of trusted examples of each class, shown beside the suspects."""

from collections.abc import Sequence

import numpy as np

from ulc.report.examples import find_examples
from ulc.report.findings import Findings
from ulc.storage.run_folder import RunFolder
from ulc.typing import Integers

PICTURES = 3  # of each class
EDGE = 112  # largest height and width of a picture in pixels
MOST_CLASSES = 100  # the page must stay small
SUREST = 0.1  # share of a class's trusted labels from which the pictures are taken


def reference_pictures(
    folder: RunFolder, findings: Findings, shown: Integers, ids: Sequence[str] | None
) -> dict[int, list[str]]:
    """By class: data URIs of trusted examples. Classes without readable pictures are left out.

    shown: positions of the suspects on the page, whose classes are needed
    ids: names of all rows; None: the data have no ids
    """
    chosen = {k: trusted_rows(findings, k) for k in needed_classes(findings, shown)}
    rows = np.concatenate([*chosen.values(), np.empty(0, np.int64)]).astype(np.int64)
    examples = find_examples(folder, rows, None if ids is None else [ids[row] for row in rows])
    places = iter(range(len(rows)))
    pictures = {
        k: [examples.read(place, EDGE) for _, place in zip(members, places, strict=False)]
        for k, members in chosen.items()
    }
    return {k: found for k, each in pictures.items() if (found := [uri for uri in each if uri])}


def needed_classes(findings: Findings, shown: Integers) -> list[int]:
    """Suggested and given classes of the suspects on the page, the most frequent first."""
    suggested, given = (
        np.bincount(each[shown], minlength=findings.classes)
        for each in (findings.suggested, findings.given)
    )
    order = np.lexsort((-given, -suggested))
    return [int(k) for k in order if suggested[k] or given[k]][:MOST_CLASSES]


def trusted_rows(findings: Findings, number: int) -> Integers:
    """Positions of up to three labels of a class that look right, from those with high scores.

    They are spread over the data, because neighbours are often alike.
    """
    trusted = np.flatnonzero(
        (findings.given == number) & (findings.suggested == number) & ~findings.issue
    )
    surest = trusted[np.argsort(-findings.score[trusted], kind="stable")]
    best = np.sort(surest[: max(PICTURES, int(SUREST * len(surest)))])
    places = np.linspace(0, len(best) - 1, min(PICTURES, len(best))).round().astype(np.int64)
    return best[places]
