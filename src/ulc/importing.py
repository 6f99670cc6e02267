"""A user's own class or function by its `module:name`."""

import importlib
from typing import Any

from ulc.errors import InputError, first_line


def imported(name: str, what: str) -> Any:
    """The attribute of that module; `what` it is for, in the sentence that says it is not there."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:
        # A user's own module may raise anything; Python shows it as the cause.
        raise InputError(
            f"{what} '{name}' cannot be imported ({first_line(error)}); "
            "check the name and that the module is in this folder or on PYTHONPATH"
        ) from error
