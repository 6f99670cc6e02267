"""Tables and figures of the paper, read from the TOML files beside this module."""

import math
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from ulc.config import ImbalanceSpec, NoiseSpec, Spec, checked, merge
from ulc.errors import InputError
from ulc.settings.presets import known_options

NAMES = (
    *(f"table{number}" for number in range(1, 5)),
    *(f"figure{number}" for number in range(1, 5)),
)
TITLES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "clothing1m": "Clothing1M"}
CLASSES = {"cifar10": 10, "cifar100": 100, "clothing1m": 14}

Percent = Annotated[float, Field(allow_inf_nan=True)]  # nan: the paper has no number here
Score = Literal["best", "last"]


class Column(Spec):
    """A column: data set, noise and imbalance.

    head: the lines of its heading
    wrong_share: the true share of wrong labels; None: unknown
    cpu_noise: the same noise for frozen features; None: as for images
    """

    head: tuple[str, ...]
    data: Literal["cifar10", "cifar100", "clothing1m"]
    noise: NoiseSpec
    imbalance: ImbalanceSpec = ImbalanceSpec()
    wrong_share: float | None = None
    cpu_noise: NoiseSpec | None = None

    @property
    def title(self) -> str:
        """The heading in one line."""
        return ", ".join(self.head)

    @property
    def noise_name(self) -> str:
        """The noise as on the command line, such as symmetric:0.5."""
        return f"{self.noise.kind}:{self.noise.rate:g}"

    @property
    def imbalance_name(self) -> str:
        """The imbalance as on the command line, such as half:10."""
        uneven = self.imbalance
        return "none" if uneven.kind == "none" else f"{uneven.kind}:{uneven.ratio:g}"

    @property
    def feature_noise(self) -> NoiseSpec:
        """The noise at the scale `cpu`."""
        return self.cpu_noise or self.noise


class Row(Spec):
    """A row: a method with its options, and the paper's numbers in %, one for each column.

    method: name of an algorithm or variant
    trained: whether it can be trained; false: there is only the number of the paper
    told: the option that gets the column's true share of wrong labels; None: no option
    until: "warm-up": training ends after the first epoch that follows the warm-up
    best, last: numbers of the paper; None: the paper has none
    deviation: standard deviations of `last`; None: the paper has none
    """

    title: str
    method: str
    options: dict[str, Any] = Field(default_factory=dict)
    trained: bool = True
    told: str | None = None
    until: Literal["warm-up", "end"] = "end"
    best: tuple[Percent, ...] | None = None
    last: tuple[Percent, ...] | None = None
    deviation: tuple[float, ...] | None = None


class Oddity(Spec):
    """A remark on numbers of the paper that look odd.

    rows: titles of the rows; columns: positions of the columns, counted from 1; None: all columns
    scores: which of the two numbers of a cell it concerns
    """

    text: str
    rows: tuple[str, ...]
    columns: tuple[int, ...] | None = None
    scores: tuple[Score, ...] = ("best", "last")


class PaperGrid(Spec):
    """A table or figure of the paper: all its cells, and its numbers.

    seeds: number of seeds that `ulc sweep` trains if none is named
    """

    name: str
    title: str
    note: str
    seeds: int = 3
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    oddities: tuple[Oddity, ...] = ()

    @model_validator(mode="after")
    def _numbers_fit(self) -> Self:
        titles = [row.title for row in self.rows]
        for row in self.rows:
            for numbers in (row.best, row.last, row.deviation):
                if numbers is not None and len(numbers) != len(self.columns):
                    raise ValueError(f"the row {row.title} has not one number for each column")
        for oddity in self.oddities:
            if not set(oddity.rows) <= set(titles):
                raise ValueError(f"an oddity names a row that is not there: {oddity.rows}")
        return self

    def number(self, row: Row, column: Column, score: Score) -> float | None:
        """The paper's accuracy in %; None: it has none for this cell."""
        numbers = row.best if score == "best" else row.last
        value = math.nan if numbers is None else numbers[self.columns.index(column)]
        return None if math.isnan(value) else value

    def deviation(self, row: Row, column: Column, score: Score) -> float | None:
        """The standard deviation of the paper's accuracy in %; None: it has none."""
        known = row.deviation if score == "last" else None
        return None if known is None else known[self.columns.index(column)]

    def remarks(self, row: Row, column: Column, score: Score) -> list[int]:
        """Positions in `oddities` of the remarks on one number of the paper."""
        place = self.columns.index(column) + 1
        return [
            number
            for number, each in enumerate(self.oddities)
            if row.title in each.rows
            and score in each.scores
            and (each.columns is None or place in each.columns)
        ]


class SmallImages(Spec):
    """How images are trained at a scale for processors.

    options: for every algorithm that has them; own_options: further ones by algorithm
    source: where the values of these options come from
    """

    network: str
    epochs: int
    options: dict[str, Any]
    own_options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    source: str

    def options_of(self, algorithm: str) -> dict[str, Any]:
        """The options of an algorithm."""
        own = self.own_options.get(algorithm, {})
        return merge(known_options(algorithm, self.options), own)


class Scale(Spec):
    """A scale at which grids are trained.

    network: name of the network; networks: by data set, in place of `network`
    kinds: the data source for each data set
    images: how images are trained that are given in place of these kinds; None: they are refused
    give: what the user gives for a data set
    """

    about: str
    network: str
    kinds: dict[str, str]
    networks: dict[str, str] = Field(default_factory=dict)
    images: SmallImages | None = None
    give: str


@cache
def paper_grid(name: str) -> PaperGrid:
    """The table or figure `name`: table1 to table4, figure1 to figure4."""
    if name not in NAMES:
        raise InputError(f"no table or figure is called '{name}'; known: {', '.join(NAMES)}")
    return checked(PaperGrid, {"name": name} | read_file(f"{name}.toml"), where=f"{name}.toml")


@cache
def find_scale(name: str) -> Scale:
    """The scale `name`: paper or cpu."""
    scales = read_file("scales.toml")
    if name not in scales:
        raise InputError(f"no scale is called '{name}'; known: {', '.join(scales)}")
    return checked(Scale, scales[name], where="scales.toml")


@cache
def option_sources() -> Mapping[str, Mapping[str, str]]:
    """The source of each hyper-parameter, by algorithm and by the name of the option."""
    content = read_file("sources.toml")
    shared, _ = content.pop("shared"), content.pop("vectors")
    return {algorithm: shared | own for algorithm, own in content.items()}


@cache
def vector_sources(algorithm: str) -> Mapping[str, str]:
    """The source of each option that an algorithm has for features in place of images."""
    content = read_file("sources.toml")["vectors"]
    sources: dict[str, str] = content["shared"] | content.get(algorithm, {})
    return sources


def read_file(name: str) -> dict[str, Any]:
    """The content of a TOML file beside this module."""
    return tomllib.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))
