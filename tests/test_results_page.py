"""Tables of the documentation come from records, and no record is of outdated settings."""

import json

import matplotlib
import pytest

from benchmarks import grid_records, results_page
from benchmarks.differences import difference_table
from benchmarks.grid_records import RESULTS, read_curves, read_records
from benchmarks.grid_settings import SETTINGS as SETTINGS_FILE
from benchmarks.grid_settings import find_setting, make_cell
from benchmarks.overview_table import overview_table
from benchmarks.recorded_runs import FILES, is_stale, nest_curves, read_runs
from benchmarks.results_figures import IMAGES, MODELS, RATES, draw_all
from benchmarks.results_page import fill, make_table, paper_changes, paper_runs
from ulc.cli import parse
from ulc.config import read_toml
from ulc.errors import InputError
from ulc.experiments.figures import render
from ulc.experiments.paper.cells import PaperSweep
from ulc.experiments.paper.grids import find_scale, paper_grid

DRAWN_WITH = "3.11.2"  # another matplotlib draws other bytes
SETTINGS = sorted(path.stem for path in RESULTS.glob("*.jsonl"))


def test_the_documentation_has_the_tables_of_the_records():
    try:
        results_page.main(["--check"])
    except SystemExit as end:
        pytest.fail(f"run `python -m benchmarks results_page`: {end}")


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_record_is_of_the_settings_of_today(setting):
    stale = [
        f"{record['method']} {record['changes']} seed {record['seed']}"
        for record in read_records(RESULTS / f"{setting}.jsonl")
        if is_stale(record)
    ]
    assert not stale, "train them again with `python -m benchmarks grid --again`"


def test_a_record_of_other_settings_is_stale():
    (first, *_) = read_records(RESULTS / f"{SETTINGS[0]}.jsonl")
    assert not is_stale(first)
    assert is_stale(first | {"changes": ["batch_size=7"]})


def test_only_what_stands_between_the_comments_is_replaced(monkeypatch):
    monkeypatch.setitem(results_page.TABLES, "means", lambda name: f"table of {name}")
    page = "a\n<!-- records: means x -->\nold\n<!-- end of records -->\nb"
    new = "a\n<!-- records: means x -->\n\ntable of x\n\n<!-- end of records -->\nb"
    assert fill(page) == new
    assert fill(new) == new


def test_an_unknown_table_is_an_error_that_names_the_known_ones():
    with pytest.raises(InputError, match="means, paired"):
        make_table(["medians", "x"])


def test_nested_curves_are_the_records_that_they_came_from():
    records = [
        {"epoch": 0, "labels": {"auc": 0.5, "small": {"auc": 0.25}}},
        {"epoch": 1, "labels": {"auc": 0.75, "small": {"auc": 1.0}}},
    ]
    assert nest_curves(read_curves(records)) == records


def test_differences_are_paired_by_seed_and_tested_over_all_settings(tmp_path):
    def record(setting, method, seed, accuracy):
        scores = {"best_on_test": 0.9, "last": {"accuracy": accuracy}}
        return {"setting": setting, "method": method, "changes": [], "seed": seed,
                "training": scores}  # fmt: skip

    for setting, gains in (("demonstration", (0.1, 0.3)), ("features-1to10-50", (0.2,))):
        lines = [record(setting, "ce", 9, 0.0)]  # a seed that the other method has not
        for seed, gain in enumerate(gains):
            lines += [record(setting, "ce", seed, 0.5), record(setting, "ulc", seed, 0.5 + gain)]
        grid_records.update_records(tmp_path / f"{setting}.jsonl", lambda _, new=lines: new)
    table = difference_table("ulc", "ce", ["accuracy", "fall", "auc"], tmp_path)
    rows = [line.strip("| ").split(" | ")[1:] for line in table.splitlines()[2:]]
    assert rows == [
        ["2", "+20.0 ± 10.0", "-20.0 ± 10.0", "–"],
        ["1", "+20.0", "-20.0", "–"],
        ["3", "+20.0 ± 5.8 (p = 0.074)", "-20.0 ± 5.8 (p = 0.074)", "–"],
    ]
    nothing = difference_table("ulc", "pencil", ["accuracy"], tmp_path)
    assert nothing == "*There are no records of `ulc` and `pencil` yet.*"
    with pytest.raises(InputError, match="no method is called 'ulk'"):
        difference_table("ulk", "ce", ["accuracy"], tmp_path)
    with pytest.raises(InputError, match="no measure is called 'speed'"):
        difference_table("ulc", "ce", ["speed"], tmp_path)


def test_a_paper_table_takes_trainings_with_the_options_of_its_cells(tmp_path):
    def record(method, changes):
        (known, *_) = read_records(RESULTS / "features-1to10-50.jsonl")
        return known | {"method": method, "changes": changes}

    lines = [
        record("ce", []),
        record("ce", ["sgd.lr=0.05", "sgd.weight_decay=0.008"]),
        record("coteaching_plus", []),
        record("coteaching_plus", ["forget_rate=0.5"]),
        record("ulc", []),
        record("ulc", ["epochs=3"]),
    ]
    grid_records.update_records(tmp_path / "features-1to10-50.jsonl", lambda _: lines)
    kept = paper_runs(read_runs(["features-1to10-50"], tmp_path))
    assert [(run.record["method"], run.record["changes"]) for run in kept] == [
        ("ce", ["sgd.lr=0.05", "sgd.weight_decay=0.008"]),
        ("coteaching_plus", ["forget_rate=0.5"]),
        ("ulc", []),
    ]
    assert json.dumps(kept[0].spec.content)


def test_a_setting_of_no_table_of_the_paper_has_no_options_there():
    assert paper_changes("human-worse", "ce") is None
    assert paper_changes("features-1to10-20", "ulc") == ()


@pytest.mark.parametrize(("figure", "methods"), [("figure3", MODELS), ("figure4", RATES)])
def test_the_trainings_of_a_figure_are_those_of_its_sweep(figure, methods):
    grid = paper_grid(figure)
    data = {"cifar10": parse.data(FILES["features"])}
    sweep = PaperSweep(grid=grid, scale=find_scale("cpu"), rows=grid.rows, columns=grid.columns,
                       data=data)  # fmt: skip
    setting = find_setting("features-1to10-50", FILES, read_toml(SETTINGS_FILE), must_exist=False)
    column = grid.columns[-1]  # 50 %
    names = [name.split("/") for name in methods]
    ours = [make_cell(setting, name, 1, changes).spec for name, *changes in names]
    theirs = [sweep.spec(row, column, 1) for row in grid.rows]
    assert len(ours) == len(theirs)
    assert all(spec in theirs for spec in ours)


def test_the_figures_of_the_documentation_are_those_of_the_records():
    drawn = dict(draw_all())
    assert {"figure1", "figure2", "figure3", "figure4"} <= set(drawn)
    for name, figure in drawn.items():
        path = IMAGES / f"{name}.svg"
        if matplotlib.__version__ == DRAWN_WITH:
            assert path.read_bytes() == render(figure, "svg"), name
        else:
            assert path.is_file()


def test_an_overview_has_the_seeds_that_all_methods_have(tmp_path):
    """Seeds 0 and 1 count, as ULC has no others; searched options count before presets."""

    def record(method, seed, accuracy, *, searched=False):
        last = {"last": {"accuracy": accuracy}}
        return {"setting": "demonstration", "method": method, "seed": seed, "searched": searched,
                "changes": ["sgd.lr=0.1"] if searched else [], "training": last,
                "balanced": last}  # fmt: skip

    lines = [record("ce", 0, 0.1), *(record("ce", seed, 0.5, searched=True) for seed in range(3)),
             record("ulc", 0, 0.6), record("ulc", 1, 0.8)]  # fmt: skip
    grid_records.update_records(tmp_path / "demonstration.jsonl", lambda _: lines)
    table = overview_table("better prior", ["demonstration"], ["ce", "ulc"], tmp_path)
    head, _, row = [line.strip("| ").split(" | ") for line in table.splitlines()]
    assert head[-2:] == ["cross entropy", "ULC"]
    assert row[1:] == ["2", "50.0 ± 0.0", "**70.0 ± 14.1**"]
    nothing = overview_table("better prior", ["demonstration"], ["ce", "pencil"], tmp_path)
    assert len(nothing.splitlines()) == 2
