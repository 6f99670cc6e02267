"""Paths of images in a table: relative to the table where they lie below it."""

from pathlib import Path

from ulc.data.sources.pictures import readable
from ulc.errors import InputError


def path_in_table(path: Path, folder: Path) -> str:
    """The path as a table in `folder` should hold it."""
    # Not resolved: a link is a name of its own, and rows are called by their names.
    full, base = path.absolute(), folder.absolute()
    if readable(path) != str(full):
        raise InputError(
            f"{readable(path)}: its name is no text, so no table can hold it; rename it"
        )
    below = full.is_relative_to(base)
    text = full.relative_to(base).as_posix() if below else str(full)
    # A space at the start of a cell is not read as part of it.
    return f"./{text}" if text[:1].isspace() else text
