"""The grid can train the cells of the paper's tables, as their sweep has them."""

import pytest

from benchmarks.grid import main
from benchmarks.grid_settings import SETTINGS, find_setting, make_cell
from benchmarks.paper_cells import columns_of, paper_cell, paper_spec
from benchmarks.recorded_runs import FILES
from ulc.config import read_toml
from ulc.errors import InputError
from ulc.experiments.paper.grids import paper_grid


def setting(name):
    return find_setting(name, FILES, read_toml(SETTINGS), must_exist=False)


def test_every_column_of_the_tables_is_a_setting():
    settings = [setting(name) for name in read_toml(SETTINGS) if name.startswith("features")]
    found = [(grid.name, column.title) for each in settings for grid, column in columns_of(each)]
    assert len(found) == len(set(found))
    for table in ("table1", "table2", "table4"):
        assert {title for name, title in found if name == table} == {
            column.title for column in paper_grid(table).columns
        }


@pytest.mark.parametrize("name", ["features-1to10-50", "features100-1to5-20"])
@pytest.mark.parametrize("method", ["ce", "coteaching_plus", "ulc", "ulc_plus", "ulc-without-csm"])
def test_a_cell_has_the_spec_of_its_sweep(name, method):
    cell = paper_cell(setting(name), method, 3)
    assert cell.spec == paper_spec(setting(name), method, 3)
    assert cell == make_cell(setting(name), method, 3, cell.changes)


def test_only_coteaching_plus_is_told_the_share_of_wrong_labels():
    assert paper_cell(setting("features-1to10-20"), "coteaching_plus", 0).changes == (
        "forget_rate=0.2",
    )
    assert paper_cell(setting("features-1to10-20"), "ulc", 0).changes == ()


def test_a_setting_of_no_table_is_refused():
    with pytest.raises(InputError, match="human-worse"):
        paper_cell(setting("human-worse"), "ce", 0)
    with pytest.raises(SystemExit, match="demonstration"):
        main(["demonstration", "--methods", "ce", "--seeds", "0", "--paper"])
    with pytest.raises(SystemExit, match="leave out --set"):
        main(["demonstration", "--paper", "--set", "epochs=3"])
