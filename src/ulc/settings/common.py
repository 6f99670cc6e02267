"""Options for several methods at once: each method gets those that it has."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from ulc.algorithms import find_algorithm
from ulc.errors import InputError
from ulc.settings.variants import find_method


def own_options(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options that an algorithm or variant has."""
    return those_of(config_of(method), options)


def those_of(config: type[BaseModel], options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options that a config has, section by section."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        field = config.model_fields.get(name)
        section = None if field is None else field.annotation
        if isinstance(value, Mapping) and isinstance(section, type):
            if issubclass(section, BaseModel) and (inner := those_of(section, value)):
                found[name] = inner
        elif field is not None:
            found[name] = value
    return found


def notes_on_options(methods: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """A sentence for each option that some of the methods do not have.

    Raise an InputError if none of them has it.
    """
    names = list(dict.fromkeys(find_method(each)[0] for each in methods))
    notes = []
    for option in names_of(options):
        lacking = [each for each in names if option not in names_of(own_options(each, options))]
        if len(lacking) == len(names):
            known = sorted({field for each in names for field in config_of(each).model_fields})
            raise InputError(
                f"options: unknown key '{option}': {', '.join(names)} "
                f"{'has' if len(names) == 1 else 'have'} no such option; known here: "
                f"{', '.join(known)}"
            )
        if lacking:
            notes.append(f"{option} changes nothing for {', '.join(lacking)}: no such option.")
    return notes


def names_of(options: Mapping[str, Any]) -> list[str]:
    """The names of all options, with dots inside sections."""

    def walk(section: Mapping[str, Any], prefix: str) -> Iterator[str]:
        for name, value in section.items():
            if isinstance(value, Mapping):
                yield from walk(value, f"{prefix}{name}.")
            else:
                yield prefix + name

    return list(walk(options, ""))


def config_of(method: str) -> type[BaseModel]:
    """The config class of an algorithm or variant."""
    algorithm, _ = find_method(method)
    return find_algorithm(algorithm).config_class
