"""The rows of a run that decisions are about: ids, labels as text, label scores."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ulc.errors import InputError
from ulc.labels.table import as_objects, rounded
from ulc.storage.run_folder import RunFolder
from ulc.typing import Floats

Texts = NDArray[Any]  # of str objects


@dataclass(frozen=True)
class RunRows:
    """The N rows of a run in the order of the data.

    where: path of the run folder, for error messages
    ids: (N,) names of the rows; None: rows are named by position
    given, suggested: (N,) labels as text
    issue, score: (N,) columns is_label_issue and label_score of labels.csv
    verified: (N,) mask of the labels that somebody had checked before the run
    """

    where: str
    class_names: tuple[str, ...]
    ids: tuple[str, ...] | None
    given: Texts
    suggested: Texts
    issue: NDArray[np.bool_]
    score: Floats
    verified: NDArray[np.bool_]

    @classmethod
    def of(cls, folder: RunFolder) -> Self:
        """Read the rows of a finished run."""
        judgement, names = folder.judgement, folder.read_json("data.json")["class_names"]
        ids = folder.ids
        if len(set(names)) < len(names):
            raise InputError(
                f"{folder.path}: two classes have the same name, so a label is ambiguous; "
                "rename one in the data and train again"
            )
        if ids is not None and len(ids) != len(judgement.given):
            raise InputError(
                f"{folder.path}: ids.json names {len(ids)} rows, judgement.npz "
                f"{len(judgement.given)}; train again with --fresh"
            )
        texts = as_objects(names)
        return cls(
            where=str(folder.path),
            class_names=tuple(names),
            ids=None if ids is None else tuple(ids),
            given=texts[judgement.given],
            suggested=texts[judgement.suggested],
            issue=judgement.issues(folder.threshold),
            score=rounded(judgement.clean_probability),
            verified=folder.verified,
        )

    def __len__(self) -> int:
        return len(self.given)

    @property
    def names(self) -> Texts:
        """(N,) ids of the rows; without ids, their positions as text."""
        return as_objects(list(map(str, range(len(self)))) if self.ids is None else self.ids)

    @cached_property
    def places(self) -> dict[str, int]:
        """Map each id to the position of its row; −1: several rows have this id."""
        places: dict[str, int] = {}
        for place, name in enumerate(self.names):
            places[name] = -1 if name in places else place
        return places

    def place(self, name: str, where: str) -> int:
        """Return the position of the row with this id; `where` names the decision in an error."""
        place = self.places.get(name)
        if place is None:
            called = (
                f"whose rows have no ids and are named by position, 0 to {len(self) - 1}"
                if self.ids is None
                else f"whose first row is {self.ids[0]!r}"
            )
            raise InputError(
                f"{where}: no row has the id {name!r} in {self.where}, {called}; "
                "give the run that the decisions are about"
            )
        if place < 0:
            raise InputError(
                f"{where}: several rows of {self.where} have the id {name!r}; "
                "give each row its own id (--id) and train again"
            )
        return place
