"""Convert paths of images to text for a table."""

from pathlib import Path

from ulc.data.sources.pictures import printable_path
from ulc.errors import InputError


def path_in_table(path: Path, folder: Path) -> str:
    """Return a path for a table in `folder`: relative if it is below `folder`, else absolute."""
    # Links are not resolved: a row's id is the path of the link.
    full, base = path.absolute(), folder.absolute()
    if printable_path(path) != str(full):
        raise InputError(
            f"{printable_path(path)}: its name is not valid text, so no table can hold it; "
            "rename it"
        )
    below = full.is_relative_to(base)
    text = full.relative_to(base).as_posix() if below else str(full)
    # Readers strip a space at the start of a cell.
    return f"./{text}" if text[:1].isspace() else text
