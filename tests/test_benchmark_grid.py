"""The grid of trainings: it can be killed, repeats nothing, and keeps small records."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.grid import main, parse_options, plan_cells
from benchmarks.grid_records import (
    SEARCHES,
    add_record,
    changed_options,
    hash_spec,
    is_recorded,
    key_of,
    processor_seconds,
    read_curves,
    read_records,
)
from benchmarks.grid_settings import METHODS, SETTINGS, find_setting, make_cell
from benchmarks.grid_table import group_records, title_of
from benchmarks.grid_table import main as print_tables
from benchmarks.recorded_runs import FILES
from stub_data import embeddings
from ulc.algorithms import ALGORITHMS
from ulc.cli import parse
from ulc.config import merge, read_toml
from ulc.errors import InputError
from ulc.experiments.paper.cells import PaperSweep
from ulc.experiments.paper.features import choices, flat
from ulc.experiments.paper.grids import find_scale, paper_grid
from ulc.settings.variants import VARIANTS
from ulc.training.run import run

ROOT = Path(__file__).parents[1]


@pytest.fixture
def command(tmp_path):
    """Options of a grid with a setting that can be trained and one whose data are damaged."""
    np.savez(tmp_path / "good.npz", **embeddings())
    np.savez(tmp_path / "bad.npz", X=np.zeros((5, 2)))
    settings = [
        f"[{name}]\ndata = '{tmp_path / name}.npz'\nnoise = 'symmetric:0.4'\nsearched = 'good'\n"
        for name in ("good", "bad")
    ]
    (tmp_path / "grid.toml").write_text("\n".join(settings))
    return ["--grid", "grid.toml", "--runs", "runs", "--set", "epochs=3", "--results", "results"]


def cells_of(command, settings="good", methods="ce", seeds="0"):
    return plan_cells(parse_options([settings, "--methods", methods, "--seeds", seeds, *command]))


def stub_record(method, seed, accuracy, *, auc=0.9, changes=(), options=None):
    scores = {"accuracy": accuracy, "small_accuracy": accuracy, "large_accuracy": accuracy}
    return {
        "setting": "good", "method": method, "changes": list(changes), "seed": seed, "spec": "0",
        "epochs": 3, "training": {"last": scores}, "balanced": {"last": scores},
        "labels": {"auc": auc}, "processor_seconds": 2.0, "options": options or {},
    }  # fmt: skip


def without_time(path):
    return [{**record, "processor_seconds": 0} for record in read_records(path)]


def train_here(jobs, _):
    """Train the jobs in this process."""
    for place, job in enumerate(jobs):
        yield place, run(job.spec, job.out, device="cpu")


@pytest.mark.slow
def test_a_grid_that_was_killed_goes_on_to_the_same_records_and_repeats_nothing(
    tmp_path, command, capsys, monkeypatch
):
    grid = ["good", "--methods", "ce,ceiling", "--seeds", "0", *command]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks", "grid", *grid],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    for line in process.stdout:
        if line.startswith("1/2"):
            break
    process.kill()
    process.communicate()
    assert len(read_records(tmp_path / "results/good.jsonl")) == 1
    main([*grid, "--jobs", "2"])
    resumed = without_time(tmp_path / "results/good.jsonl")
    assert [record["method"] for record in resumed] == ["ce", "ceiling"]
    assert "labels" in resumed[0]
    capsys.readouterr()
    before = (tmp_path / "results/good.jsonl").read_bytes()
    main([*grid, "--runs", "elsewhere"])
    assert "2 cells, 2 of them recorded before" in capsys.readouterr().out
    assert not (tmp_path / "elsewhere").exists()
    assert (tmp_path / "results/good.jsonl").read_bytes() == before
    monkeypatch.setattr("benchmarks.grid.train_jobs", train_here)
    main([*grid, "--runs", "unbroken", "--again", "--discard"])
    assert without_time(tmp_path / "results/good.jsonl") == resumed
    assert not list((tmp_path / "unbroken").iterdir())


@pytest.mark.slow
def test_a_cell_that_fails_is_listed_and_the_rest_goes_on(tmp_path, command, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["bad,good", "--methods", "ce", "--seeds", "0", *command])
    assert ended.value.code == 1
    printed = capsys.readouterr()
    assert "failed: bad ce epochs=3 seed 0: " in printed.err
    assert "no array 'y'" in printed.err
    assert len(read_records(tmp_path / "results/good.jsonl")) == 1
    assert not (tmp_path / "results/bad.jsonl").exists()


def test_mistakes_are_told_before_anything_is_trained(tmp_path, command):
    for grid, message in (
        (["fair"], "no setting is called 'fair'; known: good, bad"),
        (["good", "--methods", "ulc2"], "no method is called 'ulc2'"),
        (["good", "--set", "sgd.speed=9"], r"unknown key 'sgd\.speed'"),
        (["good", "--seeds", "a"], "--seeds a"),
    ):
        with pytest.raises(SystemExit, match=message):
            main([*grid, *command])
    assert not (tmp_path / "runs").exists()


def test_a_setting_names_the_file_that_it_needs(monkeypatch):
    monkeypatch.delenv("ULC_FEATURES", raising=False)
    with pytest.raises(SystemExit, match=r"'features-1to10-50' needs --features or \$ULC_FEATURES"):
        main(["features-1to10-50"])


def test_every_method_has_a_spec_of_its_own_with_the_preset(command):
    cells = cells_of(command, methods=",".join(METHODS))
    assert len({hash_spec(cell.spec) for cell in cells}) == len(METHODS)
    assert set(VARIANTS) < set(METHODS)
    assert {cell.spec.epochs for cell in cells} == {3}
    ceiling = cells[METHODS.index("ceiling")].spec
    assert (ceiling.algorithm, ceiling.noise.kind) == ("ce", "none")


def test_a_setting_has_options_for_all_methods_and_for_single_ones(tmp_path, command):
    with (tmp_path / "grid.toml").open("a") as file:
        file.write("options = { sgd = { lr = 0.3, cosine_epochs = 3 } }\n")
        file.write("own_options = { ulc = { passes = 3 } }\n")
    methods = "ce,ceiling,ulc-guarded,coteaching_plus"
    cells = cells_of(command, "bad", methods)
    assert [cell.spec.options.get("passes") for cell in cells] == [None, None, 3, None]
    sgds = [cell.spec.options.get("sgd") for cell in cells]
    assert [(each["lr"], each["cosine_epochs"]) for each in sgds[:3]] == [(0.3, 3)] * 3
    assert sgds[3] is None  # Co-teaching+ has Adam
    (changed,) = cells_of([*command, "--set", "sgd.lr=0.1"], "bad")
    assert (changed.spec.options["sgd"]["lr"], changed.spec.options["sgd"]["cosine_epochs"]) == (
        0.1,
        3,
    )


@pytest.mark.parametrize("table", ["table1", "table2"])
def test_every_column_of_the_paper_has_a_setting_with_the_specs_of_the_sweep(table):
    """With the options that the search chose for the data set.

    Co-teaching+ apart, which is told the true share of wrong labels in the paper's tables. The
    settings of CIFAR-100 have the options of CIFAR-10 where the sweep has those of CIFAR-100.
    """
    titles = read_toml(SETTINGS)
    known = {name: find_setting(name, FILES, titles, must_exist=False) for name in titles}
    data = {"cifar10": parse.data(FILES["features"]), "cifar100": parse.data(FILES["features100"])}
    grid, scale = paper_grid(table), find_scale("cpu")
    sweep = PaperSweep(grid=grid, scale=scale, rows=grid.rows, columns=grid.columns, data=data)
    for column in grid.columns:
        (setting,) = (
            each
            for each in known.values()
            if (each.base.data, each.base.noise, each.base.imbalance)
            == (data[column.data], column.feature_noise, column.imbalance)
        )
        for row in grid.rows:
            if row.told is None:
                changes = searched_for(column.data, row.method)
                spec = make_cell(setting, row.method, 1, changes).spec
                if column.data == "cifar100":
                    own = sweep.options_of(column, row.method)
                    spec = spec.model_copy(update={"options": merge(spec.options, own)})
                assert spec == sweep.spec(row, column, 1), (setting.name, row.method)


def searched_for(data, method):
    """What the search chose for the features of a data set; nothing if it did not search."""
    name = {"cifar10": "features-1to10-50", "cifar100": "features100-1to10-50"}[data]
    records = read_records(SEARCHES / f"{name}.jsonl")
    chosen = [each["changes"] for each in records if each["method"] == method and each["chosen"]]
    return chosen[0] if chosen else []


@pytest.mark.parametrize("data", ["cifar10", "cifar100"])
def test_the_scale_cpu_has_what_the_search_chose_for_its_data_set(data):
    """And names as searched nothing else."""
    named = {
        method: dict(flat(choice.options))
        for method, choice in choices(data).items()
        if choice.source.startswith("search ")
    }
    found = {
        method: dict(flat(parse.settings(searched_for(data, method)))) for method in ALGORITHMS
    }
    assert named == {method: changes for method, changes in found.items() if changes}


def test_a_cell_is_recorded_wherever_its_data_are_but_not_with_other_options(tmp_path, command):
    (cell,) = cells_of(command)
    records = [stub_record("ce", 0, 0.5, changes=["epochs=3"]) | {"spec": hash_spec(cell.spec)}]
    assert is_recorded(cell, records)
    (tmp_path / "grid.toml").rename(tmp_path / "old.toml")
    (tmp_path / "there").mkdir()
    (tmp_path / "good.npz").rename(tmp_path / "there/good.npz")
    text = (tmp_path / "old.toml").read_text()
    moved = text.replace(f"{tmp_path / 'good'}", f"{tmp_path / 'there/good'}")
    (tmp_path / "grid.toml").write_text(moved)
    (elsewhere,) = cells_of(command)
    assert elsewhere.spec.data.path != cell.spec.data.path
    assert is_recorded(elsewhere, records)
    (other,) = cells_of([*command, "--set", "batch_size=9"])
    assert not is_recorded(other, records)
    (tmp_path / "grid.toml").write_text(moved.replace("0.4", "0.3"))
    assert not is_recorded(cells_of(command)[0], records)


def test_a_searched_cell_has_the_options_that_the_search_chose(tmp_path, command, monkeypatch):
    """Variants have those of their algorithm; an algorithm that was not searched is an error."""
    monkeypatch.setattr("benchmarks.grid.SEARCHES", tmp_path / "search")
    for changes, chosen in (((), False), (("sgd.lr=0.3",), True)):
        record = stub_record("ulc", 100, 0.5, changes=changes) | {"chosen": chosen}
        add_record(tmp_path / "search" / "good.jsonl", record)
    place = command.index("--set")
    alone = [*command[:place], *command[place + 2 :]]
    for cell in cells_of([*alone, "--searched"], methods="ulc,ulc-without-csm"):
        assert cell.spec.options["sgd"]["lr"] == 0.3
        assert (cell.searched, cell.changes) == (True, ("sgd.lr=0.3",))
    (changed,) = cells_of([*command, "--searched"], methods="ulc")
    assert (changed.searched, changed.changes) == (False, ("epochs=3", "sgd.lr=0.3"))
    with pytest.raises(InputError, match="search them"):
        cells_of([*command, "--searched"], methods="ce")


def test_a_record_tells_only_options_that_are_not_defaults(command):
    (cell,) = cells_of([*command, "--set", "sgd.momentum=0.5", "--set", "batch_size=128"])
    options = changed_options(cell.spec)
    assert options["sgd"]["momentum"] == 0.5
    assert "lr" not in options["sgd"]
    assert "batch_size" not in options


def test_processor_seconds_are_those_of_training_and_of_the_clock_in_older_records():
    seconds = [{"train": 4.0, "processor": 3.0, "score": 9.0}, {"train": 2.0, "score": 9.0}]
    folder = SimpleNamespace(records=[{"seconds": each} for each in seconds])
    assert processor_seconds(folder) == 5


def test_curves_have_one_value_for_each_epoch_and_none_where_an_epoch_has_none():
    first = {"labels": {"small": {"auc": 0.123456}, "large": {"auc": None}}}
    second = {"labels": {"small": {"auc": 1.0}}, "train": {"moved_by_doubt": 0.0000363636}}
    assert read_curves([first, second]) == {
        "labels.small.auc": [0.1235, 1.0],
        "train.moved_by_doubt": [None, 3.636e-05],
    }


def test_a_title_says_searched_only_where_the_search_left_the_preset():
    changed = stub_record("ce", 0, 0.5, changes=["sgd.lr=1"]) | {"searched": True}
    assert title_of(changed) == "cross entropy (searched)"
    assert title_of(changed | {"changes": []}) == "cross entropy"
    assert title_of(changed | {"searched": False}) == "cross entropy (sgd.lr=1)"


def test_a_method_by_name_is_without_the_changes_of_a_user_but_with_those_of_a_search():
    records = [
        stub_record("ce", 0, 0.5),
        stub_record("ce", 0, 0.5, changes=["sgd.lr=1"]) | {"searched": True},
        stub_record("ce", 0, 0.5, changes=["epochs=1"]),
    ]
    both, changed = (list(group_records(records, [name])) for name in ("ce", "ce/epochs=1"))
    assert both == ["cross entropy", "cross entropy (searched)"]
    assert changed == ["cross entropy (epochs=1)"]


def test_records_are_sorted_and_a_new_one_replaces_that_of_the_same_cell(tmp_path):
    path = tmp_path / "good.jsonl"
    for method, seed, accuracy in (("ulc", 1, 0.1), ("ce", 2, 0.2), ("ulc", 0, 0.3), ("ulc", 1, 1)):
        add_record(path, stub_record(method, seed, accuracy))
    add_record(path, stub_record("ce", 2, 0.7, changes=["epochs=1"]))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(*key_of(each), each["training"]["last"]["accuracy"]) for each in lines] == [
        ("ce", (), 2, 0.2), ("ce", ("epochs=1",), 2, 0.7), ("ulc", (), 0, 0.3), ("ulc", (), 1, 1),
    ]  # fmt: skip


def test_tables_show_means_and_paired_differences_over_common_seeds(tmp_path, capsys):
    path = tmp_path / "good.jsonl"
    for seed, ce, ulc in ((0, 0.5, 0.6), (1, 0.7, 0.9)):
        add_record(path, stub_record("ce", seed, ce, auc=None))
        add_record(path, stub_record("ulc", seed, ulc))
        add_record(path, stub_record("ulc-without-csm", seed, ulc, options={"seed": seed}))
    add_record(path, stub_record("ulc", 2, 0.0))
    print_tables(["good", "--results", str(tmp_path)])
    shown = capsys.readouterr().out
    rows = [line.strip("| ").split(" | ") for line in shown.splitlines() if line.startswith("| ")]
    assert [row[:3] for row in rows[1:]] == [
        ["cross entropy", "2", "60.0 ± 14.1"],
        ["ULC", "3", "50.0 ± 45.8"],
        ["ULC without CSM", "2", "75.0 ± 21.2"],
    ]
    assert [row[6] for row in rows[1:]] == ["–", "90.0 ± 0.0", "90.0 ± 0.0"]
    assert [row[-1] for row in rows[1:]] == ["1.00", "1.00", "1.00"]
    assert "The records of ULC without CSM have different options" in shown
    print_tables(["--paired", "ulc", "--results", str(tmp_path)])
    shown = capsys.readouterr().out
    assert "| cross entropy | 2 | -15.0 ± 5.0 |" in shown
    assert "| ULC without CSM | 2 | +0.0 ± 0.0 |" in shown
    assert "| ULC |" not in shown
