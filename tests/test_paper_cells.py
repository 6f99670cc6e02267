"""The grid can train the cells of the paper's tables, as their sweep has them."""

from dataclasses import replace

import pytest

from benchmarks.grid import main
from benchmarks.grid_settings import SETTINGS, find_setting, make_cell
from benchmarks.paper_cells import columns_of, paper_cell, paper_spec
from benchmarks.recorded_runs import FILES
from ulc.config import read_toml
from ulc.errors import InputError
from ulc.experiments.paper.cells import paper_sweep
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


@pytest.mark.parametrize("method", ["ce", "pencil", "dividemix", "elr_plus", "ulc"])
def test_images_at_the_scale_cpu_are_trained_as_end_to_end(method, tmp_path):
    """A folder in place of features: the small network, with the recipe of `images-1to10-50`."""
    end_to_end = setting("images-1to10-50")
    (tmp_path / "cifar10").mkdir()
    sweep = paper_sweep("table2", {"cifar10": tmp_path / "cifar10"}, scale="cpu")
    (column,) = [each for each in sweep.columns if each.noise == end_to_end.base.noise
                 and each.imbalance.tag == end_to_end.base.imbalance.tag]  # fmt: skip
    (row,) = [each for each in sweep.rows if each.method == method]
    spec = sweep.spec(row, column, 2).model_copy(update={"data": end_to_end.base.data})
    assert spec == make_cell(end_to_end, method, 2).spec
    longer = replace(sweep, epochs=60).spec(row, column, 2)
    assert longer.epochs == 60
    assert longer.options["sgd"]["cosine_epochs"] in (60, 0)  # 0: PENCIL has stages


def test_the_options_of_small_images_have_their_source(tmp_path):
    (tmp_path / "cifar10").mkdir()
    sweep = paper_sweep(
        "table2", {"cifar10": tmp_path / "cifar10"}, scale="cpu", only=["dividemix"]
    )
    sources = {each.name: each.source for each in sweep.list_options()}
    ours = "ours: a short training with a cosine schedule and a weight average, for every method"
    for name in ("epochs", "network", "sgd.lr", "sgd.cosine_epochs", "warmup_epochs"):
        assert sources[name] == ours
    assert sources["temperature"] != ours
