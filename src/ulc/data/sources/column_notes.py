"""Sentences that say which columns of a table are used, and why others are not."""

from collections.abc import Iterator, Sequence

from ulc.data.table_encoding import TableColumn, TableEncoding
from ulc.data.text.encoding import TextEncoding

SHOWN = 20  # most columns in a sentence


def describe_columns(encoding: TableEncoding) -> Iterator[str]:
    """Say which columns are used, as what, and which are not, with the reason."""
    yield f"columns used: {list_some(list(map(describe_column, encoding.columns)))}"
    if encoding.left_out:
        reasons = [f"{name} ({why})" for name, why in encoding.left_out.items()]
        yield f"columns not used: {list_some(reasons)}"


def describe_column(column: TableColumn) -> str:
    """Return the name of a column, its kind and whether it has gaps."""
    kind: str = column.kind
    if column.levels:
        kind += f" of {len(column.levels)} levels" + (" and others" if column.others else "")
    return f"{column.name} ({kind}{', with gaps' if column.missing else ''})"


def describe_text(text: TextEncoding, others: Sequence[str], *, found: bool) -> Iterator[str]:
    """Say which column of sentences is used.

    others: names of the other columns that could hold features
    found: whether the column was found, not named by the user
    """
    why = "looks like text, and no other column can be used" if found else "--text"
    yield f"columns used: {text.column} (sentences; {why})"
    if others:
        yield f"columns not used: {list_some(others)} (only the sentences are learned from)"


def list_some(parts: Sequence[str]) -> str:
    """Return the parts separated by commas, at most `SHOWN` of them."""
    more = f" and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
    return ", ".join(parts[:SHOWN]) + more
