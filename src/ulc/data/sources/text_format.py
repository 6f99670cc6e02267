"""Separator and encoding of a CSV or TSV file: given by the user, or found in the file."""

import codecs
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ulc.config import DataSpec
from ulc.errors import InputError

SEPARATORS = {".csv": ",", ".tsv": "\t"}  # expected separators, by the ending of the file's name
NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
TAB = ("\\t", "tab")  # how a user may write a tab
UTF8 = "utf-8-sig"  # UTF-8, with or without a byte order mark
OTHERS = ("cp1252", "latin-1")  # tried if a file is not in UTF-8; the last one reads any file
UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
ROWS = 50  # rows that are looked at
BLOCK = 1 << 20  # bytes that are decoded at a time


@dataclass(frozen=True)
class TextFormat:
    """How a table is written as text.

    notes: sentences that say what was found instead of the expected format
    """

    separator: str
    encoding: str
    notes: tuple[str, ...] = ()


def find_format(path: Path, spec: DataSpec | None = None) -> TextFormat:
    """Return the format of a CSV or TSV file.

    spec: its options `sep` and `encoding` are used as they are; None: there are no options
    """
    notes = []
    encoding = check_encoding(spec.encoding) if spec and spec.encoding else None
    if encoding is None:
        encoding = find_encoding(path)
        if encoding != UTF8:
            notes.append(f"read in the encoding {encoding}, as it is not UTF-8 (--encoding)")
    separator = check_separator(spec.sep) if spec and spec.sep else None
    if separator is None:
        separator = find_separator(path, encoding)
        if separator != SEPARATORS[path.suffix.lower()]:
            notes.append(f"columns are separated by {NAMES[separator]} (--sep)")
    return TextFormat(separator, encoding, tuple(notes))


def check_encoding(name: str) -> str:
    """Return the encoding that a user names; raise if Python does not know it."""
    try:
        known = codecs.lookup(name).name
    except LookupError:
        raise InputError(
            f"--encoding {name}: unknown; give a name such as utf-8, cp1252 or utf-16"
        ) from None
    return UTF8 if known == "utf-8" else known


def check_separator(text: str) -> str:
    """Return the separator that a user names; raise unless it is one character."""
    separator = "\t" if text.lower() in TAB else text
    if len(separator) != 1 or separator in '"\r\n':
        raise InputError(f"--sep {text!r}: give one character, such as ';', or tab")
    return separator


def find_encoding(path: Path) -> str:
    """Return UTF-8 or UTF-16, or the first of `OTHERS` that can decode the file."""
    with path.open("rb") as stream:
        start = stream.read(4096)
    if start.startswith(UTF16_MARKS):
        return "utf-16"
    if b"\0" in start:
        raise InputError(f"{path}: not a text file; save the table as CSV in UTF-8")
    return next(name for name in (UTF8, *OTHERS) if is_readable(path, name))


def is_readable(path: Path, encoding: str) -> bool:
    """Whether the file can be decoded."""
    decoder = codecs.getincrementaldecoder(encoding)()
    with path.open("rb") as stream:
        try:
            while block := stream.read(BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def find_separator(path: Path, encoding: str) -> str:
    """Return the separator that gives all rows the columns of the header.

    Of several, the expected one counts, then the one with most columns; without any, the one that
    gives the header most columns.
    """
    expected = SEPARATORS[path.suffix.lower()]
    rows = {each: first_rows(path, encoding, each) for each in (expected, *NAMES)}
    widths = {each: len(found[0]) if found else 0 for each, found in rows.items()}
    ranked = sorted(widths, key=lambda each: (widths[each] < 2, each != expected, -widths[each]))
    fitting = [
        each
        for each in ranked
        if widths[each] > 1 and all(len(row) == widths[each] for row in rows[each])
    ]
    return (fitting or ranked)[0]


def first_rows(path: Path, encoding: str, separator: str) -> list[list[str]]:
    """Return the first rows with values; none if they cannot be read with this separator."""

    def lines() -> Iterator[str]:
        with path.open(encoding=encoding, newline="") as stream:
            yield from stream

    try:
        filled = (row for row in csv.reader(lines(), delimiter=separator) if row)
        return list(islice(filled, ROWS))
    except (UnicodeError, csv.Error):
        return []
