"""Options of the scale `cpu` that go with the data set and the noise of a column."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

from ulc.config import Spec, checked, merge
from ulc.experiments.paper.grids import TITLES, Column, option_sources, read_file
from ulc.settings.presets import noise_options, read_presets


class Choice(Spec):
    """Options of an algorithm for the features of a data set, and where they come from."""

    options: dict[str, Any]
    source: str


@dataclass(frozen=True)
class ColumnOption:
    """An option that goes with data set or noise.

    data: title of the data set
    name: with dots if it is inside a section
    noises: the noise for each value; empty: all that the table has for the data set
    """

    data: str
    algorithm: str
    name: str
    noises: Mapping[Any, Sequence[str]]
    source: str


def feature_options(column: Column, algorithm: str) -> dict[str, Any]:
    """The options of an algorithm that go with a column; what is chosen for its data set is above.

    Options that go with the noise are those of the scale `paper`: of the preset for the images.
    """
    by_noise = noise_options(read_presets()[column.data], algorithm, column.noise)
    choice = choices(column.data).get(algorithm)
    return by_noise if choice is None else merge(by_noise, choice.options)


def column_options(columns: Sequence[Column], algorithms: Sequence[str]) -> list[ColumnOption]:
    """All options that go with the columns, with their sources."""
    found: dict[tuple[str, str, str], dict[Any, list[str]]] = {}
    every: dict[str, set[str]] = {}
    for column, algorithm in product(columns, algorithms):
        noise = column.head[1]
        every.setdefault(column.data, set()).add(noise)
        for name, value in flat(feature_options(column, algorithm)):
            noises = found.setdefault((column.data, algorithm, name), {}).setdefault(value, [])
            noises += [] if noise in noises else [noise]
    return [
        ColumnOption(
            TITLES[data],
            algorithm,
            name,
            {value: [] if set(own) == every[data] else own for value, own in values.items()},
            source_of(data, algorithm, name),
        )
        for (data, algorithm, name), values in sorted(found.items())
    ]


def source_of(data: str, algorithm: str, name: str) -> str:
    """The source of an option."""
    choice = choices(data).get(algorithm)
    if choice is not None and name in dict(flat(choice.options)):
        return choice.source
    return option_sources().get(algorithm, {}).get(name, "ours")


def flat(options: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The options with the names of those inside sections joined by dots."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


@cache
def choices(data: str) -> Mapping[str, Choice]:
    """The content of features.toml for a data set, by algorithm."""
    content = read_file("features.toml").get(data, {})
    where = "features.toml"
    return {name: checked(Choice, each, where=where) for name, each in content.items()}
