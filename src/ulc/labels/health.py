"""Statistics of a judgement over all labels: how many are wrong, and which classes are confused.

All of them are estimates of the run; no true label is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.labels.duplicates import Copies
from ulc.labels.judgement import Judgement
from ulc.typing import Floats, Integers

MOST_PAIRS = 100  # confused pairs that are written
MOST_GROUPS = 100  # groups of copies that are written
MOST_ROWS = 20  # rows of such a group that are written
MOST_CLASSES = 200  # with more classes the noise matrix would be too large to write
COLLAPSED_SHARE = 0.05  # a collapsed class is predicted for less than this share of its labels
ENOUGH_LABELS = 10  # a class with fewer labels is never called collapsed


def joint_mass(judgement: Judgement) -> Floats:
    """(K, K) labels counted by corrected class (row) and given class (column).

    A soft corrected label counts with its shares, so all entries sum to N.
    """
    classes = judgement.prediction.shape[1]
    return np.stack(
        [
            np.bincount(judgement.given, weights=shares, minlength=classes)
            for shares in judgement.corrected.T
        ]
    )


def noise_matrix(joint: Floats) -> Floats:
    """(K, K) estimated P(given | true): each row of `joint_mass`, divided by its sum.

    A row that sums to 0 becomes the row of the identity matrix.
    """
    mass = joint.sum(1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = joint / mass
    return np.where(mass > 0, shares, np.eye(len(joint)))


def wrong_shares(joint: Floats) -> Floats:
    """(K,) expected share of wrong labels in each given class; 0 for a class without labels.

    joint: result of `joint_mass`
    """
    sizes = joint.sum(0)
    return 1 - np.divide(joint.diagonal(), sizes, out=np.ones(len(joint)), where=sizes > 0)


def count_predicted(judgement: Judgement) -> Integers:
    """(K,) number of rows that are predicted as each class."""
    classes = judgement.prediction.shape[1]
    return np.bincount(judgement.prediction.argmax(1), minlength=classes)


def collapsed(sizes: Integers, predicted: Integers) -> NDArray[np.bool_]:
    """(K,) mask of the classes with enough labels that are hardly ever predicted.

    sizes: (K,) number of labels of each given class; predicted: result of `count_predicted`
    """
    return (sizes >= ENOUGH_LABELS) & (predicted < COLLAPSED_SHARE * sizes)


@dataclass(frozen=True)
class ClassPair:
    """A given class, a suggested class, and the number of issues that have both."""

    given: int
    suggested: int
    count: int


def count_pairs(given: Integers, suggested: Integers, classes: int) -> Integers:
    """(K, K) labels counted by given class (row) and suggested class (column)."""
    pairs = given.astype(np.int64) * classes + suggested
    return np.bincount(pairs, minlength=classes**2).reshape(classes, classes)


def frequent_pairs(counts: Integers, most: int) -> list[ClassPair]:
    """The pairs with the largest (K, K) counts above 0, most frequent first."""
    places = np.flatnonzero(counts)
    places = places[np.argsort(-counts.flat[places], kind="stable")][:most]
    return [
        ClassPair(int(given), int(suggested), int(counts[given, suggested]))
        for given, suggested in zip(*np.unravel_index(places, counts.shape), strict=True)
    ]


def health(
    judgement: Judgement,
    class_names: Sequence[str],
    threshold: float,
    *,
    ids: Sequence[str] | None = None,
    copies: Copies | None = None,
) -> dict[str, Any]:
    """The content of `health.json`; docs/labels.md explains each key."""
    issue = judgement.issues(threshold)
    count, classes = len(judgement.given), len(class_names)
    joint = joint_mass(judgement)
    pairs = count_pairs(judgement.given[issue], judgement.suggested[issue], classes)
    content: dict[str, Any] = {
        "labels": count,
        "score_kind": judgement.score_kind,
        "threshold": threshold,
        "issues": int(issue.sum()),
        "issue_share": rounded_share(issue.mean()),
        "expected_wrong_share": rounded_share(1 - joint.trace() / count),
        "classes": class_records(joint, pairs, judgement, class_names),
        "confused_pairs": [
            {
                "given": class_names[pair.given],
                "suggested": class_names[pair.suggested],
                "count": pair.count,
            }
            for pair in frequent_pairs(pairs, MOST_PAIRS)
        ],
        "noise_matrix": None
        if classes > MOST_CLASSES
        else [[rounded_share(share) for share in row] for row in noise_matrix(joint)],
    }
    if copies is not None:
        content["duplicates"] = duplicates(copies, judgement.given, class_names, ids)
    return content


def class_records(
    joint: Floats, pairs: Integers, judgement: Judgement, class_names: Sequence[str]
) -> list[dict[str, Any]]:
    """The records of the classes in `health.json`, in the order of the classes.

    joint: result of `joint_mass`; pairs: (K, K) issues by given and suggested class
    """
    sizes = np.bincount(judgement.given, minlength=len(class_names))
    wrong, prior = wrong_shares(joint), judgement.class_prior
    issues, suggestion = pairs.sum(1), pairs.argmax(1)
    predicted = count_predicted(judgement)
    hardly = collapsed(sizes, predicted)
    return [
        {
            "class": name,
            "size": int(sizes[k]),
            "issues": int(issues[k]),
            "issue_share": rounded_share(issues[k] / max(sizes[k], 1)),
            "expected_wrong_share": rounded_share(wrong[k]),
            "given_frequency": rounded_share(sizes[k] / sizes.sum()),
            "corrected_frequency": rounded_share(prior[k]),
            "most_suggested": class_names[suggestion[k]] if issues[k] else None,
            "predicted": int(predicted[k]),
            "collapsed": bool(hardly[k]),
        }
        for k, name in enumerate(class_names)
    ]


def duplicates(
    copies: Copies, given: Integers, class_names: Sequence[str], ids: Sequence[str] | None
) -> dict[str, Any]:
    """The entry of copies in `health.json`: counts, and the groups whose given labels differ."""
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


def rounded_share(value: float) -> float:
    """A share with six decimals; a share that rounding errors made negative is 0."""
    return round(max(float(value), 0.0), 6)
