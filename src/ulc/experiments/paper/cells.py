"""The trainings of a table or figure of the paper, at one of two scales."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ulc.config import DataSpec, NetworkSpec, RunSpec, checked, merge
from ulc.data.sources.naming import data_spec
from ulc.errors import InputError
from ulc.experiments.grid import Cell
from ulc.experiments.paper.features import (
    ColumnOptions,
    ListedOption,
    feature_options,
    flat,
    list_options,
)
from ulc.experiments.paper.grids import (
    CLASSES,
    TITLES,
    Column,
    PaperGrid,
    Row,
    Scale,
    SmallImages,
    find_scale,
    paper_grid,
)
from ulc.settings.common import own_options
from ulc.settings.presets import find_preset, scale_epochs
from ulc.settings.variants import VARIANTS, variant
from ulc.storage.files import read_npz
from ulc.training.run import resolved


@dataclass(frozen=True)
class PaperSweep:
    """What is trained of a table or figure, and with which data.

    rows, columns: those that are trained
    data: the data by data set
    left_out: titles of the data sets whose columns are left out because no data are given
    network: name of the network; None: that of the scale
    weights: file of initial weights of a ResNet-50; None: those of the preset
    epochs: number of epochs; None: those of the presets
    options: options of the user, which override those of the presets of each method that has them
    tuned: options by the title of a column and by algorithm, as `ulc tune` has chosen them
    """

    grid: PaperGrid
    scale: Scale
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    data: Mapping[str, DataSpec]
    network: str | None = None
    weights: str | None = None
    epochs: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    tuned: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def cells(self, seeds: Sequence[int]) -> list[Cell]:
        """All trainings: seed by seed, so that the first seed of all cells is done first."""
        if not seeds:
            raise InputError("nothing to train; name at least one seed")
        return [
            Cell(row.title, column.title, self.spec(row, column, seed))
            for seed in seeds
            for column in self.columns
            for row in self.rows
        ]

    def spec(self, row: Row, column: Column, seed: int) -> RunSpec:
        """The spec of a training, with the value of every option."""
        chosen = own_options(row.method, self.options)
        clash = next((key for key in row.options if key in chosen), None)
        if clash is not None:
            raise InputError(
                f"--set {clash}: {self.grid.name} sets it for '{row.title}'; leave out one of them"
            )
        algorithm, _ = VARIANTS.get(row.method, (row.method, {}))
        tuned = self.tuned.get(column.title, {}).get(algorithm, {})
        options = merge(self.options_of(column, algorithm), tuned)
        if row.told is not None:
            options[row.told] = column.wrong_share
        base = RunSpec(
            data=self.data[column.data],
            imbalance=column.imbalance,
            noise=column.feature_noise if self.is_frozen(column) else column.noise,
            network=self.network_of(column),
            options=merge(merge(options, row.options), chosen),
            seed=seed,
            **self.epochs_of(column),
        )
        spec = resolved(variant(base, row.method))
        if row.until == "warm-up":
            return spec.model_copy(update={"epochs": spec.options["warmup_epochs"] + 1})
        return spec

    def options_of(self, column: Column, algorithm: str) -> dict[str, Any]:
        """Options by data set and noise, or of small images; else none: the presets have them."""
        small = self.small_images(column)
        if small is not None:
            options, epochs = small.options_of(algorithm), small.epochs
        elif self.is_frozen(column):
            options = feature_options(column, algorithm)
            preset = find_preset(RunSpec(data=self.data[column.data], algorithm=algorithm))
            epochs = preset.epochs
        else:
            return {}
        return options if self.epochs is None else scale_epochs(options, self.epochs / epochs)

    def epochs_of(self, column: Column) -> dict[str, int]:
        """The number of epochs by name; empty: that of the preset."""
        small = self.small_images(column)
        epochs = small.epochs if self.epochs is None and small is not None else self.epochs
        return {} if epochs is None else {"epochs": epochs}

    def small_images(self, column: Column) -> SmallImages | None:
        """How the images of a column are trained for a processor; None: not so."""
        return None if self.is_frozen(column) else self.scale.images

    def is_frozen(self, column: Column) -> bool:
        """Whether a column has frozen features in place of images."""
        return self.data[column.data].source == "npz"

    def list_options(self) -> list[ListedOption]:
        """The options of each algorithm with their sources, before those of the user and of a row.

        Epochs and network are among them.
        """
        plain = replace(self, options={}, tuned={}, epochs=None, network=None)
        rows = {
            name: Row(title=name, method=name, told=row.told, until=row.until)
            for row in self.rows
            for name in VARIANTS.get(row.method, (row.method,))[:1]
        }
        return list_options(
            plain.options_in(column, row) for row in rows.values() for column in self.columns
        )

    def options_in(self, column: Column, row: Row) -> ColumnOptions:
        """Every option of a row in a column."""
        spec, frozen = self.spec(row, column, 0), self.is_frozen(column)
        network = "mlp" if frozen and spec.network.name == "auto" else spec.network.name
        options = {"epochs": spec.epochs, "network": network} | spec.options
        small = self.small_images(column)
        own = {} if small is None else {"epochs": 0, "network": ""} | small.options_of(row.method)
        sources = {name: small.source for name, _ in flat(own)} if small is not None else {}
        return ColumnOptions(row.method, column, options, frozen, sources)

    def network_of(self, column: Column) -> NetworkSpec:
        """The network for a column's data set; "auto": that of the preset."""
        small = self.small_images(column)
        usual = self.scale.network if small is None else small.network
        name = self.network or self.scale.networks.get(column.data, usual)
        return checked(NetworkSpec, {"name": name, "weights": self.weights}, where="--weights")


def paper_sweep(  # noqa: PLR0913 (which table, with which data; the rest has defaults)
    name: str,
    data: str | Path | Mapping[str, str | Path],
    *,
    scale: str = "paper",
    only: Sequence[str] = (),
    also: Sequence[str] = (),
    network: str | None = None,
    weights: str | None = None,
    epochs: int | None = None,
    options: Mapping[str, Any] | None = None,
    tuned: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
) -> PaperSweep:
    """Plan the trainings of a table or figure of the paper, for `ulc.sweep`.

    name: table1 to table4 or figure1 to figure4
    data: the data by data set, such as {"cifar10": …, "cifar100": …}; or one path, which is the
        first data set of the table. Columns of other data sets are left out. Scale `paper`:
        folders of the official files; scale `cpu`: npz files of frozen features
    scale: "paper" (PreAct ResNet-18, 300 epochs) or "cpu" (frozen features, 24 epochs)
    only: names of methods, data sets, noise (symmetric:0.5) and imbalance (half:10); only cells
        that have one of each kind that is named are trained
    also: further algorithms or variants, each as a row
    network, epochs: in place of those of the scale
    weights: file of initial weights of a ResNet-50 (table3); None: ImageNet, by torchvision or timm
    options: options that override those of the presets, for each method that has them
    tuned: options by the title of a column and by algorithm, as `ulc tune` has chosen them
    """
    grid, chosen = paper_grid(name), find_scale(scale)
    only_set = grid.columns[0].data  # where a grid has several data sets, the first is CIFAR-10
    sets = {only_set: data} if isinstance(data, str | Path) else data
    specs = {each: find_data(each, path, chosen, scale) for each, path in sets.items()}
    trained = (row for row in grid.rows if row.trained)
    every = (*trained, *(Row(title=each, method=each) for each in also))
    rows, columns = choose(name, every, grid.columns, only)
    known = tuple(column for column in columns if column.data in specs)
    if not rows or not known:
        raise InputError(f"{name}: no cell is left; give the data of its columns, or other names")
    return PaperSweep(
        grid=grid,
        scale=chosen,
        rows=rows,
        columns=known,
        data=specs,
        network=network,
        weights=None if weights is None else str(Path(weights).absolute()),
        epochs=epochs,
        options=dict(options or {}),
        tuned=dict(tuned or {}),
        left_out=tuple(dict.fromkeys(TITLES[each.data] for each in columns if each not in known)),
    )


def find_data(name: str, path: str | Path, scale: Scale, scale_name: str) -> DataSpec:
    """The spec of the data at `path` for the data set `name`.

    Raise an InputError if they are not the kind of data that the scale needs.
    """
    if name not in scale.kinds:
        raise InputError(
            f"scale {scale_name} has no data set '{name}'; it has: {', '.join(scale.kinds)}"
        )
    kind, where = scale.kinds[name], Path(path)
    if kind == "npz" and scale.images is not None and where.is_dir():
        kind = name
    fits = where.is_file() and where.suffix == ".npz" if kind == "npz" else where.is_dir()
    if not fits:
        raise InputError(
            f"--data {name}={path}: not what the scale {scale_name} needs; give {scale.give}"
        )
    if kind != "npz":
        return data_spec(f"{kind}:{path}")
    check_classes(where, name)
    return data_spec(str(path))


def check_classes(path: Path, name: str) -> None:
    """Raise an InputError if an npz file has not as many classes as the data set."""
    try:
        labels = read_npz(path, lambda each: each == "y").get("y")
    except ValueError as error:
        raise InputError(f"{path}: a damaged npz file ({error}); make it anew") from None
    count = 0 if labels is None else len(np.unique(labels))
    if count != CLASSES[name]:
        raise InputError(
            f"--data {name}={path}: its labels y name {count} classes, but {TITLES[name]} has "
            f"{CLASSES[name]}; give the file of that data set, or its name before the ="
        )


def choose(
    name: str, rows: Sequence[Row], columns: Sequence[Column], only: Sequence[str]
) -> tuple[tuple[Row, ...], tuple[Column, ...]]:
    """Select rows and columns by the names in `only`.

    Names have four kinds: method, data set, noise, imbalance. A row or column is kept if, for each
    kind that `only` names, it has one of these names.

    name: of the grid, for the message
    """
    groups: list[set[str]] = [
        {each for row in rows for each in (row.method, row.title)},
        {column.data for column in columns},
        {column.noise_name for column in columns},
        {column.imbalance_name for column in columns},
    ]
    unknown = next((each for each in only if not any(each in group for group in groups)), None)
    if unknown is not None:
        known = ", ".join(each for group in groups for each in sorted(group))
        raise InputError(f"--only {unknown}: {name} has no such cell; known: {known}")
    wanted = [group & set(only) for group in groups]

    def fits(*names: set[str]) -> bool:
        """Whether each set of names has one of the wanted names of its kind."""
        return all(not group or group & own for group, own in zip(wanted, names, strict=False))

    def column_names(column: Column) -> list[set[str]]:
        return [{column.data}, {column.noise_name}, {column.imbalance_name}]

    return (
        tuple(row for row in rows if fits({row.method, row.title})),
        tuple(column for column in columns if fits(wanted[0], *column_names(column))),
    )
