"""The tables and figures of the paper as data: every cell is a valid training, with sources."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from stub_data import embeddings
from ulc.algorithms import configure
from ulc.config import RunSpec
from ulc.data.prepare import prepare
from ulc.data.sources.source import Source
from ulc.errors import InputError
from ulc.experiments.paper.cells import paper_sweep
from ulc.experiments.paper.features import flat, source_of
from ulc.experiments.paper.grids import (
    NAMES,
    PaperGrid,
    find_scale,
    option_sources,
    paper_grid,
    vector_sources,
)
from ulc.settings.variants import VARIANTS
from ulc.training.run import build_algorithm
from ulc.validating import checked

METHODS = ("ce", "coteaching_plus", "pencil", "meta_learning", "m_correction", "dividemix",
           "elr_plus", "ulc")  # fmt: skip


@pytest.fixture
def folders():
    for name in ("CIFAR10", "CIFAR100", "CLOTHING1M"):
        Path(name).mkdir()
    return {"cifar10": "CIFAR10", "cifar100": "CIFAR100", "clothing1m": "CLOTHING1M"}


@pytest.fixture
def features():
    for count in (10, 100):
        np.savez(f"features{count}.npz", **embeddings(2 * count, count, 4))
    return {"cifar10": "features10.npz", "cifar100": "features100.npz"}


def cells_of(name, data, scale="paper", seeds=(0,), **change):
    return paper_sweep(name, data, scale=scale, **change).cells(seeds)


def tiny(spec):
    """Two random images of each class, as the spec's data."""
    classes = 10 if spec.data.source == "cifar10" else 100
    names = tuple(map(str, range(classes)))
    labels = np.tile(np.arange(classes), 2)
    images = np.random.default_rng(0).integers(0, 256, (len(labels), 3, 32, 32), np.uint8)
    return Source("tiny", images, labels, names)


@pytest.mark.parametrize(
    ("name", "count"),
    [("table1", 72), ("table2", 64), ("table4", 32), ("figure1", 1), ("figure2", 1),
     ("figure3", 3), ("figure4", 10)],
)  # fmt: skip
def test_every_cell_is_a_spec_of_its_own_at_both_scales(name, count, folders, features):
    for scale, data in (("paper", folders), ("cpu", features)):
        cells = cells_of(name, data, scale)
        assert len({cell.spec.folder_name for cell in cells}) == count
        for cell in cells:
            Path("spec.toml").write_text(cell.spec.write(), encoding="utf-8")
            assert RunSpec.read(Path("spec.toml")) == cell.spec
            assert cell.spec.network.name == find_scale(scale).network
            configure(cell.spec.algorithm, cell.spec.options)


@pytest.mark.slow
def test_every_method_builds_with_the_network_of_the_paper(folders):
    built = {}
    for cell in cells_of("table2", folders, only=["cifar10"]):
        spec = cell.spec
        if cell.row not in built:
            clean = spec.model_copy(update={"imbalance": RunSpec().imbalance})
            prepared = prepare(clean, torch.device("cpu"), source=tiny(spec))
            algorithm = build_algorithm(spec, prepared, torch.device("cpu"))
            first = algorithm.networks()[0]
            built[cell.row] = sum(each.numel() for each in first.backbone.parameters())
    assert len(built) == len(METHODS)
    assert set(built.values()) == {11_171_274 - 10 * 513}  # the known size, without the head


def test_table_1_redraws_labels_and_table_2_moves_them(folders):
    def kinds(name):
        return {cell.spec.noise.kind for cell in cells_of(name, folders)}

    assert kinds("table1") == {"symmetric_inclusive", "asymmetric"}
    assert kinds("table2") == kinds("table4") == {"symmetric"}
    uneven = {cell.spec.imbalance.tag for cell in cells_of("table2", folders)}
    assert uneven == {"half5", "half10"}
    assert {cell.spec.imbalance.tag for cell in cells_of("table1", folders)} == {"balanced"}


def test_ulc_has_the_values_that_the_paper_states(folders):
    for cell in cells_of("table1", folders, only=["ulc"]):
        spec, options = cell.spec, cell.spec.options
        assert spec.epochs == 300
        assert options["warmup_epochs"] == (30 if spec.data.source == "cifar10" else 40)
        assert options["threshold"] == (0.6 if spec.noise.rate == 0.9 else 0.5)
        assert (options["passes"], options["dropout"], options["doubt_weight"]) == (10, 0.3, 0.1)
        assert options["doubtful_weight"] in (0, 25, 50, 150)
        assert options["sgd"]["momentum"] == 0.9


def test_co_teaching_is_told_the_true_share_of_wrong_labels(folders, features):
    """A redrawn label is right by chance; asymmetric noise changes five of ten classes."""
    for data, scale in ((folders, "paper"), (features, "cpu")):
        told = {
            cell.column: cell.spec.options["forget_rate"]
            for cell in cells_of("table1", data, scale, only=["coteaching_plus"])
        }
        assert told["CIFAR-10, Sym. 50 %"] == pytest.approx(0.5 * 9 / 10)
        assert told["CIFAR-100, Sym. 50 %"] == pytest.approx(0.5 * 99 / 100)
        assert told["CIFAR-10, Asym. 40 %"] == pytest.approx(0.4 * 5 / 10)
    (cell,) = cells_of("table2", folders, only=["CoT+", "cifar10", "symmetric:0.5", "half:5"])
    assert cell.spec.options["forget_rate"] == 0.5


def test_features_get_the_asymmetric_noise_of_cifar_10_by_number(features):
    """Truck to automobile, bird to airplane, deer to horse, cat and dog to one another."""
    (cell,) = cells_of("table1", features, "cpu", only=["ulc", "asymmetric:0.4"])
    matrix = np.array(cell.spec.noise.matrix)
    moved = {(int(a), int(b)) for a, b in np.argwhere(matrix == 0.4)}
    assert moved == {(9, 1), (2, 0), (4, 7), (3, 5), (5, 3)}
    assert cell.spec.options["warmup_entropy"] == 1.0


BY_COLUMN = (
    "doubtful_weight",
    "threshold",
    "loss_history",
    "warmup_entropy",
    "bootstrapping",
    "memory",
    "penalty",
    "refine_labels",
)  # go with data set or noise, not with the epochs


@pytest.mark.parametrize("name", ["table1", "table2", "table4", "figure2", "figure4"])
def test_features_have_the_options_that_the_paper_s_scale_has_for_the_column(
    name, folders, features
):
    """λ_u, options of ELR+ and of M-correction: of CIFAR-100, of 90 % and of asymmetric noise."""
    both = (cells_of(name, folders), cells_of(name, features, "cpu"))
    for large, small in zip(*both, strict=True):
        assert (large.row, large.column) == (small.row, small.column)
        for option in BY_COLUMN:
            assert small.spec.options.get(option) == large.spec.options.get(option), small.title


def test_options_of_features_that_count_steps_are_scaled_with_the_epochs(features):
    chosen = ["elr_plus", "cifar100", "symmetric:0.5", "half:5"]
    for epochs, steps in ((None, 2000), (24, 2000), (6, 500)):
        (cell,) = cells_of("table2", features, "cpu", only=chosen, epochs=epochs)
        options = cell.spec.options
        assert options["penalty_rampup_steps"] == options["average_rampup_steps"] == steps


def test_settings_of_the_user_override_those_of_the_features(features):
    chosen = {"only": ["ulc", "ce", "cifar100", "symmetric:0.5", "half:5"]}
    tuned = {"CIFAR-100, Sym. 50 %, 1:5": {"ulc": {"doubtful_weight": 1.0}}}
    first, second = cells_of("table2", features, "cpu", **chosen, tuned=tuned)
    assert first.spec.options["sgd"]["weight_decay"] == 0.008
    assert second.spec.options["doubtful_weight"] == 1.0
    (own,) = cells_of("table2", features, "cpu", only=["ce", *chosen["only"][2:]],
                      options={"sgd": {"weight_decay": 0.1}})  # fmt: skip
    assert (own.spec.options["sgd"]["weight_decay"], own.spec.options["sgd"]["lr"]) == (0.1, 0.008)


@pytest.mark.parametrize("scale", ["paper", "cpu"])
@pytest.mark.parametrize("name", NAMES)
def test_every_option_of_a_cell_is_told_with_its_value_and_one_source(
    name, scale, folders, features
):
    if (name, scale) == ("table3", "cpu"):
        return
    work = paper_sweep(name, folders if scale == "paper" else features, scale=scale)
    listed = work.list_options()
    for row, column in product(work.rows, work.columns):
        spec = work.spec(row, column, 0)
        places = {column.head[0], " ".join(column.head[:2])}
        for option, value in {"epochs": spec.epochs, **dict(flat(spec.options))}.items():
            if option in row.options or option in VARIANTS.get(row.method, ("", {}))[1]:
                continue
            (found,) = [
                each for each in listed
                if (each.algorithm, each.name) == (spec.algorithm, option)
                and f"{value}" in each.columns
                and (not each.columns[f"{value}"] or places & set(each.columns[f"{value}"]))
            ]  # fmt: skip
            assert found.source


def test_a_source_of_the_scale_paper_is_that_of_features_only_for_the_same_value(folders, features):
    """Values of features that differ have a source of their own."""
    for name in ("table1", "table2"):
        large, small = paper_sweep(name, folders), paper_sweep(name, features, scale="cpu")
        for row, column in product(large.rows, large.columns):
            there = dict(flat(large.options_in(column, row).options))
            here = dict(flat(small.options_in(column, row).options))
            for option in [each for each in here if here[each] != there[each]]:
                sources = [
                    source_of(column.data, row.method, option, frozen=frozen)
                    for frozen in (True, False)
                ]
                assert sources[0] != sources[1], (row.method, option)


def test_sources_of_features_name_options_that_there_are(features):
    work = paper_sweep("table2", features, scale="cpu")
    for row in work.rows:
        known = dict(flat(work.options_in(work.columns[0], row).options))
        own = set(vector_sources(row.method)) - {each for each in vector_sources("") if "." in each}
        assert own <= set(known), row.method


def test_figures_1_and_2_end_with_the_first_epoch_after_warm_up(folders, features):
    for name in ("figure1", "figure2"):
        (large,) = cells_of(name, folders)
        assert (large.spec.options["warmup_epochs"], large.spec.epochs) == (30, 31)
        (small,) = cells_of(name, features, "cpu")
        assert small.spec.epochs == small.spec.options["warmup_epochs"] + 1 == 7


def test_figure_3_has_the_three_noise_models_and_figure_4_five_weights(folders):
    models = {
        cell.row: (cell.spec.options["per_class"], cell.spec.options["doubt_weight"])
        for cell in cells_of("figure3", folders)
    }
    assert models == {"CAM": (False, 0.0), "CSM": (True, 0.0), "EUCS": (True, 0.1)}
    weights = [cell.spec.options["doubt_weight"] for cell in cells_of("figure4", folders)]
    assert weights == [0.0, 0.05, 0.1, 0.15, 0.2] * 2


@pytest.mark.parametrize("name", NAMES)
def test_every_hyper_parameter_has_a_source(name, folders):
    for cell in cells_of(name, folders):
        sources = option_sources()[cell.spec.algorithm]
        wanted = {"epochs", "network", *dict(flat(cell.spec.options))}
        assert wanted <= set(sources), cell.spec.algorithm
    assert set(option_sources()) == set(METHODS)


def test_numbers_of_the_paper_are_those_of_its_tables():
    """Spot checks at the corners of each table; a dash of the paper is no number."""

    def number(name, row, column, score):
        grid = paper_grid(name)
        found = next(each for each in grid.rows if each.title == row)
        return grid.number(found, grid.columns[column], score)

    assert number("table1", "CE", 0, "best") == 86.8
    assert number("table1", "ULC", 8, "last") == 34.1
    assert number("table1", "CoT+", 4, "best") is None
    assert number("table2", "DivideMix", 1, "best") == 74.8
    assert number("table2", "ULC", 3, "last") == 92.2
    assert number("table3", "ULC", 0, "last") == 74.9
    assert number("table4", "ULC w/o CSM", 3, "best") == 70.5
    assert number("figure3", "CAM", 0, "best") is None


def test_odd_numbers_are_marked():
    grid = paper_grid("table1")
    cross_entropy = grid.rows[0]
    assert grid.remarks(cross_entropy, grid.columns[8], "best")
    assert not grid.remarks(cross_entropy, grid.columns[8], "last")
    assert not grid.remarks(cross_entropy, grid.columns[7], "best")


def test_remarks_are_true_of_the_numbers_that_they_mark():
    """Cross entropy above its value on balanced data; the falls from 1:5 to 1:10."""
    balanced = {
        ("cifar10", 0.2): 0,
        ("cifar10", 0.5): 1,
        ("cifar100", 0.2): 5,
        ("cifar100", 0.5): 6,
    }
    (even, *_), grid = paper_grid("table1").rows, paper_grid("table2")
    rows = {row.title: row for row in grid.rows}
    for place, column in enumerate(grid.columns):
        for score in ("best", "last"):
            marks = grid.remarks(rows["CE"], column, score)
            there = getattr(even, score)[balanced[column.data, column.noise.rate]]
            assert bool(marks) == (getattr(rows["CE"], score)[place] > there), column.title
    (said,) = {each.text for each in grid.oddities if each.rows == ("DivideMix",)}
    assert "Falls by 19 points" in said
    for place, falls in ((1, {2}), (3, {3, 4})):
        for score in ("best", "last"):
            own, plain = (getattr(rows[name], score) for name in ("DivideMix", "CE"))
            assert round(own[place - 1] - own[place]) == 19
            assert round(plain[place - 1] - plain[place]) in falls
            assert grid.remarks(rows["DivideMix"], grid.columns[place], score)
    assert not grid.remarks(rows["M-correction"], grid.columns[0], "best")


def test_table_3_trains_the_rows_that_have_settings_and_has_the_numbers_of_all(folders):
    grid = paper_grid("table3")
    assert (len(grid.rows), len(grid.columns)) == (8, 1)
    cells = cells_of("table3", folders)
    assert len({cell.spec.folder_name for cell in cells}) == 7
    for cell in cells:
        Path("spec.toml").write_text(cell.spec.write(), encoding="utf-8")
        assert RunSpec.read(Path("spec.toml")) == cell.spec
        assert cell.spec.network.weights == "imagenet"
    (cell,) = cells_of("table3", folders, only=["ulc"], weights="own.pth")
    assert cell.spec.network.weights == str(Path("own.pth").absolute())
    with pytest.raises(InputError, match="--only m_correction: table3 has no such cell"):
        paper_sweep("table3", folders, only=["m_correction"])


def test_stages_of_table_3_fit_into_its_epochs_and_weights_count_the_classes(folders):
    """η = 1 of Meta-Learning and λ = 3000 of PENCIL are divided by the 14 classes."""
    options = {
        cell.row: (cell.spec.epochs, cell.spec.options) for cell in cells_of("table3", folders)
    }
    epochs, meta = options["ML"]
    assert (epochs, meta["pretrain_epochs"], 14 * meta["meta_weight"]) == (4, 3, pytest.approx(1))
    assert (meta["sgd"]["lr"], meta["guide_sgd"]["lr"]) == (0.0008, 0.0008)
    assert meta["sgd"]["milestones"] == []
    epochs, pencil = options["PENCIL"]
    stages = ("backbone_epochs", "correcting_epochs", "final_epochs")
    assert sum(pencil[each] for each in stages) == epochs == 25
    assert 14 * pencil["label_rate"] == pytest.approx(3000)
    for _, each in options.values():
        assert each.get("sgd", {"weight_decay": 1e-3})["weight_decay"] == 1e-3


def test_only_chooses_by_every_kind_of_name(folders):
    chosen = cells_of("table2", folders, only=["ulc", "DivideMix", "cifar10", "half:10"])
    assert [(cell.row, cell.column) for cell in chosen] == [
        ("DivideMix", "CIFAR-10, Sym. 20 %, 1:10"), ("ULC", "CIFAR-10, Sym. 20 %, 1:10"),
        ("DivideMix", "CIFAR-10, Sym. 50 %, 1:10"), ("ULC", "CIFAR-10, Sym. 50 %, 1:10"),
    ]  # fmt: skip


def test_one_path_is_cifar_10_and_other_columns_are_left_out(folders):
    work = paper_sweep("table2", "CIFAR10", also=["ulc_plus"])
    assert {column.data for column in work.columns} == {"cifar10"}
    assert work.left_out == ("CIFAR-100",)
    assert paper_sweep("table2", "CIFAR10", only=["cifar10"]).left_out == ()
    assert work.rows[-1].method == "ulc_plus"


def test_settings_of_the_user_override_those_of_the_scale(folders):
    (cell,) = cells_of(
        "figure1", folders, network="small_cnn", epochs=20, options={"batch_size": 32}
    )
    spec = cell.spec
    assert (spec.network.name, spec.options["batch_size"]) == ("small_cnn", 32)
    assert (spec.options["warmup_epochs"], spec.epochs) == (2, 3)  # a tenth, and one


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "table9"}, "no table or figure is called 'table9'; known: table1"),
        ({"scale": "tiny"}, "no scale is called 'tiny'; known: paper, cpu"),
        ({"data": {"cifar": "CIFAR10"}}, "paper has no data set 'cifar'; it has: cifar10"),
        ({"data": "nowhere"}, "give the folder of the official files"),
        ({"only": ["half:7"]}, "--only half:7: table2 has no such cell; known: .*half:10"),
        ({"only": ["cifar100"], "data": {"cifar10": "CIFAR10"}}, "no cell is left"),
        ({"name": "figure4", "options": {"doubt_weight": 0.3}}, "figure4 sets it for 'r = 0'"),
        ({"scale": "cpu", "data": "features100.npz"}, "name 100 classes, but CIFAR-10 has 10"),
        ({"scale": "cpu", "data": "nowhere"}, "give FILE.npz .* or the folder of the official"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_in_one_sentence(change, message, folders, features):
    with pytest.raises(InputError, match=message):
        cells_of(**({"name": "table2", "data": folders} | change))


def test_numbers_and_remarks_must_fit_the_rows_and_columns():
    content = paper_grid("table2").model_dump()
    checked(PaperGrid, content, where="table2.toml")
    row = content["rows"][0]
    short = row | {"best": row["best"][:-1]}
    message = f"table2.toml: .*the row {row['title']} has not one number for each column"
    with pytest.raises(InputError, match=message):
        checked(PaperGrid, content | {"rows": [short, *content["rows"][1:]]}, where="table2.toml")
    odd = [{"text": "odd", "rows": ["Nobody"]}]
    with pytest.raises(InputError, match=r"names a row that is not there: \('Nobody',\)"):
        checked(PaperGrid, content | {"oddities": odd}, where="table2.toml")
