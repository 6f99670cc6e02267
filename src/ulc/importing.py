"""Import a user's own class by its `module:name`, hash its source, and say when it may run."""

import hashlib
import importlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from ulc.errors import InputError, first_line

INSTALLED = {
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib")
} | {Path(__file__).resolve().parent}
# Which code outside the package may run although only a file names it. False: none; True: all;
# names: only what the user has named as well.
Trust = bool | frozenset[str]
_HASHES: WeakKeyDictionary[ModuleType, str] = WeakKeyDictionary()  # filled by `file_hash`


def named_code(*names: str) -> frozenset[str]:
    """Those of the names that are a user's own code (`module:name`); the user may run them."""
    return frozenset(name for name in names if ":" in name)


def check_trust(name: str, what: str, where: str, trust: Trust) -> None:
    """Raise an InputError if a file names code outside the package that may not run.

    what: noun for the code; where: path of the file; both for the message
    """
    allowed = trust if isinstance(trust, bool) else name in trust
    if ":" in name and not allowed:
        raise InputError(
            f"{where}: it names the {what} '{name}', which is code outside this package and is not "
            "run because a file asks for it; if you trust it, say --trust (in Python trust=True)"
        )


def imported(name: str, what: str) -> Any:
    """Import the object `name` ("module:attribute"); `what` is the noun for it in an error."""
    module, _, attribute = name.partition(":")
    try:
        with working_folder():
            found = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:
        # A user's module may raise anything; Python shows it as the cause.
        raise InputError(
            f"{what} '{name}' cannot be imported ({first_line(error)}); "
            "check the name and that the module is in this folder or on PYTHONPATH"
        ) from error
    source_hash(found)  # kept from now on: the file may be edited while the program runs
    return found


@contextmanager
def working_folder() -> Iterator[None]:
    """Context manager: modules of the working folder can be imported, after all installed ones.

    Outside it they cannot: a folder of somebody else may hold a `numexpr.py`, which pandas imports.
    """
    folder = str(Path.cwd())
    if folder in sys.path:
        yield
        return
    sys.path.append(folder)
    try:
        yield
    finally:
        if folder in sys.path:  # the module may have changed the path itself
            sys.path.remove(folder)


@contextmanager
def safe_start() -> Iterator[None]:
    """Context manager: Python processes started inside import nothing from the working folder."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


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
