"""Paths relative to the folder that holds all of them."""

import os
from collections.abc import Sequence


def split_root(names: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The common folder of absolute paths, with a separator at its end, and the rest of each path.

    If a name is no absolute path, the folder is empty and the names stay as they are.
    """
    if not names or not all(map(os.path.isabs, names)):
        return "", names
    try:
        common = os.path.commonpath([os.path.dirname(name) for name in names])  # noqa: PTH120
    except ValueError:  # on different drives
        return "", names
    root = common.rstrip(os.sep) + os.sep
    if not all(name.startswith(root) for name in names):  # not written in the shortest way
        return "", names
    return root, [name.removeprefix(root) for name in names]
