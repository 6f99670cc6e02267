"""What the page says about labels, worked by hand; what it draws; what it warns of."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_runs import audit_content, toy_judgement, toy_posterior, toy_records, write_run

from ulc.config import DataSpec, RunSpec
from ulc.data.sources.warnings import COPIES
from ulc.labels.confusion import with_temperature
from ulc.labels.health import frequent_pairs, health
from ulc.labels.judgement import Judgement
from ulc.report import findings as module
from ulc.report.examples import Examples
from ulc.report.figures import loss_against_uncertainty, loss_histogram, score_histogram
from ulc.report.findings import Findings
from ulc.report.gain import gain, judging_run, plain_run
from ulc.report.losses import class_losses
from ulc.report.overview import class_rows, heat_map
from ulc.report.page import make_report
from ulc.report.scores import class_scores, confusions
from ulc.report.suspects import LARGE, bayes_factors, list_suspects
from ulc.report.svg import element, ticks
from ulc.report.training_record import learning_curves, warnings


def found(judgement, small=None):
    classes = judgement.prediction.shape[1]
    none = np.zeros(classes, bool)
    return Findings.from_judgement(
        judgement, tuple(f"c{k}" for k in range(classes)), none if small is None else small, 0.5
    )


BY_HAND = Judgement(
    given=np.array([0, 0, 1, 1]),
    clean_probability=np.array([1.0, 0.0, 0.75, 0.25]),
    prediction=np.array([[1.0, 0.0], [0.25, 0.75], [0.5, 0.5], [1.0, 0.0]]),
    epistemic=np.array([0.1, 0.2, 0.3, 0.4]),
    aleatoric=np.full(4, np.nan),
)


def test_the_three_counts_and_the_noise_matrix_by_hand():
    """Corrected: [1, 0], [.25, .75], [.125, .875], [.75, .25]; the second and fourth are issues."""
    ours = found(BY_HAND)
    assert ours.issue.tolist() == [False, True, False, True]
    assert ours.suspects.tolist() == [1, 3]
    assert np.allclose(ours.moved, [[1.25, 0.875], [0.75, 1.125]])
    assert np.allclose(ours.noise_matrix, ours.moved / [[2.125], [1.875]])
    share = ours.wrong_share
    assert (share.flagged, share.expected) == (0.5, 0.5)
    assert share.moved == pytest.approx((0.875 + 0.75) / 4)
    assert (share.low, share.high) == (share.moved, 0.5)
    rows = {row.number: row for row in class_rows(ours).rows}
    assert (rows[0].given, rows[0].wrong, rows[0].missing) == (2, 1, 1)
    assert rows[0].belongs == pytest.approx(2.125)
    assert [(p.given, p.suggested, p.count) for p in frequent_pairs(ours.pairs, 10)] == [
        (0, 1, 1),
        (1, 0, 1),
    ]


@given(st.integers(2, 6), st.integers(8, 60), st.integers(0, 99))
def test_laws_of_the_counts(classes, rows, seed):
    ours = found(toy_judgement(rows, classes, seed=seed))
    assert ours.moved.sum() == pytest.approx(rows, rel=1e-5)
    assert np.allclose(ours.moved.sum(0), ours.sizes, rtol=1e-5)  # a label is moved, never lost
    total = ours.noise_matrix.sum(1)
    assert np.allclose(total[ours.moved.sum(1) > 0], 1)
    assert 0 <= ours.wrong_share.low <= ours.wrong_share.high <= 1
    table = class_rows(ours)
    assert sum(row.wrong for row in table.rows) == len(ours.suspects)
    assert sum(row.missing for row in table.rows) == len(ours.suspects)
    sizes = [row.given for row in table.rows]
    assert sizes == sorted(sizes)
    assert (np.diff(ours.score[ours.suspects]) >= 0).all()


def test_blocks_change_nothing(monkeypatch):
    judgement = toy_judgement(100, 4)
    whole = found(judgement)
    monkeypatch.setattr(module, "BLOCK", 7)
    parts = found(judgement)
    for name in ("suggested", "issue", "loss", "moved", "predicted"):
        assert np.allclose(getattr(whole, name), getattr(parts, name))


def test_the_heat_map_keeps_the_busiest_classes():
    ours = found(toy_judgement(4000, 40, wrong=0.2))
    heat = heat_map(ours)
    assert len(heat.rows) == len(heat.names) == 30
    assert heat.left_out == 10
    for row in heat.rows:
        assert [cell.right for cell in row.cells].count(True) == 1
        assert all(0 <= cell.shade <= 8 for cell in row.cells)


def test_histograms_count_every_label_and_curves_lie_on_them():
    rng = np.random.default_rng(0)
    rows = 4000
    given_class = np.zeros(rows, np.int64)
    right = rng.random(rows) < 0.7
    loss = np.where(right, rng.normal(1, 0.2, rows), rng.normal(5, 0.8, rows)).clip(0.01)
    prediction = np.stack([np.exp(-loss), 1 - np.exp(-loss)], 1)
    given_class[:5] = 1  # too few for a mixture of their own
    judgement = Judgement(
        given_class, right * 0.9 + 0.05, prediction, np.full(rows, 0.1), np.full(rows, 0.1)
    )
    large, small = class_losses(found(judgement), [0, 1])
    assert large.own
    assert not small.own
    for each in (large, small):
        assert each.right.sum() + each.wrong.sum() == pytest.approx(1)
    width = large.edges[1]
    assert (large.low + large.high).sum() * (large.grid[1] / width) == pytest.approx(1, abs=0.02)
    assert large.grid[large.low.argmax()] == pytest.approx(1, abs=0.15)
    assert large.grid[large.high.argmax()] == pytest.approx(5, abs=0.3)
    svg = loss_histogram(large, "<i>")
    assert 'role="img"' in svg
    assert "&lt;i&gt;" in svg
    assert "<i>" not in svg


def test_the_factors_of_a_posterior_are_those_of_bayes_rule():
    """For the given and the suggested class: q · P(given | class), over the sum of all classes."""
    confusion, judgement = toy_posterior(toy_judgement(300, 4))
    names = tuple(f"c{k}" for k in range(4))
    ours = Findings.from_judgement(judgement, names, np.zeros(4, bool), 0.5, confusion)
    assert ours.score_kind == "posterior"
    tempered = with_temperature(judgement.prediction, confusion.temperature)
    transition = np.array(confusion.transition)
    assert len(ours.suspects) > 20
    for row in ours.suspects:
        total = (tempered[row] * transition[:, ours.given[row]]).sum()
        for model, share, posterior in bayes_factors(ours, row):
            assert model * share / total == pytest.approx(posterior, abs=1e-4)
        factors = bayes_factors(ours, row)
        assert factors[0][2] == pytest.approx(ours.score[row], abs=1e-6)
        assert factors[1][2] > factors[0][2]


def test_scores_that_are_no_posterior_have_no_factors():
    ours = found(toy_judgement(60, 3))
    assert ours.evidence is None
    assert bayes_factors(ours, 0) is None


def test_histograms_of_scores_count_every_label_and_split_at_the_threshold():
    confusion, judgement = toy_posterior(toy_judgement(900, 3))
    names = ("<i>", "b", "c")
    ours = Findings.from_judgement(judgement, names, np.zeros(3, bool), 0.5, confusion)
    for each in class_scores(ours, [2, 0]):
        members = ours.given == each.number
        assert each.right.sum() + each.wrong.sum() == pytest.approx(1)
        assert each.wrong.sum() == pytest.approx(ours.issue[members].mean())
        assert each.wrong[each.edges[:-1] >= 0.5].sum() == 0
        assert each.number not in dict(each.confusions)
        assert each.confusions == sorted(each.confusions, key=lambda pair: -pair[1])
    svg = score_histogram(each, "<i>", 0.5)
    assert "threshold-line" in svg
    assert "&lt;i&gt;" in svg
    assert "<i>" not in svg


def test_every_label_is_in_a_dot_of_the_uncertainty_plot():
    judgement = toy_judgement(500, 3)
    plot = loss_against_uncertainty(found(judgement))
    assert 20 < plot.count("<circle") <= 500
    assert "shade0" in plot
    assert "shade4" in plot
    assert loss_against_uncertainty(found(toy_judgement(50, 3, measured=False))) is None


def test_elements_escape_what_they_hold():
    made = element("text", "<&>", class_='"a"', text_anchor="end", x=1.25)
    assert made == '<text class="&#34;a&#34;" text-anchor="end" x="1.2">&lt;&amp;&gt;</text>'
    assert element("g", element("rect", x=2.0)) == '<g><rect x="2"></rect></g>'


@given(st.floats(-100, 100), st.floats(1e-3, 1e4))
def test_ticks_are_inside_and_evenly_apart(low, span):
    marks = ticks(low, low + span)
    assert 2 <= len(marks) <= 12
    assert min(marks) >= low - 1e-6 * span - 1e-9
    assert max(marks) <= low + span + 1e-6 * span + 1e-9
    assert np.ptp(np.diff(marks)) < 1e-6 * span + 1e-9


def test_curves_are_drawn_for_what_was_recorded():
    assert [each.title for each in learning_curves(toy_records())] == [
        "Training loss",
        "Trust in labels",
        "Accuracy on the test set",
    ]
    only = learning_curves([{"epoch": 0, "train": {"loss": -0.5}}])
    assert [each.title for each in only] == ["Training loss"]
    assert "<circle" in only[0].plot  # one epoch is a dot
    assert learning_curves([]) == []


def test_warnings_of_what_the_run_recorded(tmp_path):
    judgement = toy_judgement(300, 3)
    records = toy_records()
    ours = found(judgement)
    calm = write_run(tmp_path / "calm", judgement, "abc")
    assert warnings(calm, ours, records) == []
    records[-1]["train"] |= {"fallback_classes": 1.5, "losses_not_finite": 2.0}
    records[-1]["test"]["balanced"]["accuracy"] = 0.3
    folder = write_run(
        tmp_path / "run", judgement, "abc", records=records,
        facts={"skipped": ["a.png"], "warnings": ["30 rows are few", f"30 rows are {COPIES}"]},
    )  # fmt: skip
    folder.write_json("audit.json", audit_content(ulc_plus={"warnings": ["epoch 3: it fell"]}))
    content = health(judgement, "abc", 0.5)
    copies = {"groups": 9, "rows": 30, "conflicts": 4}
    folder.write_json("health.json", content | {"duplicates": copies})
    said = "\n".join(warnings(folder, ours, records))
    for part in (
        "ULC+, epoch 3: it fell.",
        "4 groups of identical examples have different labels",
        "1 images could not be read",
        "30 rows are few.",
        "1.5 classes",
        "2 losses were not finite",
        "fell from 70.0 to 30.0 %",
    ):
        assert part in said
    assert COPIES not in said  # the groups of health.json say it
    folder.write_json("health.json", content | {"duplicates": copies | {"conflicts": 1}})
    said = "\n".join(warnings(folder, ours, records))
    assert "1 group of identical examples has different labels" in said


def test_an_audit_shows_the_training_that_judged(tmp_path):
    judgement = toy_judgement(60, 3)
    outer = write_run(tmp_path / "audit", judgement, "abc", spec=RunSpec(algorithm="ce", epochs=4))
    inner = RunSpec(epochs=4)
    assert judging_run(outer).path == outer.path
    outer.write_json("audit.json", audit_content(ulc_plus={"run": "inner"}))
    assert judging_run(outer).path == outer.path  # its runs were removed
    write_run(outer.path / "runs" / "inner", judgement, "abc", spec=inner)
    assert judging_run(outer).spec.algorithm == "ulc"
    assert "Audit, labels judged by ULC+" in make_report(outer).html


def test_signs_that_held_out_rows_gave_are_told(tmp_path):
    judgement = toy_judgement(300, 3)
    records = toy_records()
    records[2]["held_out"] = {"agreement": 0.4, "signs": ["class 'a' is hardly predicted"]}
    folder = write_run(tmp_path / "run", judgement, "abc", records=records)
    said = warnings(folder, found(judgement), records)
    assert said == ["Epoch 2: class 'a' is hardly predicted."]
    titles = {each.title: each for each in learning_curves(records)}
    names = [line.name for line in titles["Trust in labels"].lines]
    assert names == ["labels trusted", "held-out labels predicted"]


def test_a_class_that_collapsed_is_named(tmp_path):
    judgement = toy_judgement(300, 3)
    prediction = judgement.prediction.copy()
    prediction[:, 2] = 0
    prediction /= prediction.sum(1, keepdims=True)
    lost = Judgement(**{**judgement.arrays(), "prediction": prediction})
    folder = write_run(tmp_path / "run", lost, ("c0", "c1", "c2"))
    said = warnings(folder, found(lost), [])
    assert len(said) == 1
    assert "hardly ever predicts “c2” (0 of 300 examples" in said[0]


def accuracy(value):
    return {"last_epochs": 1, "balanced": {"last": {"accuracy": value}}}


def test_the_gain_is_that_over_the_plain_run_beside(tmp_path):
    judgement = toy_judgement(60, 3)
    specs = {
        "ulc": RunSpec(epochs=4),
        "ce": RunSpec(epochs=4, algorithm="ce"),
        "longer": RunSpec(epochs=5, algorithm="ce"),
    }
    folders = {
        name: write_run(tmp_path / spec.folder_name, judgement, "abc", spec=spec)
        for name, spec in specs.items()
        if name != "ce"
    }
    folders["longer"].write_json(
        "summary.json", {"last_epochs": 1, "balanced": {"last": {"accuracy": 0.1}}}
    )
    folders["ulc"].write_json(
        "summary.json", {"last_epochs": 1, "balanced": {"last": {"accuracy": 0.8}}}
    )
    assert gain(folders["ulc"]) is None  # the other run is not comparable
    plain = write_run(tmp_path / specs["ce"].folder_name, judgement, "abc", spec=specs["ce"])
    plain.write_json("summary.json", accuracy(0.7))
    assert (gain(folders["ulc"]).plain, gain(folders["ulc"]).ours) == (0.7, 0.8)
    assert gain(plain) is None
    folders["ulc"].write_json("audit.json", audit_content(ulc_plus={"held_out_agreement": 0.6}))
    assert (gain(folders["ulc"]).plain, gain(folders["ulc"]).ours) == (0.5, 0.6)


@pytest.mark.parametrize("own", [True, False])
def test_the_gain_is_in_the_summary_only_on_a_test_set_of_ones_own(tmp_path, own):
    """A benchmark's accuracy tells the owner of the data nothing, so it is beside the curves."""
    np.savez(tmp_path / "x.npz", X=np.zeros((60, 2)), y=np.zeros(60, int))
    data = DataSpec(source="npz", path=str(tmp_path / "x.npz")) if own else DataSpec()
    for algorithm, accuracy in (("ce", 0.7), ("ulc", 0.8)):
        spec = RunSpec(data=data, epochs=4, algorithm=algorithm)
        folder = write_run(tmp_path / spec.folder_name, toy_judgement(60, 3), "abc", spec=spec)
        content = {"last_epochs": 1, "balanced": {"last": {"accuracy": accuracy}}}
        folder.write_json("summary.json", content)
    html = make_report(folder).html
    summary, training = (
        re.search(rf'<section id="{name}".*?</section>', html, re.DOTALL)[0]
        for name in ("summary", "training")
    )
    assert ("+10.0 points" in summary) == own
    assert "Gain over plain training: +10.0 points (70.0 → 80.0 %, test accuracy)" in training


def test_a_range_without_width_has_one_tick():
    assert ticks(3.0, 3.0) == [3.0]
    assert ticks(3.0, float("nan")) == [3.0]


def test_classes_whose_losses_form_one_group_are_told(tmp_path):
    judgement, records = toy_judgement(300, 3), toy_records()
    records[-1]["train"]["one_component_classes"] = 2.0
    folder = write_run(tmp_path / "run", judgement, "abc", records=records)
    assert warnings(folder, found(judgement), records) == [
        "In 2 classes the losses form one group, so training trusted all their labels."
    ]


def test_scores_that_tell_nothing_and_too_many_suspects_are_told(tmp_path):
    judgement = toy_judgement(300, 3)
    folder = write_run(tmp_path / "run", judgement, "abc")
    equal = replace(judgement, clean_probability=np.full(300, 0.7, np.float32))
    assert warnings(folder, found(equal), []) == [
        "Every label has the same score: this run cannot tell wrong labels from right ones."
    ]
    many = found(toy_judgement(300, 3, wrong=0.8))
    assert warnings(folder, many, []) == [
        f"{100 * many.issue.mean():.0f} % of all labels look wrong. More likely, the model has not "
        "learned the classes."
    ]
    assert warnings(folder, found(toy_judgement(300, 3, wrong=0.5)), []) == []


def test_without_a_confusion_model_no_confusions_are_told():
    judgement = toy_judgement(300, 3)
    assert confusions(found(judgement), 0, most=3) == []


def test_there_is_no_gain_where_one_run_has_no_test_set(tmp_path):
    for algorithm in ("ce", "ulc"):
        spec = RunSpec(epochs=4, algorithm=algorithm)
        folder = write_run(tmp_path / spec.folder_name, toy_judgement(60, 3), "abc", spec=spec)
    folder.write_json("summary.json", accuracy(0.8))
    assert plain_run(folder) is not None
    assert gain(folder) is None


def test_few_labels_have_large_pictures_unless_only_small_ones_fit():
    """A picture takes as many bytes as it has pixels along its edge, times ten."""
    ours = found(toy_judgement(60, 3))
    examples, rows = Examples(read=lambda _, edge: "x" * 10 * edge), ours.suspects[:5]

    def edges(room):
        listed = list_suspects(ours, rows, None, examples, room=room)
        return [len(json.loads(each)["picture"]) // 10 for each in listed.records]

    assert edges(100 * LARGE) == [LARGE] * 5
    assert edges(10 * LARGE * 5) == [examples.edge] * 5  # the text beside them needs room, too
    assert 0 < len(edges(30 * examples.edge)) < 5
