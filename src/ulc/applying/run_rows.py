"""The rows of a run as a person who decides knows them: by id, with labels as text."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ulc.errors import InputError
from ulc.labels.table import as_objects, issues, rounded
from ulc.storage.run_folder import RunFolder
from ulc.typing import Floats

Texts = NDArray[Any]  # of str objects


@dataclass(frozen=True)
class RunRows:
    """N rows in data set order.

    ids: what the run calls them; None: by position
    given, suggested: (N,) labels as text
    issue, score: (N,) as in labels.csv
    verified: (N,) the labels that somebody had checked before
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
        """Those of a finished run."""
        judgement, names = folder.judgement, folder.read_json("data.json")["class_names"]
        ids = folder.ids
        if len(set(names)) < len(names):
            raise InputError(
                f"{folder.path}: two classes are called the same, so a label's name does not say "
                "which is meant; rename one in the data and train again"
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
            issue=issues(judgement, folder.threshold),
            score=rounded(judgement.clean_probability),
            verified=folder.verified,
        )

    def __len__(self) -> int:
        return len(self.given)

    @property
    def names(self) -> Texts:
        """(N,) ids, or positions as text."""
        return as_objects(list(map(str, range(len(self)))) if self.ids is None else self.ids)

    @cached_property
    def places(self) -> dict[str, int]:
        """Where each id is; −1 for one that several rows have."""
        places: dict[str, int] = {}
        for place, name in enumerate(self.names):
            places[name] = -1 if name in places else place
        return places

    def place(self, name: str, where: str) -> int:
        """The row that is called so."""
        place = self.places.get(name)
        if place is None:
            called = (
                f"whose rows have no ids and are called by position, 0 to {len(self) - 1}"
                if self.ids is None
                else f"whose first row is '{self.ids[0]}'"
            )
            raise InputError(
                f"{where}: no row is called '{name}' in {self.where}, {called}; "
                "give the run that the decisions are about"
            )
        if place < 0:
            raise InputError(
                f"{where}: several rows of {self.where} are called '{name}', so it is not clear "
                "which one is meant; give each row an id of its own (--id) and train again"
            )
        return place
