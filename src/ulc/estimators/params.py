"""Nested parameters: options of an algorithm under names such as `options__sgd__lr`."""

from collections.abc import Mapping
from typing import Any


def flatten_options(prefix: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """All options by names such as prefix__sgd__lr, also those inside sections."""
    flat: dict[str, Any] = {}
    for name, value in options.items():
        full = f"{prefix}__{name}"
        flat |= flatten_options(full, value) if isinstance(value, Mapping) else {full: value}
    return flat


def set_option(options: Mapping[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    """A copy of the options with another value at `path`, which may lead into sections."""
    name, *rest = path
    return {**options, name: set_option(options.get(name, {}), rest, value) if rest else value}
