"""Make sources from data frames: choose columns, read annotations, encode vectors."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ulc.config import DataSpec
from ulc.data.columns import looks_like_text, to_flags, to_text
from ulc.data.sources.annotations import Annotations, number_labels
from ulc.data.sources.column_notes import describe_columns, describe_text
from ulc.data.sources.pictures import SUFFIXES
from ulc.data.sources.source import Source
from ulc.data.table_encoding import TableEncoding, reason_to_leave_out
from ulc.data.text.encoding import TextEncoding
from ulc.errors import InputError

# Column names that are recognised if no option names the column.
LABEL = ("label", "given_label", "class", "target", "y")
TRUE = ("true_label", "y_true")
VERIFIED = ("verified",)
ID = ("id", "")  # pandas writes the index into a column without a name
IMAGE = ("path", "image", "file", "filename")
NAMED = ("label", "image", "text", "id", "true", "verified")  # options that name one column
SHOWN = 20  # most column names in an error message


@dataclass(frozen=True)
class ColumnRoles:
    """Name of the column that has each role; None: the table has no such column.

    features: columns to learn from
    others: all columns without another role, which are the features unless options name some
    """

    label: str
    true: str | None
    verified: str | None
    id: str | None
    features: tuple[str, ...]
    others: tuple[str, ...]

    @classmethod
    def choose(cls, columns: Sequence[str], spec: DataSpec, where: str) -> "ColumnRoles":
        """Choose columns by options, else by recognised names; all other columns are features.

        where: name of the table in error messages
        """
        check_columns(columns, spec, where)
        if len([each for each in (spec.image, spec.text, spec.features) if each]) > 1:
            raise InputError(
                f"{where}: learn from images, from text or from features; give one of these options"
            )
        label = spec.label or first_present(LABEL, columns)
        if label is None:
            raise InputError(
                f"{where}: no column is called {', '.join(LABEL)}; name the one that holds the "
                f"labels with --label (columns: {list_names(columns)})"
            )
        found = {
            "true": spec.true or first_present(TRUE, columns),
            "verified": spec.verified or first_present(VERIFIED, columns),
            "id": spec.id or first_present(ID, columns),
        }
        # Columns with a recognised name are never features.
        taken = {label, *found.values(), *TRUE, *VERIFIED, *ID}
        others = tuple(name for name in columns if name not in taken)
        features = spec.features or ((spec.text,) if spec.text else others)
        labels = [name for name in features if name in (label, spec.true)]
        if labels:
            raise InputError(
                f"{where}: '{labels[0]}' holds labels, so nothing can be learned from it; "
                "take it out of the features"
            )
        return cls(label=label, features=features, others=others, **found)


def check_columns(columns: Sequence[str], spec: DataSpec, where: str) -> None:
    """Raise unless column names are unique and every column that an option names exists."""
    twice, times = Counter(columns).most_common(1)[0]
    if times > 1:
        raise InputError(f"{where}: {times} columns are called '{twice}'; rename them")
    wanted = {name: spec.options.get(name) for name in NAMED}
    every = [*wanted.items(), *(("features", name) for name in spec.features or ())]
    for option, name in every:
        if name is not None and name not in columns:
            raise InputError(
                f"{where}: no column '{name}', which the option '{option}' names; "
                f"columns: {list_names(columns)}"
            )


def first_present(names: Sequence[str], columns: Sequence[str]) -> str | None:
    """Return the first of the names that is a column; None: no name is a column."""
    return next((name for name in names if name in columns), None)


def list_names(columns: Sequence[str]) -> str:
    """Return names of columns as text, at most `SHOWN` of them."""
    more = len(columns) - SHOWN
    return ", ".join(name or "(no name)" for name in columns[:SHOWN]) + (
        f" and {more} more" if more > 0 else ""
    )


def image_column(table: pd.DataFrame, spec: DataSpec) -> str | None:
    """Return the column of image paths; None: there is none, or other inputs are asked for.

    Without the option `image` it is a column with a recognised name; all its values end like the
    names of image files.
    """
    if spec.image is not None or spec.features is not None or spec.text is not None:
        return spec.image
    for name in IMAGE:
        if name in table.columns and spec.label != name:
            paths = to_text(table[name]).dropna()
            if len(paths) and paths.str.lower().str.endswith(SUFFIXES).all():
                return name
    return None


def image_paths(values: "pd.Series[Any]", folder: Path, where: str) -> list[Path]:
    """Return the path of each row's image; relative paths start from `folder`."""
    return [folder / text for text in require_texts(values, where, "path")]


def read_annotations(
    table: pd.DataFrame,
    roles: ColumnRoles,
    where: str,
    test: pd.DataFrame | None = None,
    class_names: Sequence[str] = (),
) -> Annotations:
    """Read the labels, true labels, ids and verified flags of the rows.

    test: table of the test set; None: no test set
    class_names: names of the first classes, as in `number_labels`
    """

    def texts(table: pd.DataFrame, name: str, what: str) -> list[str]:
        return require_texts(get_column(table, name, where), f"{where}: column '{name}'", what)

    columns = {"given": texts(table, roles.label, "label")}
    if len(columns["given"]) > 1 and len(set(columns["given"])) == len(columns["given"]):
        raise InputError(
            f"{where}: every row has a label of its own in the column '{roles.label}'; "
            "name the column that holds the classes with --label"
        )
    if roles.true is not None:
        columns["true"] = texts(table, roles.true, "true label")
    if test is not None:
        columns["test"] = texts(test, roles.label, "label")
    names, labels = number_labels(columns, class_names)
    return Annotations(
        class_names=names,
        labels=labels["given"],
        true=labels.get("true"),
        test_labels=labels.get("test"),
        ids=None if roles.id is None else tuple(texts(table, roles.id, "id")),
        verified=None
        if roles.verified is None
        else to_flags(
            get_column(table, roles.verified, where), f"{where}: column '{roles.verified}'"
        ),
    )


def labelled_rows(table: pd.DataFrame, roles: ColumnRoles, where: str) -> NDArray[np.bool_]:
    """Return the (N,) mask of the rows that have a label; raise if none has one."""
    mask = has_text(get_column(table, roles.label, where))
    if not mask.any():
        raise InputError(f"{where}: no row has a label in the column '{roles.label}'; fill some")
    return mask


def has_text(values: "pd.Series[Any]") -> NDArray[np.bool_]:
    """Return the (N,) mask of the values that are there and not empty."""
    text = to_text(values)
    return ~(text.isna() | (text == "")).to_numpy(bool)


def name_by_position(notes: Annotations, labelled: NDArray[np.bool_]) -> Annotations:
    """Name the labelled rows by their positions in the whole table, if they have no ids.

    If all rows are labelled, they need no names.
    """
    if notes.ids is not None or labelled.all():
        return notes
    return replace(notes, ids=tuple(map(str, np.flatnonzero(labelled))))


def leave_out_unlabelled(source: Source, labelled: NDArray[np.bool_]) -> Source:
    """Add to a source made of the labelled rows that the other rows were left out."""
    count = int((~labelled).sum())
    if not count:
        return source
    note = (
        f"{count} of {len(labelled)} rows have no label: they are left out of learning; an audit "
        "predicts them in unlabelled.csv, and `ulc predict` with any run"
    )
    return replace(source, notes=(*source.notes, note), unlabelled=count)


def get_column(table: pd.DataFrame, name: str, where: str) -> "pd.Series[Any]":
    """Return a column; raise if the table, from which image columns are removed, lacks it."""
    if name not in table:
        raise InputError(
            f"{where}: not every split has a column '{name}' of text or numbers; "
            "add it, or name another column"
        )
    return table[name]


def require_texts(values: "pd.Series[Any]", where: str, what: str) -> list[str]:
    """Return values as text; if one is missing, raise an error that calls it `what`."""
    empty = ~has_text(values)
    if empty.any():
        row = int(values.index[empty.argmax()])
        raise InputError(
            f"{where}: row {row + 1} below the header has no {what}; fill it or remove the row"
        )
    return list(to_text(values))


def vector_source(  # noqa: PLR0913 (a table and what is known about it)
    name: str,
    table: pd.DataFrame,
    roles: ColumnRoles,
    notes: Annotations,
    spec: DataSpec,
    test: pd.DataFrame | None = None,
) -> Source:
    """Make a source whose inputs are the sentences or the feature columns, encoded as vectors."""
    features = table[list(roles.features)]
    text = spec.text or only_text(features, name)
    encoding: TextEncoding | TableEncoding
    if text is None:
        encoding = TableEncoding.fit(features, name)
        said = describe_columns(encoding)
    else:
        encoding = TextEncoding.fit(table, text, spec.text_model, name)
        others = [other for other in roles.others if other != text]
        said = describe_text(encoding, others, found=spec.text is None)
    return Source(
        name=name,
        inputs=encoding.transform(table, name),
        test_inputs=None if test is None else encoding.transform(test, name),
        class_names=notes.class_names,
        labels=notes.labels,
        true=notes.true,
        test_labels=notes.test_labels,
        ids=notes.ids,
        verified=notes.verified,
        encoding=encoding if isinstance(encoding, TableEncoding) else None,
        text=encoding if isinstance(encoding, TextEncoding) else None,
        notes=tuple(said),
        nearly_empty=encoding.nearly_empty(table),
    )


def only_text(features: pd.DataFrame, where: str) -> str | None:
    """Return the column of sentences if it is the only one and no other column can be used."""
    texts = [name for name in features if looks_like_text(features[name])]
    if len(texts) != 1:
        return None
    others = features.drop(columns=texts)
    reasons = [reason_to_leave_out(others[name], f"{where}: column '{name}'") for name in others]
    return str(texts[0]) if all(reasons) else None
