"""Tables of run folders: means over seeds, the paper's numbers, and what is refused."""

import csv
import io
import re
from pathlib import Path

import numpy as np
import pytest

from recorded_runs import recorded_run
from stub_data import embeddings
from ulc.config import DataSpec, ImbalanceSpec, NoiseSpec, RunSpec
from ulc.experiments.finished_runs import FinishedRun, method_of, named_method
from ulc.experiments.paper.cells import paper_sweep
from ulc.experiments.paper.grids import paper_grid
from ulc.experiments.paper_table import paper_table
from ulc.experiments.table_formats import as_markdown
from ulc.settings.variants import VARIANTS, variant

HALF = {"imbalance": ImbalanceSpec(kind="half"), "noise": NoiseSpec(kind="symmetric", rate=0.5)}
COLUMN = "CIFAR-10, Sym. 50 %, 1:10"


@pytest.fixture
def features():
    np.savez("features.npz", **embeddings(20, 10, 4))


def record(method, seed, best, last, **change):
    """A run of the cell of table 2 or 4 at 1:10 with 50 %, with frozen features."""
    data = change.pop("data", DataSpec(source="npz", path=str(Path("features.npz").absolute())))
    classes = change.pop("classes", 10)
    base = RunSpec(data=data, seed=seed, **HALF, **change)
    return recorded_run(variant(base, method), best, last, classes=classes)


def cells(printed):
    return [[part.strip() for part in line.split("|")[1:-1]] for line in printed.splitlines()
            if line.startswith("|")]  # fmt: skip


@pytest.mark.usefixtures("features")
def test_a_table_of_the_paper_has_means_deviations_n_and_the_numbers_of_the_paper(ulc):
    """(60 + 70) / 2 = 65 ± 10 / √2; the highest is bold; one seed has no deviation."""
    record("dividemix", 0, 0.7, 0.6)
    record("dividemix", 1, 0.8, 0.7)
    record("ulc", 0, 0.9, 0.85)
    record("ulc", 1, 0.9, 0.87)
    record("ce", 0, 0.5, 0.4)
    record("ulc_plus", 0, 0.9, 0.95)
    code, printed = ulc("table", "runs", "--like", "table2")
    assert code == 0
    head, _, *rows = cells(printed.out)
    assert head == ["", "", COLUMN]
    by_row = {(rows[place - place % 2][0], row[1]): row[2] for place, row in enumerate(rows)}
    assert by_row["DivideMix", "last"] == "65.0 ± 7.1 (66.8<sup>c</sup>)"
    assert by_row["ULC", "last"] == "86.0 ± 1.4 (92.2)"
    assert by_row["ULC", "best"] == "**90.0 ± 0.0** (92.5)"
    assert by_row["CE", "last"] == "40.0 [n = 1] (67.8<sup>a</sup>)"
    assert by_row["ELR+", "last"] == "– (64.6)"
    assert by_row["ULC+", "last"] == "**95.0 [n = 1]**"
    assert "n = 2 seeds" in printed.out
    assert "Vectors (npz) stand in for the images. features.npz: network mlp, 24 epochs." in (
        printed.out
    )
    assert "- (c) Falls by 19 points" in printed.out
    assert "(d)" not in printed.out  # of another column


@pytest.mark.usefixtures("features")
def test_methods_that_a_table_has_not_are_rows_only_if_they_are_named(ulc):
    """They take the bold only then; the others are told."""
    record("ulc", 0, 0.9, 0.8)
    record("ulc-without-aul", 0, 0.9, 0.7)
    record("dividemix", 0, 0.9, 0.95)
    record("ulc-fixmatch", 0, 0.9, 0.85)
    record("ulc-beta", 0, 0.9, 0.1)
    code, printed = ulc("table", "runs", "--like", "table4")
    assert code == 0
    rows = [row[0] for row in cells(printed.out)[2::2]]
    assert rows == ["ULC", "ULC w/o CSM", "ULC w/o EUM", "ULC w/o AUL"]
    assert cells(printed.out)[3][2].startswith("**80.0**")
    assert "no such rows: dividemix,ulc-beta,ulc-fixmatch; --also" in printed.err
    _, printed = ulc("table", "runs", "--like", "table2", "--also", "ulc-fixmatch,ulc-without-aul")
    rows = [row[0] for row in cells(printed.out)[2::2]]
    assert rows[-3:] == ["ULC", "ULC with FixMatch", "ULC w/o AUL"]
    assert "no such rows: ulc-beta;" in printed.err


def test_a_network_that_was_chosen_by_the_data_is_named(ulc):
    np.savez("features.npz", **embeddings(20, 10, 4))
    record("ulc", 0, 0.9, 0.8)
    recorded_run(RunSpec(data=DataSpec(source="fashion"), algorithm="ce", epochs=2))
    _, printed = ulc("table", "runs")
    assert "fashion: network small_cnn, 2 epochs. features.npz: network mlp, 24" in printed.out


@pytest.mark.usefixtures("features")
def test_the_balanced_prior_is_another_table(ulc):
    record("ulc", 0, 0.9, 0.8)
    _, printed = ulc("table", "runs", "--like", "table4", "--prior", "balanced")
    assert cells(printed.out)[3][2] == "**40.0** (92.2)"
    assert "with the balanced prior" in printed.out


@pytest.mark.usefixtures("features")
def test_csv_has_every_digit_and_latex_every_row(ulc):
    record("ulc", 0, 0.9, 1 / 3)
    record("ulc-without-csm", 0, 0.7, 0.6)
    _, printed = ulc("table", "runs", "--like", "table4", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(printed.out)))
    assert len(rows) == 4 * 2
    (mine,) = [row for row in rows if (row["row"], row["score"]) == ("ULC", "last")]
    assert (float(mine["mean"]), mine["n"], mine["paper"]) == (100 * (1 / 3), "1", "92.2")
    assert (mine["column"], mine["standard_deviation"]) == (COLUMN, "")
    ulc("table", "runs", "--like", "table4", "--format", "latex", "--out", "table.tex")
    text = Path("table.tex").read_text()
    assert r"\multirow{2}{*}{ULC w/o CSM} & best & 70.0 (70.5\textsuperscript{b}) \\" in text
    assert (text.count(r"\midrule"), text.count(r"\addlinespace")) == (1, 3)
    assert all(rf"\{each}" in text for each in ("toprule", "bottomrule", "caption"))
    assert not re.search(r"(?<!\\)%(?! needs)", text)  # a bare % would hide the rest of its line


def test_latex_has_a_part_for_each_data_set_and_joins_equal_heads(ulc):
    for count in (10, 100):
        np.savez(f"{count}.npz", **embeddings(2 * count, count, 4))
    for column in paper_sweep(
        "table2", {"cifar10": "10.npz", "cifar100": "100.npz"}, scale="cpu", only=["ulc"]
    ).cells([0]):
        recorded_run(column.spec, classes=int(Path(column.spec.data.path).stem))
    _, printed = ulc("table", "runs", "--like", "table2", "--format", "latex")
    one, two = printed.out.split(r"\begin{tabular}{llcccc}")[1:]
    for part, name in ((one, "CIFAR-10"), (two, "CIFAR-100")):
        _, _, data, noise, first, second, ratio, *_ = part.splitlines()
        assert data == rf" &  & \multicolumn{{4}}{{c}}{{{name}}} \\"
        assert noise.count(r"\multicolumn{2}{c}{Sym. ") == 2
        assert (first, second) == (r"\cmidrule(lr){3-4}", r"\cmidrule(lr){5-6}")
        assert ratio.count("1:10") == 2


@pytest.mark.usefixtures("features")
def test_asymmetric_noise_of_features_has_its_name_and_another_matrix_has_not(ulc):
    work = paper_sweep("table1", "features.npz", scale="cpu", only=["ulc", "asymmetric:0.4"])
    (cell,) = work.cells([0])
    recorded_run(cell.spec)
    swapped = tuple(tuple(row) for row in np.eye(10)[::-1])
    noise = cell.spec.noise.model_copy(update={"matrix": swapped})
    recorded_run(cell.spec.model_copy(update={"noise": noise}))
    _, printed = ulc("table", "runs")
    assert sorted(cells(printed.out)[0][2:]) == [
        "features.npz, asymmetric 40 %", "features.npz, matrix"
    ]  # fmt: skip


@pytest.mark.usefixtures("features")
def test_any_runs_make_a_table_and_other_settings_are_in_the_name_of_the_row(ulc):
    record("ulc", 0, 0.9, 0.8)
    record("ulc", 1, 0.9, 0.8)
    record("ulc", 0, 0.9, 0.7, epochs=5)
    record("ulc-without-eum", 0, 0.9, 0.6)
    recorded_run(RunSpec(data=DataSpec(source="fashion"), algorithm="ce", epochs=2), 0.5, 0.4)
    _, printed = ulc("table", "runs")
    head, _, *rows = cells(printed.out)
    assert head[2:] == ["fashion", "features.npz, symmetric 50 %, 1:10"]
    names = [row[0] for row in rows if row[0]]
    assert names[0] == "ce"
    assert "ulc-without-eum" in names
    assert sum(name.startswith("ulc (epochs = ") for name in names) == 2
    assert rows[1] == ["", "last", "**40.0**", "–"]


def test_official_data_have_the_numbers_of_the_paper_beside_them(ulc):
    data = DataSpec(source="cifar10", path="/nowhere")
    record("ulc-without-aul", 0, 0.9, 0.8, data=data)
    record("ulc", 0, 0.9, 0.8, data=data)
    _, printed = ulc("table", "runs")
    assert [row[2] for row in cells(printed.out)[2:]] == [
        "**90.0** (92.5)", "**80.0** (92.2)", "**90.0** (91.2)", "**80.0** (90.5)",
    ]  # fmt: skip


def test_table_3_has_one_number_a_row_with_the_deviation_of_the_paper(ulc):
    """Neither the paper nor networks that a validation list has chosen have a best epoch."""
    data = DataSpec(source="clothing1m", path="/nowhere")
    for method in ("ulc", "ce"):
        folder = recorded_run(variant(RunSpec(data=data), method), 0.9, 0.75, classes=14)
        scores = {"last": {"accuracy": 0.75}}
        chosen = {"epochs": [3], "validation_accuracy": [0.7]}
        summary = {"epochs": 80, "last_epochs": 1, "training": scores, "balanced": scores}
        folder.write_json("summary.json", summary | {"chosen": chosen})
        folder.finish()
    _, printed = ulc("table", "runs", "--like", "table3")
    _, _, *rows = cells(printed.out)
    assert [row[1] for row in rows] == ["last"] * 8
    by_title = {row[0]: row[2] for row in rows}
    assert by_title["ULC"] == "**75.0** (74.9 ± 0.2)"
    assert by_title["PENCIL"] == "– (73.5)"
    assert "Last: the networks chosen on the validation list. Bold" in printed.out
    assert "Best" not in printed.out
    assert "the number of the paper ± standard deviation, where it names one." in printed.out
    _, printed = ulc("table", "runs")
    assert [row[2] for row in cells(printed.out)[2:]] == [
        "**75.0** (69.2)",
        "**75.0** (74.9 ± 0.2)",
    ]
    _, printed = ulc("table", "runs", "--like", "table3", "--format", "latex")
    assert r"\multirow{1}{*}{ULC} & last & \textbf{75.0} (74.9 $\pm$ 0.2) \\" in printed.out
    _, printed = ulc("table", "runs", "--like", "table3", "--format", "csv")
    (own,) = [row for row in csv.DictReader(io.StringIO(printed.out)) if row["row"] == "ULC"]
    assert (own["score"], own["paper"], own["paper_standard_deviation"]) == ("last", "74.9", "0.2")


@pytest.mark.usefixtures("features")
def test_a_table_of_a_sweep_without_a_test_set_says_so():
    folder = record("ulc", 0, 0.9, 0.8)
    folder.write_json("summary.json", {"epochs": 24, "last_epochs": 1})
    folder.finish()
    table = as_markdown(paper_table(paper_grid("table2"), [FinishedRun(folder)]))
    assert "The runs have no test set, so there is no test accuracy." in table
    assert "n = " not in table


@pytest.mark.usefixtures("features")
@pytest.mark.parametrize("like", [(), ("--like", "table2")])
def test_runs_without_a_test_set_are_told_in_one_sentence(ulc, like):
    folder = record("ulc", 0, 0.9, 0.8)
    folder.write_json("summary.json", {"epochs": 24, "last_epochs": 1})
    folder.finish()
    code, printed = ulc("table", "runs", *like)
    assert (code, printed.out, printed.err.count("\n")) == (2, "", 1)
    assert "the runs have no test set" in printed.err


@pytest.mark.usefixtures("features")
def test_unfinished_runs_are_left_out_and_said(ulc):
    record("ulc", 0, 0.9, 0.8)
    (record("ulc", 1, 0.9, 0.8).path / "done").unlink()
    code, printed = ulc("table", "runs", "--like", "table2")
    assert (code, printed.err) == (0, "1 unfinished run is left out.\n")
    assert "n = 1 seed, unless" in printed.out


@pytest.mark.usefixtures("features")
def test_runs_of_a_cell_that_differ_in_more_than_the_seed_are_refused(ulc):
    record("ulc", 0, 0.9, 0.8)
    record("ulc", 1, 0.9, 0.8, epochs=5)
    code, printed = ulc("table", "runs", "--like", "table2")
    assert code == 2
    assert f"the runs of ulc, {COLUMN} differ in epochs (24 and 5)" in printed.err


@pytest.mark.usefixtures("features")
def test_the_same_run_twice_is_refused(ulc):
    folder = record("ulc", 0, 0.9, 0.8)
    code, printed = ulc("table", folder.path, folder.path)
    assert code == 2
    assert "have the same settings and seed" in printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "no run folder, and none inside"),
        (("runs", "--like", "table1"), "none of the runs is a cell of table1"),
        (("runs", "--like", "table7"), "no table or figure is called 'table7'"),
        (("runs", "--also", "ulc"), "--also: only with --like"),
        (("runs", "--like", "table2", "--also", "ulk"), "--also ulk: no run in a column of table2"),
        (("runs", "--format", "word"), "give one of markdown, latex, csv"),
        (("runs", "--prior", "uniform"), "unknown prior 'uniform'"),
    ],
)
@pytest.mark.usefixtures("features")
def test_a_mistake_is_told_in_one_sentence(ulc, arguments, message):
    record("ulc", 0, 0.9, 0.8)
    code, printed = ulc("table", *arguments)
    assert code == 2
    assert message in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_is_recognised_by_its_options(name):
    for source in ("npz", "cifar10"):
        spec = variant(RunSpec(data=DataSpec(source=source)), name)
        assert method_of(spec).name == name
        assert method_of(spec) == named_method(name, {})


def test_code_that_a_run_folder_names_is_not_imported(ulc):
    """A stranger's folder may name any module."""
    Path("strange.py").write_text("raise SystemExit('imported')")
    spec = RunSpec(data=DataSpec(source="fashion"), algorithm="ce", epochs=2)
    folder = recorded_run(spec)
    strange = spec.model_copy(update={"algorithm": "strange:Own", "seed": 1})
    folder.write("spec.toml", strange.write().encode())
    code, printed = ulc("table", "runs")
    assert code == 0
    assert cells(printed.out)[2][0] == "strange:Own"


@pytest.mark.usefixtures("features")
def test_the_caption_in_latex_names_a_table_of_the_paper_but_leaves_the_number_to_latex(ulc):
    record("ulc", 0, 0.9, 0.8)
    _, printed = ulc("table", "runs", "--format", "latex", "--like", "table2")
    assert r"\caption{As Table 2 of the ULC paper: " in printed.out
    _, printed = ulc("table", "runs", "--format", "latex")
    assert r"\caption{Test accuracy in \%." in printed.out
