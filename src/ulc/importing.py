"""Import a user's own class or function by its `module:name`, and hash its source."""

import hashlib
import importlib
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from ulc.errors import InputError, first_line

INSTALLED = {
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib")
} | {Path(__file__).resolve().parent}
_HASHES: WeakKeyDictionary[ModuleType, str] = WeakKeyDictionary()  # filled by `file_hash`


def imported(name: str, what: str) -> Any:
    """Import the object `name` ("module:attribute"); `what` is the noun for it in an error."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:
        # A user's module may raise anything; Python shows it as the cause.
        raise InputError(
            f"{what} '{name}' cannot be imported ({first_line(error)}); "
            "check the name and that the module is in this folder or on PYTHONPATH"
        ) from error
    source_hash(found)  # kept from now on: the file may be edited while the program runs
    return found


def source_hash(found: Any) -> str | None:
    """Return a hash of the source files of a class and its base classes, or of a function.

    Files of Python, of installed packages and of this package do not count; None: no file counts.
    """
    names = {getattr(part, "__module__", None) for part in getattr(found, "__mro__", (found,))}
    modules = [sys.modules[name] for name in sorted(filter(None, names)) if name in sys.modules]
    hashes = [file_hash(module) for module in modules if is_own(module)]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()[:16] if hashes else None


def is_own(module: ModuleType) -> bool:
    """Whether the module's file is outside Python, installed packages and this package."""
    if not getattr(module, "__file__", None):
        return False
    path = Path(str(module.__file__)).resolve()
    return path.is_file() and INSTALLED.isdisjoint(path.parents)


def file_hash(module: ModuleType) -> str:
    """Return a hash of the module's file as it was at the first call; line endings do not count."""
    if module not in _HASHES:
        lines = Path(str(module.__file__)).read_bytes().splitlines()
        _HASHES[module] = hashlib.sha256(b"\n".join(lines)).hexdigest()
    return _HASHES[module]
