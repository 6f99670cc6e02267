"""Features of some rows: numbers from which a map of the data is made."""

from collections.abc import Sequence

import numpy as np

from ulc.config import checked
from ulc.report.examples import Wanted, unskipped, wanted_rows
from ulc.report.stored_rows import array_rows, table_rows
from ulc.storage.run_folder import RunFolder
from ulc.typing import Floats, Integers

EMBEDDED = "features.npz"  # embedded images of an audit, in its folder


def find_features(folder: RunFolder, rows: Integers, ids: Sequence[str] | None) -> Floats | None:
    """(n, D) features of the rows: embedded images, vectors, sentences or encoded columns.

    None: there are none, or they cannot be read again. Raw images have none.

    rows: (n,) positions in the training data; ids: names of these rows; None: no ids
    """
    wanted = wanted_rows(folder, rows, ids)
    try:
        found = read_features(folder, wanted)
    except Exception:  # readers of other packages raise errors of any type
        return None
    if found is None or found.ndim != 2 or not np.isfinite(found).all():
        return None
    return found.astype(np.float64)


def read_features(folder: RunFolder, wanted: Wanted) -> Floats | None:
    """The features as stored, or as the run's encoding gives them; None: there are none."""
    if folder.has(EMBEDDED):
        return array_rows(folder.path / EMBEDDED, "X", wanted.rows, wanted.total)
    if wanted.spec.data.source == "npz":
        return array_rows(wanted.path, "X", wanted.source_rows, wanted.source_total)
    if wanted.spec.data.source == "table" and folder.has("encoding.json"):
        return encoded_rows(folder, wanted)
    if wanted.spec.data.source == "table" and folder.has("text.npz"):
        return sentence_vectors(folder, wanted)
    return None


def encoded_rows(folder: RunFolder, wanted: Wanted) -> Floats:
    """Rows of a table as the run encoded them."""
    from ulc.data.table_encoding import TableEncoding

    where = str(folder.path / "encoding.json")
    encoding = checked(TableEncoding, folder.read_json("encoding.json"), where=where)
    rows, total = wanted.source_rows, wanted.source_total
    table = table_rows(wanted.path, rows, total, wanted.spec.data, keep=unskipped(wanted))
    return encoding.transform(table, str(wanted.path))


def sentence_vectors(folder: RunFolder, wanted: Wanted) -> Floats | None:
    """Sentences of a table as the run encoded them; None: a pretrained model would be loaded."""
    from ulc.data.text.encoding import TextEncoding
    from ulc.data.text.tfidf import TfidfFeatures

    arrays = folder.read_arrays("text.npz")
    if str(arrays["model"]) != TfidfFeatures.name:
        return None
    rows, total = wanted.source_rows, wanted.source_total
    table = table_rows(wanted.path, rows, total, wanted.spec.data, keep=unskipped(wanted))
    return TextEncoding.read(arrays).transform(table, str(wanted.path))
