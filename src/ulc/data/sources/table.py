"""Read tables from CSV, TSV or parquet files."""

import csv
import warnings
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from ulc.config import DataSpec
from ulc.data.sources.frame import (
    ColumnRoles,
    image_column,
    image_paths,
    read_annotations,
    vector_source,
)
from ulc.data.sources.pictures import Picture, Pictures
from ulc.data.sources.source import Source
from ulc.errors import InputError, first_line
from ulc.typing import CountCallback

SEPARATORS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*SEPARATORS, ".parquet")
MISSING = ("", "NA", "N/A", "NaN", "nan", "<NA>", "#N/A", "null", "NULL")
SEPARATOR_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}


def load(path: Path, spec: DataSpec, on_progress: CountCallback) -> Source:
    """Read the images that the table lists, or its feature columns as vectors."""
    table, where = read_table(path), str(path)
    roles = ColumnRoles.choose(list(table.columns), spec, where)
    notes = read_annotations(table, roles, where)
    image = image_column(table, spec)
    if image is None:
        return vector_source(where, table, roles, notes, spec)
    paths = image_paths(table[image], path.parent, f"{where}: column '{image}'")
    pictures = Pictures(list(map(Picture.from_path, paths)))
    if notes.ids is None:
        notes = replace(notes, ids=tuple(picture.name for picture in pictures.train))
    return pictures.to_source(where, notes, spec, on_progress)


def read_table(path: Path) -> pd.DataFrame:
    """Read all columns of a table file; the values of CSV and TSV files stay text."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: a table ends in {', '.join(SUFFIXES)}; rename or convert it")
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no such file"
        raise InputError(f"{path}: {what}; give the path of a table")
    try:
        table = read_parquet(path) if suffix == ".parquet" else read_text(path, SEPARATORS[suffix])
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error}); check the file and its permissions"
        ) from None
    if len(table) == 0:
        raise InputError(f"{path}: holds no rows below its header; fill it")
    return table


def read_text(path: Path, separator: str, *, missing: tuple[str, ...] = MISSING) -> pd.DataFrame:
    """Read a table in UTF-8 with all values as text; the values in `missing` become NaN."""
    header = read_header(path, separator)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            options = text_options(header, separator, missing)
            return pd.read_csv(path, **options).set_axis(header, axis=1)
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from None
    except (pd.errors.ParserError, pd.errors.ParserWarning, ValueError) as error:
        reason = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
        raise InputError(
            f"{path}: not a table ({reason}); give every row as many values as the header has names"
        ) from None


def text_options(
    header: list[str], separator: str, missing: tuple[str, ...] = MISSING
) -> dict[str, Any]:
    """Return the options of `pandas.read_csv` for a CSV or TSV file with this header."""
    return {
        "sep": separator,
        "header": 0,
        "names": range(len(header)),
        "index_col": False,
        "dtype": str,
        "na_values": list(missing),
        "keep_default_na": False,
        "encoding": "utf-8-sig",
    }


def read_header(path: Path, separator: str) -> list[str]:
    """Read the column names from the first line; raise if the columns have another separator."""
    with path.open("rb") as stream:
        if b"\0" in stream.read(4096):
            raise InputError(f"{path}: not a text file; save the table as CSV in UTF-8")
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            header = next(csv.reader(stream, delimiter=separator), [])
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from None
    except csv.Error as error:
        raise InputError(f"{path}: not a table ({error}); save it as CSV in UTF-8") from None
    if not header:
        raise InputError(f"{path}: its first line is empty; begin with the names of the columns")
    for other, name in SEPARATOR_NAMES.items():
        if len(header) == 1 and other in header[0]:
            tabs = ", or rename it to .tsv" if other == "\t" else ""
            raise InputError(
                f"{path}: its columns are separated by {name}, not by "
                f"{SEPARATOR_NAMES[separator]}; save it with {SEPARATOR_NAMES[separator]}{tabs}"
            )
    return [name.strip() for name in header]


def not_utf8(path: Path, error: UnicodeDecodeError) -> InputError:
    """Return the error for a file whose encoding is not UTF-8."""
    return InputError(
        f"{path}: not in UTF-8 (byte {error.object[error.start]:#04x} is wrong); "
        "save it in that encoding"
    )


def read_parquet(path: Path) -> pd.DataFrame:
    """Read a parquet file; column names become text."""
    if find_spec("pyarrow") is None:
        raise InputError(f"{path}: parquet needs pyarrow; pip install 'ulc[parquet]'")
    import pyarrow as pa

    try:
        table = pd.read_parquet(path, engine="pyarrow")
    except (pa.ArrowException, ValueError) as error:
        raise InputError(
            f"{path}: not a readable parquet file ({first_line(error)}); write it again"
        ) from None
    return table.set_axis(table.columns.map(str), axis=1)
