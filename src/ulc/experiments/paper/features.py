"""Options of the scale `cpu` that go with a column, and the sources of all options."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ulc.config import Spec, checked, merge
from ulc.experiments.paper.grids import (
    TITLES,
    Column,
    option_sources,
    read_file,
    vector_sources,
)
from ulc.settings.presets import noise_options, read_presets


class Choice(Spec):
    """Options of an algorithm for the features of a data set, and where they come from."""

    options: dict[str, Any]
    source: str


@dataclass(frozen=True)
class ColumnOptions:
    """The options of an algorithm in a column.

    frozen: whether they are for features in place of images
    sources: of options that are chosen for small images, by name
    """

    algorithm: str
    column: Column
    options: Mapping[str, Any]
    frozen: bool
    sources: Mapping[str, str]


@dataclass(frozen=True)
class ListedOption:
    """An option of an algorithm in the columns of a table, with its source.

    name: with dots if it is inside a section
    columns: data and noise for each value; empty: all that the algorithm is trained on
    """

    algorithm: str
    name: str
    columns: Mapping[str, Sequence[str]]
    source: str


def feature_options(column: Column, algorithm: str) -> dict[str, Any]:
    """The options of an algorithm that go with a column; what is chosen for its data set is above.

    Options that go with the noise are those of the scale `paper`: of the preset for the images.
    """
    by_noise = noise_options(read_presets()[column.data], algorithm, column.noise)
    choice = choices(column.data).get(algorithm)
    return by_noise if choice is None else merge(by_noise, choice.options)


def list_options(cells: Iterable[ColumnOptions]) -> list[ListedOption]:
    """Every option of each algorithm once for each source, with the values that it has."""
    places: dict[tuple[str, str, str], dict[str, list[tuple[str, str]]]] = {}
    every: dict[str, list[tuple[str, str]]] = {}
    for cell in cells:
        data, algorithm = cell.column.data, cell.algorithm
        place = (TITLES[data], "".join(cell.column.head[1:2]))
        every.setdefault(algorithm, []).append(place)
        for name, value in flat(cell.options):
            general = source_of(data, algorithm, name, frozen=cell.frozen)
            source = cell.sources.get(name, general)
            values = places.setdefault((algorithm, name, source), {})
            values.setdefault(f"{value}", []).append(place)
    return [
        ListedOption(
            algorithm,
            name,
            {value: shorten(own, every[algorithm]) for value, own in values.items()},
            source,
        )
        for (algorithm, name, source), values in places.items()
    ]


def shorten(places: Sequence[tuple[str, str]], every: Sequence[tuple[str, str]]) -> list[str]:
    """Data and noise in words; only the data where all noise of them is there; [] for all."""
    if set(places) == set(every):
        return []
    words: dict[str, None] = {}
    for data, noise in places:
        whole = {each for each in every if each[0] == data} <= set(places)
        words[data if whole else f"{data} {noise}"] = None
    return list(words)


def source_of(data: str, algorithm: str, name: str, *, frozen: bool) -> str:
    """The source of an option; frozen: of features in place of images."""
    general = option_sources().get(algorithm, {}).get(name, "ours")
    if not frozen:
        return general
    choice = choices(data).get(algorithm)
    if choice is not None and name in dict(flat(choice.options)):
        return choice.source
    return vector_sources(algorithm).get(name, general)


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
