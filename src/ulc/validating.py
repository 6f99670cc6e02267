"""Validate the content of specs; read it from TOML; put options over defaults."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ulc.errors import InputError

S = TypeVar("S", bound=BaseModel)
LARGEST_WHOLE = 2**40  # more rows, epochs or passes than any machine has
LARGEST = 1e30  # numbers above can overflow in float32
MOST_BYTES = 2**20  # of a TOML file
MOST_DOTS = 100  # in a key: tomllib takes time and memory by the square of their number
# Texts of several lines, texts of one line, and comments: their dots are not those of keys.
TEXTS = re.compile(
    r'"{3}(?:[^"\\]++|\\.|"(?!""))*+"{0,5}'
    r"|'{3}(?:[^']++|'(?!''))*+'{0,5}"
    r'|"(?:[^"\\\n]++|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+",
    re.DOTALL,
)
NOT_IN_KEYS = re.compile(r"[^\w. \t-]")


def read_toml(path: Path) -> dict[str, Any]:
    """Read the content of a TOML file."""
    if not path.is_file():
        what = "no regular file" if path.exists() else "no such file"
        raise InputError(f"{path}: {what}; give the path of a spec in TOML")
    try:
        return tomllib.loads(checked_text(path))
    except (OSError, ValueError, RecursionError) as error:  # the last for deep brackets
        raise InputError(f"{path}: not a readable TOML file ({error}); mend or remove it") from None


def checked_text(path: Path) -> str:
    """Return the text of a TOML file; raise a ValueError if tomllib could need much memory."""
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES:,} bytes")
    text = path.read_text(encoding="utf-8")
    keys_and_numbers = NOT_IN_KEYS.split(TEXTS.sub("", text))
    if any(each.count(".") > MOST_DOTS for each in keys_and_numbers):
        raise ValueError(f"a key of more than {MOST_DOTS} dots")
    return text


def checked(kind: type[S], content: Mapping[str, Any], *, where: str) -> S:
    """Build a spec of class `kind`; raise an InputError that names the first wrong key.

    where: name of the content in the error message
    """
    try:
        return kind.model_validate(dict(content) if isinstance(content, Mapping) else content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            known = ", ".join(sorted(fields_at(kind, first["loc"][:-1])))
            raise InputError(f"{where}: unknown key '{key}'; known here: {known}") from None
        message = first["msg"].removeprefix("Value error, ")
        # A whole section would be too long; the message names its keys.
        given = "" if isinstance(first["input"], Mapping) else f", not {first['input']!r}"
        place = f"{where}: '{key}'" if key else where
        raise InputError(f"{place}: {message}{given}") from None


def check_size(value: Any) -> None:
    """Raise a ValueError if a number is too large to compute with."""
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        raise ValueError(f"a whole number here is at most {LARGEST_WHOLE} in magnitude")
    if isinstance(value, float) and abs(value) > LARGEST:
        raise ValueError(f"a number here is at most {LARGEST:g} in magnitude")


def configured(kind: type[S], options: Mapping[str, Any], *, where: str) -> S:
    """Build a spec from the defaults of `kind`; `options` replace defaults, section by section.

    A section that `options` give in part keeps the other defaults of `kind`. These may differ from
    the defaults of the section's class, such as those of an algorithm for its optimiser.
    """
    defaults = checked(kind, {}, where=f"{where}, of which each needs a default").model_dump()
    return checked(kind, merge(defaults, options), where=where)


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `below` with the values of `above` in it; sections of both are merged likewise."""
    merged = dict(below)
    for name, value in above.items():
        inner = merged.get(name)
        both = isinstance(value, Mapping) and isinstance(inner, Mapping)
        merged[name] = merge(inner, value) if both else value  # type: ignore[arg-type]
    return merged


def fields_at(kind: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Return the names of the fields of the section at `location` inside `kind`."""
    for part in location:
        annotation = kind.model_fields[str(part)].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            break
        kind = annotation
    return list(kind.model_fields)


def without_none(content: Any) -> Any:
    """Return the content without None values; a spec that is read back has None there again."""
    if isinstance(content, dict):
        return {key: without_none(value) for key, value in content.items() if value is not None}
    if isinstance(content, list):
        return [without_none(value) for value in content]
    return content
