"""Figures from run folders: what they show, the same bytes twice, and what is refused."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recorded_runs import recorded_run
from stub_data import embeddings
from ulc.config import DataSpec, ImbalanceSpec, NoiseSpec, RunSpec
from ulc.data.prepare import label
from ulc.errors import InputError
from ulc.experiments.figure_data import accuracy_curves, auc_by_epoch, find_after_warm_up
from ulc.experiments.finished_runs import find_runs
from ulc.experiments.paper.cells import paper_sweep
from ulc.settings.variants import variant
from ulc.training.run import run


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "tiny.npz"
    np.savez(path, **embeddings(200, 10, 10))
    return path


@pytest.fixture(scope="module")
def trained(data):
    """Two epochs of warm-up and one after it, for the columns of figures 1 and 2."""
    for name in ("figure1", "figure2"):
        (cell,) = paper_sweep(name, data, scale="cpu", epochs=8).cells([0])
        run(cell.spec, data.parent / "runs", device="cpu")
    return data.parent / "runs"


def epoch(number, auc, small, large):
    labels = {"auc": auc, "small": {"auc": small}, "large": {"auc": large}}
    return {"epoch": number, "train": {}, "labels": labels}


def record(cell, last=0.8, aucs=(0.6, 0.7)):
    """The finished run of a cell with these accuracies and AUCs."""
    records = [epoch(number, auc, auc - 0.1, auc + 0.1) for number, auc in enumerate(aucs)]
    folder = recorded_run(cell.spec, last, last, records=records)
    summary = folder.read_json("summary.json")
    folder.write_json("summary.json", summary | {"labels": {"auc": aucs[-1]}})


def text_of(path):
    return " ".join(re.findall(r"<text[^>]*>([^<]*)<", Path(path).read_text(encoding="utf-8")))


def test_losses_after_warm_up_are_recorded_beside_the_truth(trained):
    """As in the judgement of a run that ends with the next epoch, which knows the same networks."""
    for each in find_runs([trained])[0]:
        found, judgement = find_after_warm_up([each], "figure1"), each.folder.judgement
        assert each.spec.epochs == each.spec.options["warmup_epochs"] + 1
        assert (found.true == label(each.spec).true).all()
        assert (found.given == judgement.given).all()
        assert (found.loss == judgement.loss).all()
        assert (found.epistemic == judgement.epistemic).all()
        assert (found.clean_probability == judgement.clean_probability).all()


def test_nothing_is_recorded_without_true_labels_or_without_a_warm_up(data):
    spec = RunSpec(data=DataSpec(source="npz", path=str(data)), epochs=2)
    noisy = spec.model_copy(update={"noise": NoiseSpec(kind="symmetric", rate=0.3)})
    for each in (variant(spec, "ulc"), variant(noisy, "ce")):
        assert not run(each, Path("runs"), device="cpu").has("after_warmup.npz")
    assert run(variant(noisy, "dividemix"), Path("runs"), device="cpu").has("after_warmup.npz")


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])
def test_figures_1_and_2_are_drawn_twice_with_the_same_bytes(ulc, trained, number):
    assert ulc("figure", number, trained)[0] == 0
    first = Path(f"figure{number}.svg").read_bytes()
    assert Path(f"figure{number}.png").read_bytes().startswith(b"\x89PNG")
    ulc("figure", number, trained, "--out", "again.svg")
    assert Path("again.svg").read_bytes() == first
    words = text_of("again.svg")
    kind = "symmetric 50 %, 1:10" if number == 1 else "symmetric inclusive 90 %"
    assert f"tiny.npz, {kind}, seed 0" in words
    assert ("small class" in words) == (number == 1)
    assert ("AUC of ω" in words) == (number == 2)


def test_figure_1_shows_the_classes_that_are_named(ulc, trained):
    ulc("figure", 1, trained, "--classes", "7", "--out", "one.svg")
    assert "class 7" in text_of("one.svg")
    code, printed = ulc("figure", 1, trained, "--classes", "cat")
    assert (code, "the run has no such class; it has 0, 1" in printed.err) == (2, True)


def test_names_of_classes_are_no_formulas(ulc, trained):
    for each in find_runs([trained])[0]:
        folder = recorded_run(each.spec)
        names = ["$x$y$", r"\frac{", *map(str, range(8))]
        facts = each.folder.read_json("data.json") | {"class_names": names}
        folder.write_json("data.json", facts)
        folder.write_arrays("after_warmup.npz", each.folder.read_arrays("after_warmup.npz"))
    code, printed = ulc("figure", 1, "runs", "--classes", r"$x$y$,\frac{", "--out", "odd.svg")
    assert code == 0, printed.err
    assert "$x$y$" in text_of("odd.svg")


def test_figure_3_has_the_mean_of_the_seeds_for_the_three_noise_models(ulc, data):
    for place, cell in enumerate(paper_sweep("figure3", data, scale="cpu").cells([0, 1])):
        record(cell, aucs=(0.5, 0.6 + 0.02 * place))
    other = paper_sweep("table2", data, scale="cpu", only=["dividemix", "symmetric:0.5", "half:10"])
    record(other.cells([0])[0])
    found = auc_by_epoch(find_runs([Path("runs")])[0])
    curves = {curve.title: curve.values for curve in found.curves["small"]}
    assert list(curves) == ["CAM", "CSM", "EUCS"]
    assert curves["CAM"] == pytest.approx(np.array([[0.4, 0.5], [0.4, 0.56]]))
    assert [curve.title for curve in found.curves["large"]] == list(curves)
    assert found.warm_up == 6
    ulc("figure", 3, "runs", "--out", "three.svg")
    assert "EUCS (n = 2)" in text_of("three.svg")


def test_figure_3_of_other_methods_shows_them_by_name(data):
    only = ["dividemix", "ce", "symmetric:0.2", "half:5"]
    for cell in paper_sweep("table2", data, scale="cpu", only=only).cells([0]):
        record(cell)
    found = auc_by_epoch(find_runs([Path("runs")])[0])
    assert [curve.title for curve in found.curves["all"]] == ["ce", "dividemix"]


@pytest.mark.slow
def test_figure_4_has_accuracy_against_r_for_each_noise(ulc, data):
    cells = paper_sweep("figure4", data, scale="cpu").cells([0, 1])
    for cell in cells:
        weight, seed = cell.spec.options["doubt_weight"], cell.spec.seed
        record(cell, last=0.5 + weight + 0.1 * seed + (0.2 if cell.spec.noise.rate == 0.2 else 0))
    low, high = accuracy_curves(find_runs([Path("runs")])[0], "training")
    assert low.title == "tiny.npz, symmetric 20 %, 1:10 (n = 2)"
    assert low.x.tolist() == [0, 0.05, 0.1, 0.15, 0.2]
    assert low.values[0] == pytest.approx([70, 75, 80, 85, 90])
    assert high.values[1] == pytest.approx([60, 65, 70, 75, 80])
    ulc("figure", 4, "runs", "--out", "four.svg")
    assert "r, weight of epistemic uncertainty" in text_of("four.svg")


def test_short_runs_of_figure_1_do_not_disturb_tables_and_other_figures(ulc, data):
    for name in ("figure1", "figure3"):
        for cell in paper_sweep(name, data, scale="cpu").cells([0]):
            record(cell)
    assert len(auc_by_epoch(find_runs([Path("runs")])[0]).curves["all"]) == 3
    code, printed = ulc("table", "runs", "--like", "table4")
    assert (code, "24 epochs" in printed.out) == (0, True)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (1, "no run has after_warmup.npz"),
        (2, "no run has after_warmup.npz"),
        (3, "no run knows the true labels"),
        (4, "no runs of ULC with several r; train them with `ulc sweep figure4`"),
    ],
)
def test_runs_that_lack_what_a_figure_needs_are_told(ulc, number, message):
    uneven = ImbalanceSpec(kind="half")
    recorded_run(RunSpec(data=DataSpec(source="fashion"), algorithm="ce", imbalance=uneven))
    code, printed = ulc("figure", number, "runs")
    assert code == 2
    assert message in printed.err
    assert not list(Path().glob("figure*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, "--out", "f.gif"), "let the name end in .svg or .png or .pdf"),
        ((2, "--classes", "1"), "--classes: only for figure 1"),
        ((4, "--prior", "uniform"), "unknown prior 'uniform'"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(ulc, trained, arguments, message):
    number, *others = arguments
    code, printed = ulc("figure", number, trained, *others)
    assert code == 2
    assert message in printed.err


def test_balanced_classes_have_no_small_class_to_draw(trained):
    from ulc.experiments.figures import draw_class_losses

    (balanced,) = [each for each in find_runs([trained])[0] if each.spec.noise.rate == 0.9]
    with pytest.raises(InputError, match="no class is small"):
        draw_class_losses(find_after_warm_up([balanced], "figure1"))


def test_damaged_losses_are_refused(trained):
    each = find_runs([trained])[0][0]
    arrays = each.folder.read_arrays("after_warmup.npz")
    damaged = {
        "given holds other values than classes": {"given": arrays["given"] + 99},
        r"loss has shape \(5,\)": {"loss": arrays["loss"][:5]},
        "loss has type int64": {"loss": arrays["loss"].astype(np.int64)},
    }
    for seed, (reason, change) in enumerate(damaged.items()):
        folder = recorded_run(each.spec.model_copy(update={"seed": seed}))
        folder.write_arrays("after_warmup.npz", arrays | change)
        (found,) = find_runs([folder.path])[0]
        with pytest.raises(InputError, match=rf"after_warmup.npz is damaged.*{reason}"):
            find_after_warm_up([found], "figure1")


def test_without_matplotlib_the_remedy_is_said(ulc, trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, printed = ulc("figure", 1, trained)
    assert (code, "pip install 'ulc[figures]'" in printed.err) == (2, True)


def cells_of(data, *only, seeds=(0,)):
    return paper_sweep("table2", data, scale="cpu", only=only).cells(seeds)


def test_figure_3_of_several_settings_is_refused(data):
    for cell in cells_of(data, "ce", "symmetric:0.2", "symmetric:0.5", "half:5"):
        record(cell)
    message = (
        r"several settings \(tiny.npz, symmetric 20 %, 1:5 and tiny.npz, symmetric 50 %, 1:5\); "
        "give one of them"
    )
    with pytest.raises(InputError, match=message):
        auc_by_epoch(find_runs([Path("runs")])[0])


def test_runs_of_one_curve_that_differ_in_more_than_the_seed_are_refused(data):
    first, second = cells_of(data, "dividemix", "symmetric:0.2", "half:5", seeds=[0, 1])
    record(first)
    record(replace(second, spec=second.spec.model_copy(update={"epochs": 50})))
    with pytest.raises(InputError, match=r"runs of dividemix differ in epochs.*; give the folders"):
        auc_by_epoch(find_runs([Path("runs")])[0])


def test_figure_3_has_no_curve_of_small_classes_where_none_is_small(data):
    (cell,) = cells_of(data, "ce", "symmetric:0.2", "half:5")
    record(cell)
    (run,) = find_runs([Path("runs")])[0]
    run.folder.write_records([epoch(0, 0.6, None, 0.6), epoch(1, 0.7, None, 0.7)])
    found = auc_by_epoch(find_runs([Path("runs")])[0])
    assert {name: len(curves) for name, curves in found.curves.items()} == {
        "all": 1, "small": 0, "large": 1,
    }  # fmt: skip


def test_figure_3_marks_the_end_of_the_warm_up_only_if_it_is_the_same_in_all_runs(data):
    from ulc.experiments.figures import draw_auc

    for cell in cells_of(data, "dividemix", "ce", "symmetric:0.2", "half:5"):
        record(cell)
    found = auc_by_epoch(find_runs([Path("runs")])[0])
    assert found.warm_up is None
    drawn = [draw_auc(each) for each in (found, replace(found, warm_up=1.0))]
    without, marked = ([len(axes.lines) for axes in figure.axes] for figure in drawn)
    assert marked == [count + 1 for count in without]


def test_figure_4_needs_a_seed_that_has_all_values_of_r(data):
    first, *others = paper_sweep("figure4", data, scale="cpu", only=["symmetric:0.2"]).cells([0])
    record(first)
    for cell in others:
        record(replace(cell, spec=cell.spec.model_copy(update={"seed": 1})))
    message = (
        "tiny.npz, symmetric 20 %, 1:10: no seed has all values of r; train them with the same"
    )
    with pytest.raises(InputError, match=message):
        accuracy_curves(find_runs([Path("runs")])[0], "training")


def test_figure_2_needs_epistemic_uncertainty(trained):
    from ulc.experiments.figures import draw_uncertainty

    data = find_after_warm_up(find_runs([trained])[0], "figure2")
    unknown = replace(data, epistemic=np.full_like(data.epistemic, np.nan))
    with pytest.raises(InputError, match="epistemic uncertainty is not estimated; give a run of U"):
        draw_uncertainty(unknown)


def test_a_run_that_is_not_finished_is_none_to_draw(data):
    (cell,) = cells_of(data, "ce", "symmetric:0.2", "half:5")
    record(cell)
    (path,) = Path("runs").iterdir()
    (path / "done").unlink()
    for given in (path, Path("runs")):
        with pytest.raises(InputError, match=re.escape(f"{given}: no finished run; `ulc sweep`")):
            find_runs([given])
