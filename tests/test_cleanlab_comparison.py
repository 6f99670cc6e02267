"""The comparison with cleanlab: its settings are what they say, its numbers are worked by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import cleanlab_comparison
from benchmarks.comparison import methods, tables
from benchmarks.comparison.scoring import finding, score_finding
from benchmarks.comparison.settings import (
    LOOK_ALIKE,
    NOISES,
    SETTINGS,
    Rows,
    cut,
    look_alike_matrix,
)
from ulc.errors import InputError

SEEDS = range(3)


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> Rows:
    """Ten clusters that lie apart: rows 0 to 399 are learned from, 600 and on held back."""
    folder = tmp_path_factory.mktemp("features")
    rng = np.random.default_rng(0)
    centres = 4 * rng.normal(size=(10, 12))
    y, y_test = np.arange(800) % 10, np.arange(100) % 10
    near = {
        "X": centres[y] + rng.normal(size=(800, 12)),
        "X_test": centres[y_test] + rng.normal(size=(100, 12)),
    }
    np.savez(folder / "features.npz", y=y, y_test=y_test, **near)
    human = {
        "aggre": np.where(np.arange(800) < 600, y, (y + 1) % 10),
        "worse": (y + 3) % 10,
        "random1": y,
    }
    np.savez(folder / "human.npz", **human)
    return Rows(folder / "features.npz", folder / "human.npz", count=400)


def changed(rows: Rows, **what) -> Rows:
    return Rows(**{**vars(rows), **what})


# ---- settings


@pytest.mark.parametrize("seed", SEEDS)
def test_look_alike_matrix_has_rates_from_5_to_80_percent_to_one_other_class(seed):
    matrix = look_alike_matrix(np.random.default_rng(seed))
    rates = 1 - np.diag(matrix)
    assert np.allclose(matrix.sum(1), 1)
    assert (matrix >= 0).all()
    assert np.allclose(np.sort(rates), np.linspace(0.05, 0.8, 10))
    assert np.allclose(matrix[range(10), LOOK_ALIKE], rates)
    assert all(k != other for k, other in enumerate(LOOK_ALIKE))


def test_rates_by_class_depend_on_the_seed():
    first, second = (look_alike_matrix(np.random.default_rng(seed)) for seed in (0, 1))
    assert not np.allclose(first, second)


@pytest.mark.parametrize(
    ("noise", "share"),
    [("symmetric0", 0), ("symmetric2", 0.02), ("symmetric20", 0.2), ("symmetric50", 0.5)],
)
def test_symmetric_noise_has_its_rate(rows, noise, share):
    data = cut(rows, f"balanced-{noise}", 0)
    assert (data.given != data.true).mean() == share


def test_noise_by_class_goes_to_look_alikes_alone(rows):
    data = cut(rows, "balanced-by_class", 0)
    wrong = data.given != data.true
    assert (data.given[wrong] == np.array(LOOK_ALIKE)[data.true[wrong]]).all()
    rates = np.sort([wrong[data.true == k].mean() for k in range(10)])
    assert np.allclose(rates, np.linspace(0.05, 0.8, 10), atol=0.5 / 40)


def test_human_labels_are_those_of_the_same_rows(rows):
    data = cut(changed(rows, offset=390), "half10-aggre", 0)
    late = data.ids >= 600
    assert late.any()
    assert ((data.given != data.true) == late).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_every_noise_of_a_seed_has_the_same_rows_with_half_of_the_classes_small(rows, seed):
    cuts = [cut(rows, f"half10-{noise}", seed) for noise in NOISES]
    assert sorted(np.bincount(cuts[0].true)) == [4] * 5 + [40] * 5
    for data in cuts:
        assert (data.ids == cuts[0].ids).all()
        assert (data.true == data.ids % 10).all()
        assert (data.small == (np.bincount(data.true) == 4)).all()
        assert np.isin(data.ids, np.arange(400)).all()


def test_the_test_set_is_the_files_own_or_the_rows_named(rows):
    own = cut(rows, "balanced-symmetric0", 0)
    named = cut(changed(rows, test=(600, 650)), "balanced-symmetric0", 0)
    with np.load(rows.features) as content:
        assert np.allclose(own.test_inputs, content["X_test"])
        assert np.allclose(named.test_inputs, content["X"][600:650])
        assert (named.test_labels == content["y"][600:650]).all()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"count": 801}, "800 rows"),
        ({"offset": 700}, "--offset 700"),
        ({"offset": -1}, "--offset -1"),
        ({"count": 0}, "--rows 0"),
        ({"test": (399, 450)}, "overlap"),
        ({"test": (700, 801)}, "700:801"),
        ({"test": (700, 700)}, "700:700"),
        ({"human": None}, "--human"),
    ],
)
def test_rows_that_cannot_be_are_named(rows, change, says):
    with pytest.raises(InputError, match=says):
        cut(changed(rows, **change), "balanced-worse", 0)


def test_human_labels_of_other_data_are_refused(rows, tmp_path):
    np.savez(tmp_path / "short.npz", worse=np.zeros(7, int))
    with pytest.raises(InputError, match="7 labels for 800"):
        cut(changed(rows, human=tmp_path / "short.npz"), "balanced-worse", 0)


# ---- scores


def test_finding_worked_by_hand():
    """Of the six pairs (wrong, correct) four are in order: AUC 4/6.

    In order of suspicion: wrong, correct, correct, wrong, correct, so AP is (1/1 + 2/4) / 2.
    Each score is alone in its bin: the calibration error is (0.1 + 0.6 + 0.5 + 0.45 + 0.05) / 5.
    """
    found = finding(
        np.array([0.1, 0.6, 0.5, 0.55, 0.95]),
        np.array([True, False, True, True, False]),
        np.array([True, True, False, False, False]),
    )
    assert found == {
        "wrong": 2 / 5,
        "expected_wrong": pytest.approx(0.46),
        "calibration_error": pytest.approx(0.34),
        "auc": pytest.approx(4 / 6),
        "average_precision": pytest.approx(3 / 4),
        "precision": pytest.approx(1 / 3),
        "recall": 1 / 2,
        "flagged": 3 / 5,
        "correct_flagged": pytest.approx(2 / 3),
    }


def test_where_nothing_is_wrong_every_flag_is_false_and_nothing_can_be_found():
    found = finding(np.array([0.1, 0.9]), np.array([True, False]), np.zeros(2, bool))
    assert found["flagged"] == found["correct_flagged"] == 0.5
    assert {found[name] for name in ("auc", "average_precision", "precision", "recall")} == {None}


def test_groups_are_by_given_class_and_make_up_the_whole(rows):
    data = cut(rows, "half10-symmetric20", 0)
    flagged = np.random.default_rng(0).random(len(data.given)) < 0.3
    found = score_finding(data, flagged * -0.5 + 1, flagged)
    in_small = data.small[data.given]
    assert found["small"]["flagged"] == pytest.approx(flagged[in_small].mean())
    assert found["flagged"] * len(flagged) == pytest.approx(
        found["small"]["flagged"] * in_small.sum() + found["large"]["flagged"] * (~in_small).sum()
    )


# ---- methods


@pytest.mark.slow
def test_cleanlab_finds_the_wrong_labels_of_clusters(rows, tmp_path):
    measured = methods.cleanlab_lr(cut(rows, "balanced-symmetric20", 0), 0, tmp_path)
    assert measured["finding"]["auc"] > 0.95
    assert measured["finding"]["recall"] > 0.8
    assert measured["model"]["training"]["accuracy"] > 0.95
    assert measured["unpruned"]["training"]["accuracy"] > 0.9
    assert measured["seconds"] > 0


@pytest.mark.slow
def test_cleanlab_flags_what_its_own_function_flags(rows, tmp_path, monkeypatch):
    """`CleanLearning` is `find_label_issues` on probabilities of five folds."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    seen = {}
    monkeypatch.setattr(
        methods, "score_finding", lambda _, score, flags: seen.update(score=score, flags=flags)
    )
    data = cut(rows, "balanced-symmetric20", 0)
    methods.cleanlab_lr(data, 0, tmp_path)
    probability = cross_val_predict(
        LogisticRegression(max_iter=1000), data.inputs, data.given, method="predict_proba",
        cv=StratifiedKFold(5, shuffle=True, random_state=0),
    )  # fmt: skip
    assert np.allclose(seen["score"], get_label_quality_scores(data.given, probability))
    flags = find_label_issues(data.given, probability, n_jobs=1)
    assert flags.any()
    assert (seen["flags"] == flags).all()


def test_a_class_of_which_pruning_left_nothing_has_probability_0():
    class Fitted:
        classes_ = np.array([0, 3])

        def predict_proba(self, inputs):
            return np.full((len(inputs), 2), 0.5)

    probability = methods.probabilities(Fitted(), np.zeros((4, 2)))
    assert probability.shape == (4, 10)
    assert (probability[:, [0, 3]] == 0.5).all()
    assert probability.sum() == 4


@pytest.fixture(scope="module")
def run(rows, tmp_path_factory):
    """A short run on the file that the methods are given."""
    from ulc.api import train
    from ulc.config import DataSpec, RunSpec

    work = tmp_path_factory.mktemp("run")
    data = cut(rows, "half10-symmetric20", 0)
    path = methods.write_data(data, work)
    source = DataSpec(source="npz", path=str(path))
    return data, train(RunSpec(data=source, algorithm="ce", epochs=2), work)


def test_the_file_that_methods_are_given_holds_no_truth(run):
    with np.load(run[1].spec.data.path) as content:
        assert set(content) == {"X", "y", "ids", "class_names"}


def test_labels_csv_is_brought_into_the_order_of_the_data(run):
    data, result = run
    score, flagged = methods.read_labels_table(result.folder, data.ids)
    assert np.allclose(score, result.judgement.clean_probability, atol=1e-6)
    assert len(set(score)) > 10
    assert flagged.any()
    assert (result.judgement.suggested != data.given)[flagged].all()


def test_a_table_of_other_rows_is_refused(run):
    data, result = run
    with pytest.raises(ValueError, match="rows for"):
        methods.read_labels_table(result.folder, data.ids[:-1])


@pytest.mark.slow
def test_the_audit_on_clusters_and_plain_training_with_its_settings(rows, tmp_path):
    from ulc.storage.run_folder import RunFolder
    from ulc.training.run import resolved

    measured = methods.audit(cut(rows, "balanced-symmetric20", 0), 0, tmp_path)
    assert measured["handed_over"] in {"ulc_plus", "ce"}
    assert 0 <= measured["noise_rate"] <= 1
    assert measured["finding"]["wrong"] == 0.2

    (facts,) = (tmp_path / "audit").glob("*/audit.json")
    plain, robust = (
        RunFolder.open(facts.parent / "runs" / json.loads(facts.read_text())[name]["run"]).spec
        for name in ("plain", "ulc_plus")
    )
    data = tmp_path / "data.npz"
    assert resolved(methods.training_spec(data, 0, "ce", stopped=True)) == plain
    assert plain.held_out > 0
    longer = resolved(methods.training_spec(data, 0, "ce", stopped=False))
    assert (longer.epochs, longer.held_out) == (robust.epochs, 0)
    assert longer.epochs == 2 * plain.epochs
    same = {"data", "network", "algorithm", "seed"}
    assert longer.model_dump(include=same) == plain.model_dump(include=same)


def test_a_method_that_is_not_installed_is_named_with_the_remedy(monkeypatch):
    monkeypatch.setitem(methods.NEEDS, "plain", "no_such_module")
    with pytest.raises(InputError, match=r"'plain' needs no_such_module.*--methods"):
        methods.check_installed("plain")


# ---- tables


def measured_cell(setting, seed, method, accuracy, **more):
    model = {prior: {"accuracy": accuracy} for prior in ("training", "balanced")}
    return {
        "setting": setting, "seed": seed, "method": method, "model": model, "seconds": 2.0 + seed,
        **more,
    }  # fmt: skip


def test_the_audit_s_model_beside_other_trainings_worked_by_hand():
    """The best other mean is that of early stopping, (70 + 60) / 2; ULC's better prior has 62."""
    both = [
        measured_cell("balanced-symmetric20", seed, method, accuracy)
        for method, accuracies in {
            "audit": (0.71, 0.64), "plain": (0.60, 0.65), "plain-stopped": (0.70, 0.60),
            "ulc": (0.62, 0.62), "plain-corrected": (0.68, 0.66),
        }.items()
        for seed, accuracy in enumerate(accuracies)
    ]  # fmt: skip
    for each in both:
        if each["method"] == "ulc":
            each["model"]["training"] = {"accuracy": 0.5}
    only_audit = measured_cell("half10-worse", 0, "audit", 0.8)
    (row,) = tables.model_table([*both, only_audit]).rows
    assert row[2:6] == ["67.5 ± 4.9", "62.5 ± 3.5", "65.0 ± 7.1", "62.0 ± 0.0"]
    assert row[6:] == ["+2.5", "-1.0", "+1.0", "+2.0", "67.0 ± 1.4"]


def line(table: str, title: str) -> list[str]:
    (row,) = [each for each in table.splitlines() if title in each]
    return [part.strip() for part in row.strip("|").split("|")]


CELLS = [
    measured_cell("balanced-symmetric0", 0, "plain", 0.80),
    measured_cell("balanced-symmetric0", 1, "plain", 0.70),
    measured_cell("balanced-symmetric0", 2, "plain", 0.10),  # its audit is not there yet
    measured_cell("balanced-symmetric0", 1, "audit", 0.73, handed_over="ulc_plus"),
    measured_cell("balanced-symmetric0", 0, "audit", 0.81, handed_over="ce"),
    measured_cell("half10-worse", 0, "plain", 0.50),
    measured_cell("half10-worse", 0, "audit", 0.49, handed_over="ce"),
    measured_cell(
        "half10-worse", 0, "cleanlab-lr", 0.60, unpruned={"training": {"accuracy": 0.55}}
    ),
]


def test_differences_are_seed_by_seed_and_the_worst_is_marked():
    """Seeds 0 and 1: 81 − 80 and 73 − 70, so 2 ± √2; the other setting: 49 − 50."""
    table = str(tables.accuracy_table(CELLS, "training"))
    even = line(table, "balanced, symmetric 0 %")
    uneven = line(table, "1:10, people, worse")
    assert even[2:6] == ["77.0 ± 5.7", "+2.0 ± 1.4", "+1.0", "ce 1/2, ulc_plus 1/2"]
    assert uneven[1:6] == ["50.0", "49.0", "**-1.0 (worst)**", "-1.0", "ce 1/1"]
    assert uneven[6:] == ["60.0", "+5.0", "–", "–"]


def test_times_are_seconds():
    assert line(str(tables.time_table(CELLS)), "symmetric 0 %")[1] == "2.5 ± 0.7"


def test_findings_are_in_percent_and_groups_are_of_uneven_classes_alone():
    group = dict.fromkeys(tables.MEASURES.values(), 0.25)
    found = {**dict.fromkeys(tables.MEASURES.values(), 0.5), "wrong": 0.2, "auc": None}
    found |= {"small": group, "large": {**group, "auc": 0.75}}
    cells = [
        measured_cell(setting, 0, "audit", 0.5, finding=found)
        for setting in ("balanced-symmetric20", "half10-symmetric20")
    ]
    whole = str(tables.finding_table(cells))
    assert line(whole, "1:10, sym")[1:6] == ["20.0", "ulc audit", "1", "–", "50.0"]
    groups = str(tables.group_table(cells))
    assert "balanced" not in groups
    assert line(groups, "1:10, sym")[2:4] == ["25.0", "75.0"]


def test_nothing_measured_is_said():
    assert tables.format_tables(tables.make_tables([])).count("Nothing measured yet.") == len(
        tables.TITLES
    )


# ---- the command


@pytest.mark.slow
def test_the_command_measures_a_cell_once_and_prints_tables(rows, tmp_path, capfd):
    arguments = [
        str(rows.features), "--rows", "400", "--out", str(tmp_path / "cells"),
        "--settings", "*-symmetric20", "--seeds", "0", "--methods", "cleanlab-lr",
    ]  # fmt: skip
    assert cleanlab_comparison.main(arguments) == 0
    printed, progress = capfd.readouterr()
    assert "2/2 half10-symmetric20-s0-cleanlab-lr" in progress
    assert line(printed.split("###")[1], "1:10, symmetric 20 %")[2] == "cleanlab, LR"
    names = sorted(path.name for path in (tmp_path / "cells").iterdir())
    assert len(names) == 3, names  # two cells and rows.json; nothing else is left

    assert cleanlab_comparison.main([*arguments, "--json"]) == 0
    again, progress = capfd.readouterr()
    assert progress == ""
    assert [each["setting"] for each in json.loads(again)] == [
        "balanced-symmetric20",
        "half10-symmetric20",
    ]

    assert cleanlab_comparison.main([*arguments, "--offset", "10"]) == 2
    assert "other rows" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--settings", "balanced-symmetric3"], "no setting is called 'balanced-symmetric3'"),
        (["--methods", "cleanlab"], "no method is called 'cleanlab'"),
        (["--settings", "*worse", "--methods", "plain"], "--human"),
    ],
)
def test_mistakes_end_in_a_sentence_before_anything_is_written(rows, more, says, capsys):
    assert cleanlab_comparison.main([str(rows.features), "--rows", "400", *more]) == 2
    assert says in capsys.readouterr().err
    assert not Path("comparison").exists()


def test_settings_are_the_product_of_classes_and_noises():
    assert len(set(SETTINGS)) == len(SETTINGS) == 2 * 9


@pytest.mark.slow
def test_the_page_shows_the_chart_first_and_the_tables_are_csv_files(tmp_path):
    pytest.importorskip("matplotlib")
    from benchmarks.comparison.page import write_page

    found = {**dict.fromkeys(tables.MEASURES.values(), 0.5), "wrong": 0.2, "auc": 0.975}
    found |= {"small": found, "large": found}
    cells = [
        *(measured_cell("half10-symmetric20", seed, "plain", 0.5) for seed in (0, 1)),
        measured_cell("half10-symmetric20", 0, "audit", 0.6, finding=found, handed_over="ulc_plus"),
        measured_cell("half10-symmetric20", 1, "audit", 0.7, finding=found, handed_over="ce"),
        *(measured_cell("half10-symmetric20", seed, "plain-stopped", 0.6) for seed in (0, 1)),
        *(measured_cell("half10-symmetric20", seed, "ulc", 0.7) for seed in (0, 1)),
    ]
    write_page(tables.make_tables(cells), tmp_path / "page.md", tmp_path)
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    row = line(text.split("## The model")[0], "1:10, symmetric 20 %")
    assert row[1] == "20.0 / 50.0"
    assert row[2:] == ["97.5 / – / –", "50.0 / – / –", "50.0 / – / –", "65.0 / – / –", "50.0"]
    models = "| 65.0 ± 7.1 | 50.0 ± 0.0 | 60.0 ± 0.0 | 70.0 ± 0.0 | -5.0 |"
    assert f"| 1:10, symmetric 20 % {models}" in text
    assert text.index("page.svg") < text.index("1:10, symmetric 20 %")
    assert text.count("> **Limitations**") == 1
    assert (tmp_path / "page.svg").stat().st_size > 0
    lines = (tmp_path / "comparison_accuracy_training.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("setting,plain,ulc audit,− plain")
    assert lines[1].startswith('"1:10, symmetric 20 %",50.0 ± 0.0,65.0 ± 7.1,+15.0 ± 7.1 (worst)')


def test_a_page_without_cells_is_refused(tmp_path):
    from benchmarks.comparison.page import write_page

    with pytest.raises(InputError, match="--page needs measured cells"):
        write_page(tables.make_tables([]), tmp_path / "page.md", tmp_path)
