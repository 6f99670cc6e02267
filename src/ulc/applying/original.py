"""The data of a run as they are now, and how a copy with other labels is written."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ulc.applying.run_rows import RunRows, Texts
from ulc.errors import InputError
from ulc.labels.table import as_csv, as_objects


@dataclass(frozen=True)
class NewLabels:
    """What a copy should say of the N rows of a run.

    labels: (N,) text of every label
    changed: (N,) where it is another than now
    decided: (N,) the rows that become verified
    """

    labels: Texts
    changed: NDArray[np.bool_]
    decided: NDArray[np.bool_]


class Original(Protocol):
    """Data on the disk, seen as the rows that the run has of them, in its order."""

    @property
    def suffix(self) -> str:
        """How a copy's name ends."""
        ...

    @property
    def note(self) -> str | None:
        """What the user should know about the copy."""
        ...

    @property
    def ids(self) -> Sequence[str] | None:
        """What the data call the rows."""
        ...

    @property
    def labels(self) -> Texts:
        """(N,) labels as text, as they are now."""
        ...

    @property
    def verified(self) -> NDArray[np.bool_]:
        """(N,) which of them somebody has checked."""
        ...

    def copy(self, new_labels: NewLabels, out: Any) -> bytes:
        """The content of a file `out` with the labels new_labels and all else as it is."""
        ...

    def options(self) -> list[str]:
        """What to say beside the file to have it read as the data were; None in it: nothing."""
        ...


@dataclass(frozen=True)
class LabelList:
    """Where no copy of the data can be made: a list of ids and labels."""

    rows: RunRows
    note: str | None
    suffix: str = ".csv"

    @property
    def ids(self) -> Sequence[str] | None:
        """Those of the run."""
        return self.rows.ids

    @property
    def labels(self) -> Texts:
        """Those of the run."""
        return self.rows.given

    @property
    def verified(self) -> NDArray[np.bool_]:
        """Those of the run."""
        return self.rows.verified

    def copy(self, new_labels: NewLabels, _: Any) -> bytes:
        """Columns id, label, verified."""
        verified = (self.verified | new_labels.decided).astype(int)
        columns = {"id": self.rows.names, "label": new_labels.labels, "verified": verified}
        return as_csv(columns)

    def options(self) -> list[str]:
        """It cannot be read as data."""
        return []


def check_unchanged(original: Original, rows: RunRows, path: str) -> None:
    """Raise unless the data are those that the run saw.

    A label that somebody has verified since may be another one: it was corrected in place.
    """
    remedy = "put them back as they were, or train again"
    if len(original.labels) != len(rows):
        raise InputError(
            f"{path}: the run had {len(rows)} rows of these data, now they have "
            f"{len(original.labels)}; {remedy}"
        )
    if original.ids is not None:
        if rows.ids is None:
            raise InputError(
                f"{rows.where}: ids.json is missing, which says what its rows are called; "
                "train again with --fresh"
            )
        other = as_objects(original.ids) != as_objects(rows.ids)
        if other.any():
            place = int(other.argmax())
            raise InputError(
                f"{path}: row {place} of the run was '{rows.ids[place]}', now it is "
                f"'{original.ids[place]}'; {remedy}"
            )
    other = (original.labels != rows.given) & ~original.verified
    if other.any():
        place = int(other.argmax())
        raise InputError(
            f"{path}: '{rows.names[place]}' had the label '{rows.given[place]}' when the run was "
            f"made, now it is '{original.labels[place]}'; {remedy}"
        )


def npz_bytes(arrays: dict[str, NDArray[Any]], *, compressed: bool) -> bytes:
    """The bytes of an npz file."""
    buffer = io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()
