"""Pictures or values of the suspicious rows, read from the source again.

Only the rows on the page are read. If the source cannot be read, the page has a note instead.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ulc.config import RunSpec
from ulc.data.prepare import kept_rows
from ulc.data.sources import load_source
from ulc.data.sources.pictures import SUFFIXES, Picture, printable_path
from ulc.errors import InputError
from ulc.importing import check_trust
from ulc.report.stored_rows import array_rows, table_rows
from ulc.report.thumbnails import EDGE, from_array, from_picture
from ulc.storage.run_folder import RunFolder
from ulc.typing import Integers

if TYPE_CHECKING:
    import pandas as pd

WIDEST = 32  # longer vectors are not shown: people cannot read embeddings
LONGEST = 120  # characters of a value
LONGEST_SENTENCE = 600  # characters of a value in a column of sentences


@dataclass(frozen=True)
class Examples:
    """Pictures or values of the suspects; a place is a position in their list.

    read: function from a place and the largest edge in pixels to the thumbnail as a data URI; it
        returns None if there is none
    columns: names of the values; empty: no values are shown
    values: the values of each suspect, in the order of `columns`
    paths: paths of the pictures, if the ids are no paths; else empty
    note: a sentence that says what is not shown and why; None: all is shown
    edge: largest height and width of the thumbnails in pixels
    """

    read: Callable[[int, int], str | None] = lambda *_: None
    columns: tuple[str, ...] = ()
    values: Sequence[Sequence[str]] = ()
    paths: Sequence[str] = ()
    note: str | None = None
    edge: int = EDGE

    def picture(self, place: int) -> str | None:
        """The thumbnail at a place as a data URI; None: there is none."""
        return self.read(place, self.edge)


@dataclass(frozen=True)
class Wanted:
    """Rows of a run's training data that are to be read again.

    rows: positions in the training data; ids: names of these rows; None: the data have no ids
    total: number of rows of the training data
    skipped: names of the images that the run could not read and left out
    unlabelled: number of rows without a label, which the run left out
    """

    spec: RunSpec
    rows: Integers
    ids: Sequence[str] | None
    total: int
    skipped: frozenset[str] = field(default_factory=frozenset)
    unlabelled: int = 0

    @property
    def source_rows(self) -> Integers:
        """Positions of the rows in the source.

        They differ from `rows` if the run left out rows to make classes uneven.
        """
        if self.spec.imbalance.kind == "none":
            return self.rows
        check_trust(self.spec.data.text_model or "", "text model", "spec.toml", trust=False)
        return kept_rows(load_source(self.spec.data), self.spec)[self.rows]

    @property
    def source_total(self) -> int | None:
        """Number of rows that the source must have; None: unknown, because rows were left out."""
        return self.total if self.spec.imbalance.kind == "none" else None

    @property
    def path(self) -> Path:
        """Path of the source."""
        return Path(self.spec.data.path or "")


def wanted_rows(folder: RunFolder, rows: Integers, ids: Sequence[str] | None) -> Wanted:
    """The rows at these positions of a run's training data."""
    facts = folder.read_json("data.json")
    skipped = frozenset(facts.get("skipped", ()))
    unlabelled = int(facts.get("unlabelled", 0))
    return Wanted(folder.spec, rows, ids, int(facts["examples"]), skipped, unlabelled)


def find_examples(folder: RunFolder, rows: Integers, ids: Sequence[str] | None) -> Examples:
    """Pictures or values of the rows, or a note that says why there are none."""
    wanted = wanted_rows(folder, rows, ids)
    if len(rows) == 0:
        return Examples()
    if ids is not None and ids[0].lower().endswith(SUFFIXES):
        return from_files(ids)
    try:
        return READERS[wanted.spec.data.source](wanted)
    except Exception as error:
        # Readers of other packages raise errors of any type where the source has changed.
        reason = str(error) if isinstance(error, InputError) else type(error).__name__
        return Examples(
            note=f"The examples are not shown because the data cannot be read again: {reason}"
        )


def from_files(paths: Sequence[str]) -> Examples:
    """Pictures in files at these paths."""
    missing = sum(not os.path.isfile(path) for path in paths)  # noqa: PTH113 (thousands)
    note = None
    if missing:
        note = (
            f"{missing} of {len(paths)} pictures are no longer where the run read them "
            f"({next(path for path in paths if not Path(path).is_file())}); they are not shown."
        )
    return Examples(
        read=lambda place, edge: from_picture(Picture.from_path(Path(paths[place])), edge),
        note=note,
    )


def from_images(images: NDArray[Any]) -> Examples:
    """Pictures of an (n, C, H, W) array."""
    return Examples(read=lambda place, edge: from_array(images[place], edge))


def from_vectors(vectors: NDArray[Any]) -> Examples:
    """The numbers of (n, D) vectors."""
    width = vectors.shape[1]
    if width > WIDEST:
        return Examples(
            note=f"Each example is a vector of {width} numbers, which is not shown. If the npz "
            "file has `ids` that are paths of images, the page shows these images."
        )
    columns = tuple(f"column {number}" for number in range(width))
    return Examples(columns=columns, values=[[f"{value:.6g}" for value in row] for row in vectors])


def from_package(wanted: Wanted) -> Examples:
    """Pictures of a data set that can only be read as a whole."""
    source = load_source(wanted.spec.data)
    return from_images(np.asarray(source.inputs[kept_rows(source, wanted.spec)[wanted.rows]]))


def from_npz(wanted: Wanted) -> Examples:
    """Rows of the array X of an npz file."""
    found = array_rows(wanted.path, "X", wanted.source_rows, wanted.source_total)
    return from_vectors(found) if found.ndim == 2 else from_images(found)


def from_table(wanted: Wanted) -> Examples:
    """Rows of a table: their values, or the pictures whose paths they hold."""
    from ulc.data.sources.frame import image_column

    data = wanted.spec.data
    rows, total = wanted.source_rows, wanted.source_total
    table = table_rows(wanted.path, rows, total, data, keep=unskipped(wanted))
    check_ids(table, wanted)
    image = image_column(table, data)
    if image is None:
        return from_frame(table, wanted)
    paths = [printable_path(wanted.path.parent / str(text)) for text in table[image]]
    shown = from_files(paths)
    return Examples(shown.read, paths=paths, note=shown.note)


def unskipped(wanted: Wanted) -> Callable[["pd.DataFrame"], NDArray[np.bool_]] | None:
    """A function from a table to the mask of rows that the run read; None: it read all rows."""
    if not wanted.skipped and not wanted.unlabelled:
        return None
    from ulc.data.sources.frame import ColumnRoles, has_text, image_column

    def keep(table: "pd.DataFrame") -> NDArray[np.bool_]:
        data = wanted.spec.data
        roles = ColumnRoles.choose(list(table.columns), data, str(wanted.path))
        kept = has_text(table[roles.label])
        image = image_column(table, data)
        if wanted.skipped and image is not None:
            names = [printable_path(wanted.path.parent / str(text)) for text in table[image]]
            kept &= np.array([name not in wanted.skipped for name in names], bool)
        return kept

    return keep


def check_ids(table: "pd.DataFrame", wanted: Wanted) -> None:
    """Raise an InputError if the ids of the table are no longer those of the run."""
    from ulc.data.columns import to_text
    from ulc.data.sources.frame import ColumnRoles

    roles = ColumnRoles.choose(list(table.columns), wanted.spec.data, str(wanted.path))
    if roles.id is None or wanted.ids is None:
        return
    if list(to_text(table[roles.id])) != list(wanted.ids):
        raise InputError(f"{wanted.path} has changed since the run; train again to see its rows")


def from_frame(table: "pd.DataFrame", wanted: Wanted) -> Examples:
    """The values of the feature columns of a table, or its sentences."""
    from ulc.data.columns import looks_like_text
    from ulc.data.sources.frame import ColumnRoles

    roles = ColumnRoles.choose(list(table.columns), wanted.spec.data, str(wanted.path))
    chosen = table[list(roles.features)].astype(object)
    shown = chosen.where(chosen.notna(), None)
    lengths = [
        LONGEST_SENTENCE
        if name == wanted.spec.data.text or looks_like_text(table[name])
        else LONGEST
        for name in roles.features
    ]
    values = [
        [
            "–" if value is None else str(value)[:length]
            for value, length in zip(row, lengths, strict=True)
        ]
        for row in shown.itertuples(index=False, name=None)
    ]
    return Examples(columns=tuple(map(str, roles.features)), values=values)


def from_huggingface(wanted: Wanted) -> Examples:
    """Rows of a Hugging Face data set: their pictures or their values."""
    from ulc.data.sources import huggingface
    from ulc.data.sources.frame import ColumnRoles, labelled_rows

    train, where = huggingface.read_splits(wanted.path).train, str(wanted.path)
    kept = np.arange(len(train))
    if wanted.skipped:
        kept = kept[[f"{where}: train, row {row}" not in wanted.skipped for row in kept]]
    if wanted.unlabelled:
        roles = ColumnRoles.choose(list(train.features), wanted.spec.data, where)
        labels = huggingface.to_frame(train, [roles.label])
        kept = kept[labelled_rows(labels, roles, where)[kept]]
    if wanted.source_total not in (None, len(kept)):
        raise InputError(f"{where} has changed since the run; train again to see its rows")
    selected = train.select(kept[wanted.source_rows])
    images = [name for name, kind in train.features.items() if huggingface.is_image(kind)]
    data = wanted.spec.data
    image = data.image or next(iter([] if data.features or data.text else images), None)
    if image is None:
        others = [name for name in train.features if name not in images]
        return from_frame(huggingface.to_frame(selected, others), wanted)
    pictures = huggingface.list_pictures(selected, image, where)
    return Examples(read=lambda place, edge: from_picture(pictures[place], edge))


READERS: dict[str, Callable[[Wanted], Examples]] = {
    "fashion": from_package,
    "cifar10": from_package,
    "cifar100": from_package,
    "npz": from_npz,
    "table": from_table,
    "huggingface": from_huggingface,
    "folder": lambda wanted: from_files(wanted.ids or ()),
}
