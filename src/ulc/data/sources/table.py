"""Read tables from CSV, TSV or parquet files."""

import csv
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from ulc.config import DataSpec
from ulc.data.sources.frame import (
    ColumnRoles,
    has_text,
    image_column,
    image_paths,
    labelled_rows,
    leave_out_unlabelled,
    list_names,
    name_by_position,
    read_annotations,
    vector_source,
)
from ulc.data.sources.pictures import Picture, Pictures
from ulc.data.sources.source import Source
from ulc.data.sources.text_format import SEPARATORS, TextFormat, find_format
from ulc.errors import InputError, first_line, is_of_system
from ulc.storage.memory import check_file, check_memory
from ulc.typing import CountCallback

SUFFIXES = (*SEPARATORS, ".parquet")
MISSING = ("", "NA", "N/A", "NaN", "nan", "<NA>", "#N/A", "null", "NULL")
COPIES = 4  # of a text file in memory: its text, its cells and its numbers
DECIMAL_COMMA = re.compile(r"[+-]?\d+(?:,\d+)?")


def load(path: Path, spec: DataSpec, on_progress: CountCallback) -> Source:
    """Read the images that the table lists, or its feature columns as vectors."""
    where = str(path)
    table, how = read_noted_table(path, spec)
    roles = ColumnRoles.choose(list(table.columns), spec, where)
    labelled = labelled_rows(table, roles, where)
    table = table[labelled]
    image = image_column(table, spec)
    needed = (roles.label, *(roles.features if image is None else (image,)))
    test = None if spec.test is None else read_test_table(Path(spec.test), needed, spec)
    notes = read_annotations(table, roles, where, test)
    if image is None:
        named = name_by_position(notes, labelled)
        source = vector_source(where, table, roles, named, spec, test)
        return leave_out_unlabelled(replace(source, notes=(*how, *source.notes)), labelled)
    paths = image_paths(table[image], path.parent, f"{where}: column '{image}'")
    tested = [] if test is None else image_paths(test[image], Path(spec.test or "").parent, where)
    pictures = Pictures(list(map(Picture.from_path, paths)), list(map(Picture.from_path, tested)))
    if notes.ids is None:
        notes = replace(notes, ids=tuple(picture.name for picture in pictures.train))
    source = pictures.to_source(where, notes, spec, on_progress)
    return leave_out_unlabelled(replace(source, notes=how), labelled)


def read_test_table(path: Path, needed: Sequence[str], spec: DataSpec) -> pd.DataFrame:
    """Read the labelled rows of a test set's table, which must have the columns `needed`."""
    table = read_table(path, spec)
    missing = [name for name in needed if name not in table]
    if missing:
        raise InputError(
            f"--test {path}: no column '{missing[0]}', which the training table has; add it"
        )
    table = table[has_text(table[needed[0]])]
    if len(table) == 0:
        raise InputError(
            f"--test {path}: no row has a label in the column '{needed[0]}'; fill some"
        )
    return table


def read_table(path: Path, spec: DataSpec | None = None) -> pd.DataFrame:
    """Read all columns of a table file; the values of CSV and TSV files stay text.

    spec: has the options `sep` and `encoding`; None: both are found in the file
    """
    return read_noted_table(path, spec)[0]


def read_noted_table(
    path: Path, spec: DataSpec | None = None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Read a table as `read_table` does; return it, and sentences that say how it was read."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: a table ends in {', '.join(SUFFIXES)}; rename or convert it")
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no such file"
        raise InputError(f"{path}: {what}; give the path of a table")
    check_file(path, COPIES)
    try:
        if suffix == ".parquet":
            return check_rows(read_parquet(path), path), ()
        table, notes = read_text_table(path, find_format(path, spec))
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({first_line(error)}); check the file and its permissions"
        ) from None
    return check_rows(table, path), notes


def check_rows(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return the table; raise if it has no rows."""
    if len(table) == 0:
        raise InputError(f"{path}: holds no rows below its header; fill it")
    return table


def read_text_table(path: Path, form: TextFormat) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Read a CSV or TSV file; return it, and sentences that say how it was read.

    Where commas do not separate columns, numbers may have decimal commas, which become points.
    """
    table = read_text(path, form)
    if form.separator != ";":
        return table, form.notes
    changed = []
    for place, name in enumerate(table.columns):  # two columns may have one name
        if has_decimal_commas(table.iloc[:, place]):
            table.isetitem(place, table.iloc[:, place].str.replace(",", "."))
            changed.append(name)
    if not changed:
        return table, form.notes
    return table, (*form.notes, f"numbers with decimal commas: {list_names(changed)}")


def has_decimal_commas(values: "pd.Series[Any]") -> bool:
    """Whether all values of a column of text are numbers, some of them with a decimal comma."""
    present = values.dropna()
    return bool(present.str.contains(",").any()) and bool(
        present.str.strip().str.fullmatch(DECIMAL_COMMA).all()
    )


def read_text(path: Path, form: TextFormat, *, missing: tuple[str, ...] = MISSING) -> pd.DataFrame:
    """Read a text table with all values as text; the values in `missing` become NaN."""
    header = read_header(path, form)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            options = text_options(header, form, missing)
            return pd.read_csv(path, **options).set_axis(header, axis=1)
    except UnicodeDecodeError as error:
        raise wrong_encoding(path, form, error) from None
    except (pd.errors.ParserError, pd.errors.ParserWarning, ValueError) as error:
        reason = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
        raise InputError(
            f"{path}: not a table ({reason}); give every row as many values as the header has "
            "names, or name the separator with --sep"
        ) from None


def text_options(
    header: list[str], form: TextFormat, missing: tuple[str, ...] = MISSING
) -> dict[str, Any]:
    """Return the options of `pandas.read_csv` for a CSV or TSV file with this header."""
    return {
        "sep": form.separator,
        "header": 0,
        "names": range(len(header)),
        "index_col": False,
        "dtype": str,
        "na_values": list(missing),
        "keep_default_na": False,
        "encoding": form.encoding,
    }


def read_header(path: Path, form: TextFormat) -> list[str]:
    """Read the column names from the first line."""
    try:
        with path.open(encoding=form.encoding, newline="") as stream:
            header = next(csv.reader(stream, delimiter=form.separator), [])
    except UnicodeError as error:
        raise wrong_encoding(path, form, error) from None
    except csv.Error as error:
        raise InputError(f"{path}: not a table ({error}); save it as CSV in UTF-8") from None
    if not header:
        raise InputError(f"{path}: its first line is empty; begin with the names of the columns")
    return [name.strip() for name in header]


def wrong_encoding(path: Path, form: TextFormat, error: UnicodeError) -> InputError:
    """Return the error for a file that cannot be decoded."""
    return InputError(
        f"{path}: not in the encoding {form.encoding} ({error.args[-1]}); "
        "name another with --encoding, or save it in UTF-8"
    )


def read_parquet(path: Path) -> pd.DataFrame:
    """Read a parquet file; column names become text."""
    if find_spec("pyarrow") is None:
        raise InputError(f"{path}: parquet needs pyarrow; pip install 'ulc[parquet]'")
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            about = file.metadata
            needed = 8 * about.num_rows * about.num_columns
            check_memory(needed, f"{path}: its {about.num_rows} rows")
            for batch in file.iter_batches():
                batch.validate(full=True)  # pandas would decode texts much later
        table = pd.read_parquet(path, engine="pyarrow")
    except (InputError, MemoryError):
        raise
    except Exception as error:
        if is_of_system(error):
            raise
        # pyarrow and pandas raise many kinds of errors for a damaged file.
        raise InputError(
            f"{path}: not a readable parquet file ({first_line(error)}); write it again"
        ) from None
    return table.set_axis(table.columns.map(str), axis=1).reset_index(drop=True)
