"""Copy a table (CSV, TSV or parquet) with corrected labels."""

import io
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ulc.applying.image_paths import path_in_table
from ulc.applying.original import NewLabels
from ulc.applying.run_rows import Texts
from ulc.config import DataSpec
from ulc.data.sources.frame import (
    ColumnRoles,
    image_column,
    image_paths,
    labelled_rows,
    read_annotations,
)
from ulc.data.sources.pictures import printable_path
from ulc.data.sources.table import MISSING, read_table, read_text
from ulc.data.sources.text_format import UTF8, TextFormat, find_format
from ulc.errors import InputError
from ulc.labels.table import as_objects

if TYPE_CHECKING:
    import pyarrow as pa

MARK = b"\xef\xbb\xbf"  # byte order mark, by which spreadsheets recognise UTF-8
VERIFIED = "verified"


class TableFile:
    """A table file; rows that the run left out are copied unchanged.

    These are rows with a broken image, and rows without a label.
    """

    note = None

    def __init__(self, spec: DataSpec, skipped: Iterable[str]) -> None:
        self.spec, self.path = spec, Path(spec.path or "")
        self.suffix = self.path.suffix.lower()
        table, where = read_table(self.path, spec), str(self.path)
        self.roles = ColumnRoles.choose(list(table.columns), spec, where)
        labelled = labelled_rows(table, self.roles, where)
        notes = read_annotations(table[labelled], self.roles, where)
        self.image = image_column(table, spec)
        self.paths = (
            []
            if self.image is None
            else image_paths(table[self.image], self.path.parent, f"{where}: '{self.image}'")
        )
        names, broken = list(map(printable_path, self.paths)), set(skipped)
        rows = np.flatnonzero(labelled)
        kept = [place for place, row in enumerate(rows) if not (names and names[row] in broken)]
        self.rows = rows[kept]  # the table row of each row of the run
        self.labels: Texts = as_objects(notes.class_names)[notes.labels[kept]]
        ids = notes.ids or [names[row] for row in rows if names]
        self.ids: Sequence[str] | None = [ids[place] for place in kept] if ids else None
        self.verified = (
            np.zeros(len(kept), bool) if notes.verified is None else notes.verified[kept]
        )

    def copy(self, new_labels: NewLabels, out: Path) -> bytes:
        """Return the bytes of the copy: labels, flags and relative image paths change."""
        if self.suffix == ".parquet":
            return self.parquet_copy(new_labels, out)
        return self.text_copy(new_labels, out)

    def options(self) -> list[str]:
        """Return the command-line options with which the table was read."""
        named = {
            "--label": self.spec.label,
            "--image": self.spec.image,
            "--text": self.spec.text,
            "--text-model": self.spec.text_model,
            "--id": self.spec.id,
            "--sep": self.spec.sep,
            "--encoding": self.spec.encoding,
            "--true-label": self.spec.true,
            "--verified": self.spec.verified,
            "--features": ",".join(self.spec.features or ()) or None,
            "--size": self.spec.size,
        }
        given = [str(part) for each in named.items() if each[1] is not None for part in each]
        return given + ["--skip-broken"] * self.spec.skip_broken

    def moved_paths(self, values: Sequence[Any], out: Path) -> list[Any]:
        """Return image paths for the copy; relative paths now start from the folder of `out`."""
        here, there = self.path.absolute().parent, out.absolute().parent
        if here == there:
            return list(values)
        return [
            value if Path(str(value).strip()).is_absolute() else path_in_table(path, there)
            for value, path in zip(values, self.paths, strict=True)
        ]

    def text_copy(self, new_labels: NewLabels, out: Path) -> bytes:
        """Return the copy as CSV or TSV; all other values keep their text, including `NA`."""
        refuse_missing_names(new_labels.labels[new_labels.changed], out)
        form = find_format(self.path, self.spec)
        table = read_text(self.path, form, missing=()).fillna("")
        labels = table[self.roles.label].to_numpy(object, copy=True)
        labels[self.rows[new_labels.changed]] = new_labels.labels[new_labels.changed]
        table[self.roles.label] = labels
        if self.roles.verified is not None or new_labels.decided.any():
            name = self.roles.verified or VERIFIED
            before = table.get(name)
            table[name] = self.flag_words(before, new_labels)
        if self.image is not None:
            table[self.image] = as_objects(self.moved_paths(list(table[self.image]), out))
        table = table.drop(index=table.index[self.rows[new_labels.deleted]])
        content = table.to_csv(sep=form.separator, index=False, lineterminator=self.line_end(form))
        if form.encoding != UTF8:
            return encode(content, form.encoding, out)
        with self.path.open("rb") as stream:
            return MARK * (stream.read(len(MARK)) == MARK) + content.encode()

    def line_end(self, form: TextFormat) -> str:
        """Return the characters that end the first line of the table."""
        with self.path.open(encoding=form.encoding, newline="") as stream:
            return "\r\n" if stream.readline().endswith("\r\n") else "\n"

    def flag_words(self, before: Any, new_labels: NewLabels) -> Texts:
        """Return the verified flags of all rows as text.

        before: the old column; None: the table has no such column

        A new flag is written with the word of the first verified row, else as 1.
        """
        if before is None:
            words, yes = np.full(self.total, "0", object), "1"
        else:
            words = before.to_numpy(object, copy=True)
            said = words[self.rows[self.verified]]
            yes = said[0].strip() if len(said) else "1"
        # A row that was verified before keeps its word.
        words[self.rows[new_labels.decided & ~self.verified]] = yes
        return words

    @cached_property
    def total(self) -> int:
        """Number of rows of the table, including rows that the run left out."""
        return len(read_table(self.path, self.spec))

    def parquet_copy(self, new_labels: NewLabels, out: Path) -> bytes:
        """Return the copy as parquet; all other columns keep their values and types."""
        from pyarrow import parquet

        table = parquet.read_table(self.path)
        table = replace_column(table, self.roles.label, self.typed_labels(table, new_labels))
        if self.roles.verified is not None or new_labels.decided.any():
            table = self.with_flags(table, new_labels)
        if self.image is not None:
            paths = self.moved_paths(table[self.image].to_pylist(), out)
            table = replace_column(table, self.image, paths)
        if new_labels.deleted.any():
            table = table.take(np.delete(np.arange(len(table)), self.rows[new_labels.deleted]))
        buffer = io.BytesIO()
        parquet.write_table(table, buffer)
        return buffer.getvalue()

    def typed_labels(self, table: "pa.Table", new_labels: NewLabels) -> list[Any]:
        """Return the labels of all rows of the table, in the type of the label column."""
        values = table[self.roles.label].to_pylist()
        known = {text: values[row] for text, row in zip(self.labels, self.rows, strict=True)}
        kind = table.schema.field(self.roles.label).type
        changed = np.flatnonzero(new_labels.changed)
        for row, text in zip(self.rows[changed], new_labels.labels[changed], strict=True):
            if text not in known:
                known[text] = convert_label(text, kind, f"{self.path}: column '{self.roles.label}'")
            values[row] = known[text]
        return values

    def with_flags(self, table: "pa.Table", new_labels: NewLabels) -> "pa.Table":
        """Return the table with its column of verified flags changed or added."""
        import pyarrow as pa

        name = self.roles.verified or VERIFIED
        if name not in table.column_names:
            flags = np.zeros(len(table), bool)
            flags[self.rows[new_labels.decided]] = True
            return table.append_column(name, pa.array(flags))
        values = table[name].to_pylist()
        text = is_text_type(table.schema.field(name).type)
        for row in self.rows[new_labels.decided & ~self.verified]:
            values[row] = "1" if text else 1
        kind = table.schema.field(name).type
        if pa.types.is_boolean(kind) or pa.types.is_null(kind):
            values = [None if value is None else bool(value) for value in values]
            kind = pa.bool_()
        place = table.column_names.index(name)
        return table.set_column(place, pa.field(name, kind), pa.array(values, kind))


def encode(content: str, encoding: str, out: Path) -> bytes:
    """Return the content in the encoding of the table; raise if a new label cannot be written."""
    try:
        return content.encode(encoding)
    except UnicodeEncodeError as error:
        raise InputError(
            f"{out}: {error.object[error.start : error.end]!r} cannot be written in the encoding "
            f"{encoding} of the table; save the table in UTF-8 and audit it again"
        ) from None


def refuse_missing_names(labels: Texts, out: Path) -> None:
    """Raise if a label would be read as a missing value."""
    lost = sorted(set(labels) & set(MISSING))
    if lost:
        raise InputError(
            f"{out}: the label '{lost[0]}' would be read as a missing value; rename the class"
        )


def replace_column(table: "pa.Table", name: str, values: list[Any]) -> "pa.Table":
    """Return the table with other values in one column, whose type stays."""
    import pyarrow as pa

    place, field = table.column_names.index(name), table.schema.field(name)
    return table.set_column(place, field, pa.array(values, field.type))


def is_text_type(kind: Any) -> bool:
    """Tell whether an arrow type is text, or a dictionary of text."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return is_text_type(kind.value_type)
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def convert_label(text: str, kind: Any, where: str) -> Any:
    """Convert the label of a new class to `kind`, the arrow type of the label column."""
    import pyarrow as pa

    if is_text_type(kind):
        return text
    try:
        # A boolean column cannot get a new class: it has both values already.
        value = pa.scalar(float(text) if pa.types.is_floating(kind) else int(text), kind)
    except (ValueError, TypeError, OverflowError, pa.ArrowException):
        raise InputError(
            f"{where} holds values of type {kind}, and '{text}' is not such a value; "
            "relabel to one that is"
        ) from None
    return value.as_py()
