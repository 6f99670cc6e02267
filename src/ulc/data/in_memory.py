"""Store data of a program in a file, from which an audit reads them again."""

import hashlib
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ulc.data.arrays import tensor_to_array
from ulc.errors import InputError
from ulc.storage.files import write_whole
from ulc.storage.run_folder import create_folder

if TYPE_CHECKING:
    import pandas as pd

LABEL = "label"  # column of labels that are given beside a frame


def store_data(data: Any, folder: Path) -> Path:
    """Write a frame as CSV, or arrays (X, y) as npz; return the path of the file in `folder`.

    The file is named by its content, so the same data give the same file.
    """
    if isinstance(data, tuple):
        if len(data) != 2:
            raise InputError(f"a tuple of {len(data)} values; give (X, y)")
        if not is_frame(data[0]):
            return write_named(folder, "arrays", ".npz", pack_arrays(*data))
        data = add_labels(*data)
    if not is_frame(data):
        raise InputError(
            f"{type(data).__name__} is no data to audit; give a path, a data frame with "
            "label='COLUMN', or (X, y)"
        )
    return write_named(folder, "frame", ".csv", frame_as_csv(data))


def is_frame(data: Any) -> bool:
    """Whether the value is a pandas data frame."""
    return hasattr(data, "iloc") and hasattr(data, "columns")


def write_named(folder: Path, kind: str, suffix: str, content: bytes) -> Path:
    """Write the content to a file named by a digest of it."""
    path = folder / f"{kind}-{hashlib.sha256(content).hexdigest()[:10]}{suffix}"
    if not path.is_file():
        create_folder(folder)
        write_whole(path, content)
    return path


def add_labels(frame: "pd.DataFrame", labels: Any) -> "pd.DataFrame":
    """Return the frame with (N,) labels as the column `label`."""
    if LABEL in frame.columns:
        raise InputError(
            f"the frame has a column '{LABEL}' beside y; give the frame alone, with label='COLUMN'"
        )
    return frame.assign(**{LABEL: label_texts(labels, len(frame))})


def frame_as_csv(frame: "pd.DataFrame") -> bytes:
    """Return the frame as CSV; an index of unique names becomes the ids of the rows."""
    import pandas as pd

    counted = isinstance(frame.index, pd.RangeIndex)
    named = not counted and frame.index.nlevels == 1 and frame.index.is_unique
    return frame.to_csv(index=named, index_label="").encode()


def pack_arrays(inputs: Any, labels: Any) -> bytes:
    """Return an npz file with X and y; labels are stored as text."""
    array = np.asarray(tensor_to_array(inputs))
    if array.dtype.kind not in "biuf" or array.ndim < 2:
        raise InputError(
            f"X has shape {array.shape}, type {array.dtype}; give vectors (N, D) or uint8 images, "
            "or a data frame if columns are not numbers"
        )
    buffer = io.BytesIO()
    np.savez(buffer, X=array, y=np.array(label_texts(labels, len(array))))
    return buffer.getvalue()


def label_texts(labels: Any, rows: int) -> list[str]:
    """Return labels as text; raise unless each of the rows has one."""
    values = np.asarray(tensor_to_array(labels))
    if values.shape != (rows,):
        raise InputError(f"y has shape {values.shape}; give one label for each of the {rows} rows")
    missing = [row for row, each in enumerate(values.tolist()) if each is None or each != each]
    if missing:
        raise InputError(f"y: row {missing[0]} has no label; leave such rows out")
    return [str(each) for each in values.tolist()]
