"""Outliers, almost equal rows and pictures, copies in conflict, poor pictures: health.json."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ulc.report.examples import Examples, find_examples
from ulc.report.gain import read_optional
from ulc.report.references import EDGE
from ulc.storage.run_folder import RunFolder

SHOWN = 12  # entries of each list; health.json has up to 100
ROWS = 8  # rows of a group
POOR = {  # cleanvision's names in words
    "dark": "Dark pictures",
    "light": "Very bright pictures",
    "blurry": "Blurred pictures",
    "low_information": "Pictures with hardly any content",
    "odd_aspect_ratio": "Pictures of an odd shape",
    "odd_size": "Pictures of an odd size",
}


@dataclass(frozen=True)
class OddRow:
    """One row: its id without the common folder, its given label, its picture as a data URI.

    picture is None if there is none.
    """

    name: str
    label: str
    picture: str | None


@dataclass(frozen=True)
class OddGroup:
    """Rows that belong together.

    distance: as in health.json; None: there is none
    more: number of rows of the group that are not in `rows`
    """

    rows: list[OddRow]
    distance: float | None
    more: int = 0

    @property
    def conflict(self) -> bool:
        """Whether the labels of the rows differ."""
        return len({row.label for row in self.rows}) > 1


@dataclass(frozen=True)
class PoorKind:
    """A kind of poor pictures: its name in words, how many there are, and the worst of them."""

    title: str
    total: int
    worst: list[OddGroup]


@dataclass(frozen=True)
class OddRows:
    """The first entries of each list, and how many there are in all.

    poor_note: why poor pictures were not looked for; None: they were, or there are no pictures
    """

    outliers: list[OddGroup] = field(default_factory=list)
    near: list[OddGroup] = field(default_factory=list)
    conflicts: list[OddGroup] = field(default_factory=list)
    pictures: list[OddGroup] = field(default_factory=list)
    poor: list[PoorKind] = field(default_factory=list)
    poor_note: str | None = None
    totals: dict[str, int] = field(default_factory=dict)

    @property
    def any(self) -> bool:
        """Whether there is anything to show."""
        lists = (self.outliers, self.near, self.conflicts, self.pictures, self.poor)
        return self.poor_note is not None or any(lists)


def find_odd_rows(folder: RunFolder, ids: Sequence[str] | None, root: str) -> OddRows:
    """The lists of health.json with pictures; empty lists where the run wrote none.

    ids: names of all rows; None: rows are named by their positions
    root: common folder, which the names on the page leave out
    """
    try:
        return read_odd_rows(folder, ids, root)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise folder.damaged("health.json", error) from None


def read_odd_rows(folder: RunFolder, ids: Sequence[str] | None, root: str) -> OddRows:
    """As `find_odd_rows`, for a file of the right form."""
    health = read_optional(folder, "health.json")
    outliers, near, copies, pictures = (
        health.get(name) or {}
        for name in ("outliers", "near_duplicates", "duplicates", "near_pictures")
    )
    poor = health.get("poor_pictures") or {}
    kinds = [each for each in poor.get("kinds", []) if each["rows"]]
    lists = {
        **{
            f"poor {each['kind']}": [([row["id"]], [row["label"]], None, 1) for row in first(each)]
            for each in kinds
        },
        "outliers": [
            ([each["id"]], [each["label"]], each["distance"], 1) for each in first(outliers)
        ],
        "near": [(each["ids"], each["labels"], each["distance"], 2) for each in first(near)],
        "conflicts": [
            (each["ids"], each["labels"], None, each["size"])
            for each in first(copies, "conflicting")
        ],
        "pictures": [(each["ids"], each["labels"], None, each["size"]) for each in first(pictures)],
    }
    wanted = [name for groups in lists.values() for names, *_ in groups for name in names[:ROWS]]
    thumbnails = read_pictures(folder, wanted, ids)

    def group(entry: tuple[list[Any], list[str], float | None, int]) -> OddGroup:
        names, labels, distance, size = entry
        rows = [
            OddRow(str(name).removeprefix(root), label, thumbnails.get(name))
            for name, label in zip(names[:ROWS], labels[:ROWS], strict=True)
        ]
        return OddGroup(rows, distance, size - len(rows))

    totals = {
        "outliers": int(outliers.get("rows", 0)),
        "near": int(near.get("pairs", 0)),
        "conflicts": int(copies.get("conflicts", 0)),
        "pictures": int(pictures.get("groups", 0)),
        "pictures_in_conflict": int(pictures.get("conflicts", 0)),
    }
    groups = {name: list(map(group, each)) for name, each in lists.items()}
    worst = [
        PoorKind(
            POOR.get(each["kind"], each["kind"]), each["rows"], groups.pop(f"poor {each['kind']}")
        )
        for each in kinds
    ]
    return OddRows(**groups, poor=worst, poor_note=poor.get("note"), totals=totals)


def first(entry: dict[str, Any], name: str = "listed") -> Iterable[dict[str, Any]]:
    """The first elements of a list in an entry of health.json; empty if it is missing."""
    listed: list[dict[str, Any]] = entry.get(name, [])
    return listed[:SHOWN]


def read_pictures(
    folder: RunFolder, names: list[Any], ids: Sequence[str] | None
) -> dict[Any, str | None]:
    """Pictures of the rows with these names; ids as in `find_odd_rows`."""
    different = list(dict.fromkeys(names))
    if not different:
        return {}
    if ids is None:
        rows = np.array(different, np.int64)
    else:
        places = {name: place for place, name in enumerate(ids)}
        different = [name for name in different if name in places]
        rows = np.array([places[name] for name in different], np.int64)
    examples: Examples = find_examples(folder, rows, None if ids is None else different)
    return {name: examples.read(place, EDGE) for place, name in enumerate(different)}
