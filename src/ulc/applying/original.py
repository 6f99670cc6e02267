"""The data of a run as they are on the disk now, and their copy with corrected labels."""

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
    """Labels that `ulc apply` writes for the N rows of a run.

    labels: (N,) labels as text
    changed: (N,) which labels differ from those now in the data
    decided: (N,) which labels a person has decided; they become verified
    deleted: (N,) which rows the copy leaves out
    """

    labels: Texts
    changed: NDArray[np.bool_]
    decided: NDArray[np.bool_]
    deleted: NDArray[np.bool_]

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Return the (N,) mask of the rows that the copy keeps."""
        return ~self.deleted


class Original(Protocol):
    """Interface of data on the disk: only the rows of the run, in the run's order."""

    @property
    def suffix(self) -> str:
        """Suffix of the copy's file name, such as .csv."""
        ...

    @property
    def note(self) -> str | None:
        """Remark about the copy for the user; None: no remark."""
        ...

    @property
    def ids(self) -> Sequence[str] | None:
        """(N,) ids of the rows; None: the data have no ids."""
        ...

    @property
    def labels(self) -> Texts:
        """(N,) labels now in the data, as text."""
        ...

    @property
    def verified(self) -> NDArray[np.bool_]:
        """(N,) mask of the labels that somebody has checked."""
        ...

    def copy(self, new_labels: NewLabels, out: Any) -> bytes:
        """Return the content of the file `out`: new labels, no deleted rows, all else unchanged."""
        ...

    def options(self) -> list[str]:
        """Return the command-line options with which `ulc audit` reads the copy."""
        ...


@dataclass(frozen=True)
class LabelList:
    """A list of ids and labels in place of a copy, for data that cannot be copied."""

    rows: RunRows
    note: str | None
    suffix: str = ".csv"

    @property
    def ids(self) -> Sequence[str] | None:
        """(N,) ids of the run's rows; None: the rows have no ids."""
        return self.rows.ids

    @property
    def labels(self) -> Texts:
        """(N,) given labels of the run, as text."""
        return self.rows.given

    @property
    def verified(self) -> NDArray[np.bool_]:
        """(N,) mask of the labels that were verified before the run."""
        return self.rows.verified

    def copy(self, new_labels: NewLabels, _: Any) -> bytes:
        """Return a CSV with the columns id, label, verified."""
        verified = (self.verified | new_labels.decided).astype(int)
        columns = {"id": self.rows.names, "label": new_labels.labels, "verified": verified}
        return as_csv({name: column[new_labels.kept] for name, column in columns.items()})

    def options(self) -> list[str]:
        """Return no options: the list cannot be read as data."""
        return []


def check_unchanged(original: Original, rows: RunRows, path: str) -> None:
    """Raise if the data on the disk have changed since the run.

    Labels that are verified may differ, because a person may have corrected them since the run.
    """
    remedy = "put them back as they were, or train again"
    if len(original.labels) != len(rows):
        raise InputError(
            f"{path}: had {len(rows)} rows when the run was made, now it has "
            f"{len(original.labels)}; {remedy}"
        )
    if original.ids is not None:
        if rows.ids is None:
            raise InputError(
                f"{rows.where}: ids.json, the ids of its rows, is missing; train again with --fresh"
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
    """Return the bytes of an npz file with these arrays."""
    buffer = io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()
