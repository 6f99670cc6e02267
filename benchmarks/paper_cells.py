"""Cells of the paper's tables in the settings of the grid, as `ulc sweep --scale cpu` has them."""

from collections.abc import Iterator
from typing import Any

from benchmarks.grid_settings import Cell, Setting, make_cell
from ulc.config import RunSpec
from ulc.errors import InputError
from ulc.experiments.paper.cells import PaperSweep
from ulc.experiments.paper.features import flat
from ulc.experiments.paper.grids import Column, PaperGrid, Row, find_scale, paper_grid

TABLES = ("table1", "table2", "table4")
DATA = {"cifar10": "features", "cifar100": "features100"}  # data set: first word of a setting


def paper_cell(setting: Setting, method: str, seed: int) -> Cell:
    """Return the cell as a table of the paper has it at the scale `cpu`.

    Raise an InputError if no table has the setting.
    """
    spec = paper_spec(setting, method, seed)
    plain = dict(flat(make_cell(setting, method, seed).spec.options))
    different = {name: value for name, value in flat(spec.options) if plain.get(name, ...) != value}
    changes = sorted(f"{name}={as_text(value)}" for name, value in different.items())
    return make_cell(setting, method, seed, changes)


def paper_spec(setting: Setting, method: str, seed: int) -> RunSpec:
    """Return the spec that the sweep of the setting's table has."""
    for grid, column in columns_of(setting):
        named = [row for row in grid.rows if row.method == method]
        row = named[0] if named else Row(title=method, method=method)
        data = {column.data: setting.base.data}
        sweep = PaperSweep(grid, find_scale("cpu"), (row,), (column,), data)
        if named or grid.name != "table4":  # its rows are variants of ULC
            return sweep.spec(row, column, seed)
    raise InputError(f"no table of the paper has '{method}' in the setting '{setting.name}'")


def columns_of(setting: Setting) -> Iterator[tuple[PaperGrid, Column]]:
    """Yield the columns that have the data, the noise and the imbalance of a setting."""
    for grid in map(paper_grid, TABLES):
        for column in grid.columns:
            if (
                DATA[column.data] == setting.name.split("-")[0]
                and column.feature_noise == setting.base.noise
                and column.imbalance.tag == setting.base.imbalance.tag
            ):
                yield grid, column


def as_text(value: Any) -> str:
    """Return a value as after --set."""
    return str(value).lower() if isinstance(value, bool) else str(value)
