"""The files about labels that a run writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.labels.duplicates import Copies, find_copies
from ulc.labels.health import health
from ulc.labels.judgement import Judgement
from ulc.labels.neighbours import find_neighbours, near_duplicate_entry, outlier_entry
from ulc.labels.table import as_csv, as_parquet, corrected_columns, label_columns
from ulc.storage.run_folder import RunFolder


@dataclass(frozen=True)
class LabelFiles:
    """A judgement on the labels of N rows, and the data for the files about it.

    judgement: settled (`Judgement.settle`): verified labels are certain, empty rows no issues
    threshold: labels with at least this clean probability are trusted
    ids: names of the rows in the source; None: their positions
    verified: (N,) mask of the labels that a person checked; None: the data do not say
    inputs: (N, …) inputs of the rows, to find copies; None: copies are not searched
    nearly_empty: (N,) mask of the rows whose inputs say nothing about their labels; None: no row
    odd_rows: whether outliers and almost equal rows are sought among `inputs`
    other_health: further entries of health.json
    """

    judgement: Judgement
    class_names: Sequence[str]
    threshold: float
    ids: Sequence[str] | None = None
    verified: NDArray[np.bool_] | None = None
    inputs: NDArray[Any] | None = None
    nearly_empty: NDArray[np.bool_] | None = None
    odd_rows: bool = False
    other_health: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: RunFolder) -> None:
        """Write all files about labels.

        These are judgement.npz, labels.csv, labels.parquet (if pyarrow is installed),
        corrected.csv, health.json and, if `verified` is not None, verified.json.
        """
        folder.write_arrays("judgement.npz", self.judgement.stored())
        shared = (self.judgement, self.class_names, self.threshold)
        table = label_columns(*shared, self.ids, self.verified)
        folder.write("labels.csv", as_csv(table))
        if find_spec("pyarrow") is not None:
            folder.write("labels.parquet", as_parquet(table))
        folder.write("corrected.csv", as_csv(corrected_columns(*shared, self.ids)))
        copies = None if self.inputs is None else find_copies(self.inputs, self.nearly_empty)
        content = health(*shared, ids=self.ids, copies=copies)
        if self.nearly_empty is not None and self.nearly_empty.any():
            rows = np.flatnonzero(self.nearly_empty).tolist()
            names = rows if self.ids is None else [self.ids[row] for row in rows]
            content["nearly_empty"] = {"rows": len(rows), "ids": names}
        if self.odd_rows and self.inputs is not None and copies is not None:
            content |= self.find_odd_rows(self.inputs, copies)
        folder.write_json("health.json", content | dict(self.other_health))
        if self.verified is not None:
            folder.write_json("verified.json", np.flatnonzero(self.verified).tolist())

    def find_odd_rows(self, inputs: NDArray[Any], copies: Copies) -> dict[str, Any]:
        """The entries of outliers and of almost equal rows; empty if the inputs are no vectors."""
        found = find_neighbours(inputs, copies)
        if found is None:
            return {}
        named = (self.judgement.given, self.class_names, self.ids)
        return {
            "outliers": outlier_entry(found, *named),
            "near_duplicates": near_duplicate_entry(found, *named),
        }
