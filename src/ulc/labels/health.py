"""What a judgement says of the labels as a whole: how many are wrong, and which for which.

All of it is an estimate from what a run believes; no true label is asked.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.labels.duplicates import Copies
from ulc.labels.judgement import Judgement
from ulc.labels.table import issues
from ulc.typing import Floats, Integers

MOST_PAIRS = 100
MOST_GROUPS = 100
MOST_ROWS = 20  # of a group of copies
MOST_CLASSES = 200  # a matrix of more would be a file of megabytes


def joint_mass(judgement: Judgement) -> Floats:
    """(K, K) examples by the class that their corrected labels say (row) and given class (column).

    Soft labels are counted by their shares: all cells sum to N.
    """
    classes = judgement.prediction.shape[1]
    return np.stack(
        [
            np.bincount(judgement.given, weights=shares, minlength=classes)
            for shares in judgement.corrected.T
        ]
    )


def noise_matrix(joint: Floats) -> Floats:
    """(K, K) how a class comes to be labelled: each row of the joint mass over its sum.

    A class that no corrected label says anything for keeps its name: its row is that of the
    identity.
    """
    mass = joint.sum(1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = joint / mass
    return np.where(mass > 0, shares, np.eye(len(joint)))


def wrong_shares(joint: Floats) -> Floats:
    """(K,) of each given class, the mass that corrected labels put on other classes."""
    sizes = joint.sum(0)
    return 1 - np.divide(joint.diagonal(), sizes, out=np.ones(len(joint)), where=sizes > 0)


def confusions(judgement: Judgement, issue: NDArray[np.bool_]) -> Integers:
    """(K, K) how many issues of a given class (row) should be another (column)."""
    classes = judgement.prediction.shape[1]
    pairs = judgement.given[issue] * classes + judgement.suggested[issue]
    return np.bincount(pairs, minlength=classes**2).reshape(classes, classes)


def health(
    judgement: Judgement,
    class_names: Sequence[str],
    threshold: float,
    *,
    ids: Sequence[str] | None = None,
    copies: Copies | None = None,
) -> dict[str, Any]:
    """All of it by name, as `health.json` holds it (docs/labels.md says what each is)."""
    issue = issues(judgement, threshold)
    joint, confused = joint_mass(judgement), confusions(judgement, issue)
    count, classes = len(judgement.given), len(class_names)
    content: dict[str, Any] = {
        "labels": count,
        "threshold": threshold,
        "issues": int(issue.sum()),
        "issue_share": number(issue.mean()),
        "expected_wrong_share": number(1 - joint.trace() / count),
        "classes": by_class(joint, confused, judgement, class_names),
        "confused_pairs": confused_pairs(confused, class_names),
        "noise_matrix": None
        if classes > MOST_CLASSES
        else [[number(share) for share in row] for row in noise_matrix(joint)],
    }
    if copies is not None:
        content["duplicates"] = duplicates(copies, judgement.given, class_names, ids)
    return content


def by_class(
    joint: Floats, confused: Integers, judgement: Judgement, class_names: Sequence[str]
) -> list[dict[str, Any]]:
    """A record for each given class, in order."""
    sizes = np.bincount(judgement.given, minlength=len(class_names))
    wrong, prior = wrong_shares(joint), judgement.class_prior
    found, suggestion = confused.sum(1), confused.argmax(1)
    return [
        {
            "class": name,
            "size": int(sizes[k]),
            "issues": int(found[k]),
            "issue_share": number(found[k] / max(sizes[k], 1)),
            "expected_wrong_share": number(wrong[k]),
            "given_frequency": number(sizes[k] / sizes.sum()),
            "corrected_frequency": number(prior[k]),
            "most_suggested": class_names[suggestion[k]] if found[k] else None,
        }
        for k, name in enumerate(class_names)
    ]


def confused_pairs(confused: Integers, class_names: Sequence[str]) -> list[dict[str, Any]]:
    """Given and suggested classes of the issues, most frequent first."""
    places = np.flatnonzero(confused)
    places = places[np.argsort(-confused.flat[places], kind="stable")][:MOST_PAIRS]
    return [
        {
            "given": class_names[given],
            "suggested": class_names[suggested],
            "count": int(confused[given, suggested]),
        }
        for given, suggested in zip(*np.unravel_index(places, confused.shape), strict=True)
    ]


def duplicates(
    copies: Copies, given: Integers, class_names: Sequence[str], ids: Sequence[str] | None
) -> dict[str, Any]:
    """How many rows are copies, and the groups of them whose labels differ."""
    conflicts = np.flatnonzero(copies.in_conflict(given))
    groups = [copies.group(each) for each in conflicts[:MOST_GROUPS]]
    return {
        "groups": len(copies.starts),
        "rows": len(copies.rows),
        "conflicts": len(conflicts),
        "rows_in_conflict": int(copies.sizes[conflicts].sum()),
        "conflicting": [
            {
                "size": len(rows),
                "ids": [int(i) if ids is None else ids[i] for i in rows[:MOST_ROWS]],
                "labels": [class_names[given[i]] for i in rows[:MOST_ROWS]],
            }
            for rows in groups
        ],
    }


def number(value: float) -> float:
    """Six digits are enough; rounding alone can make a share negative."""
    return round(max(float(value), 0.0), 6)
