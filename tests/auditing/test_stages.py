"""The stages of an audit, each alone."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from test_audit import QUICK, blobs

import ulc
from ulc.algorithms import configure
from ulc.auditing import AuditProgress, audit_spec, choices
from ulc.auditing import data as data_stage
from ulc.auditing.data import prepare_data, read_source
from ulc.auditing.handing_over import (
    Comparison,
    compare_models,
    hand_over_plain,
    hand_over_ulc,
    mean_over_classes,
    variance_of_class_mean,
)
from ulc.auditing.judging import geometric_mean, has_memorised, judge_audit_labels
from ulc.auditing.out_of_fold import (
    FOLDS,
    MOST_PROBABILITIES,
    assign_folds,
    cross_validate,
    find_classes_of_one_fold,
    fit_confusion,
    keep_copies_together,
    predict_out_of_fold,
)
from ulc.auditing.results import AuditResults, describe_agreement, write_audit
from ulc.auditing.trainings import HeldOutRun, train_and_measure
from ulc.auditing.workspace import Workspace
from ulc.config import RunSpec
from ulc.errors import InputError
from ulc.labels.confusion import ConfusionModel
from ulc.labels.duplicates import find_copies
from ulc.labels.judgement import Judgement
from ulc.storage.run_folder import RunFolder, create_folder
from ulc.training import run as run_module
from ulc.training.loop import TrainingProgress

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    """The values of all stages on 90 rows, of which two are copies and two are verified."""
    root = tmp_path_factory.mktemp("staged")
    vectors, given, true = blobs(rows=90)
    vectors[7] = vectors[3]
    verified = np.arange(90) < 2
    np.savez(root / "data.npz", X=vectors, y=given, y_true=true, verified=verified)
    spec = audit_spec(root / "data.npz", **QUICK)
    source = read_source(spec, root, CPU, AuditProgress())
    workspace = Workspace(create_folder(root / "audit"), CPU, AuditProgress())
    data = prepare_data(spec, source, workspace)
    plain = train_and_measure(workspace, "plain training", data.plain_spec, data.prepared)
    out_of_fold = predict_out_of_fold(workspace, plain, data.prepared)
    ulc_spec, _ = choices.choose_doubtful_weight(data.ulc_spec, spec, out_of_fold.plain_noise_rate)
    ulc = train_and_measure(workspace, "ULC", ulc_spec, data.prepared)
    return SimpleNamespace(
        spec=spec, source=source, workspace=workspace, data=data, plain=plain,
        out_of_fold=out_of_fold, ulc=ulc, given=given, true=true,
    )  # fmt: skip


def test_reading_writes_nothing_and_checks_the_settings(tmp_path):
    vectors, given, _ = blobs(rows=30)
    np.savez(tmp_path / "data.npz", X=vectors, y=given)
    read = read_source(audit_spec(tmp_path / "data.npz"), tmp_path, CPU, AuditProgress())
    assert read.source.labels.tolist() == given.tolist()
    assert read.embedder is None
    assert (read.choice.name, read.choice.value) == ("pretrained features", "none")
    for settings in ({"options": {"no_such": 1}}, {"network": "no_such"}):
        with pytest.raises(InputError, match="no_such"):
            read_source(
                audit_spec(tmp_path / "data.npz", **settings), tmp_path, CPU, AuditProgress()
            )
    assert [path.name for path in tmp_path.iterdir()] == ["data.npz"]


def test_both_trainings_have_the_same_data_network_epochs_and_held_out_rows(staged):
    plain, ulc = staged.data.plain_spec, staged.data.ulc_spec
    assert (plain.algorithm, ulc.algorithm) == ("ce", "ulc")
    for name in ("data", "network", "epochs", "seed", "held_out"):
        assert getattr(plain, name) == getattr(ulc, name)
    assert plain.epochs == QUICK["epochs"]
    assert len(staged.data.prepared.held_out.positions) == 18
    assert [choice.name for choice in staged.data.choices] == [
        "pretrained features", "rows held out", "network", "epochs",
    ]  # fmt: skip


def test_a_run_is_measured_on_the_rows_that_it_held_out(staged):
    held_out = staged.data.prepared.held_out
    assert staged.plain.given.tolist() == staged.given[held_out.positions].tolist()
    assert staged.plain.probability.shape == (18, 3)
    assert staged.plain.probability.sum(1) == pytest.approx(1, abs=1e-5)
    assert staged.plain.summary["held_out_agreement"] == staged.plain.hits.mean()
    all_rows = staged.data.prepared.with_all_rows()
    with pytest.raises(InputError, match="held-out rows"):
        train_and_measure(staged.workspace, "plain training", staged.data.plain_spec, all_rows)


def test_out_of_fold_predictions_are_stored_and_read_again(staged, monkeypatch):
    found = staged.out_of_fold
    assert found.probability.shape == (90, 3)
    assert found.confusion == ConfusionModel.fit(found.probability, staged.given)
    assert found.plain_noise_rate == found.confusion.noise_rate(found.probability, staged.given)

    def forbidden(*_):
        raise AssertionError("trained again")

    monkeypatch.setattr("ulc.auditing.out_of_fold.cross_validate", forbidden)
    again = predict_out_of_fold(staged.workspace, staged.plain, staged.data.prepared)
    np.testing.assert_array_equal(again.probability, found.probability)
    assert again.confusion == found.confusion


@pytest.mark.parametrize("digest", [{}, {"data": np.array("0" * 64)}])
def test_stored_predictions_of_other_data_are_refused(staged, tmp_path, digest):
    folder = create_folder(tmp_path / "audit")
    folder.write_arrays("out_of_fold.npz", {"probability": np.zeros((90, 3))} | digest)
    with pytest.raises(InputError, match=r"data have changed.*audit anew with --fresh"):
        predict_out_of_fold(
            replace(staged.workspace, folder=folder), staged.plain, staged.data.prepared
        )


def test_a_damaged_file_of_predictions_is_named_with_its_remedy(staged, tmp_path):
    folder = create_folder(tmp_path / "audit")
    folder.write("out_of_fold.npz", b"no npz")
    with pytest.raises(InputError, match=r"out_of_fold.npz is damaged .*with --fresh"):
        predict_out_of_fold(
            replace(staged.workspace, folder=folder), staged.plain, staged.data.prepared
        )


def test_a_fold_may_be_empty():
    """Four different rows, each twice, fill at most four of the five folds."""
    np.savez("data.npz", X=np.tile(np.eye(4), (2, 1)), y=[0, 1] * 4)
    spec = RunSpec.model_validate(
        {"data": {"source": "npz", "path": "data.npz"}, "algorithm": "ce", "epochs": 1}
    )
    prepared = data_stage.prepare(spec, CPU)
    probability = cross_validate(spec, prepared, CPU, TrainingProgress())
    assert probability.sum(1) == pytest.approx(1, abs=1e-5)


def test_no_row_is_predicted_by_a_model_that_learned_from_it_or_its_copy(staged, monkeypatch):
    from ulc.auditing import out_of_fold as module

    learned, build = [], module.build_algorithm

    def recording(spec, prepared, device):
        learned.append(set(prepared.learned.tolist()))
        return build(spec, prepared, device)

    monkeypatch.setattr(module, "build_algorithm", recording)
    spec = staged.data.plain_spec.model_copy(update={"epochs": 1, "held_out": 0.0})
    cross_validate(spec, staged.data.prepared, CPU, TrainingProgress())
    assert len(learned) == FOLDS
    assert all(sum(row not in rows for rows in learned) == 1 for row in range(90))
    assert all((3 in rows) == (7 in rows) for rows in learned)


def test_a_confusion_model_of_many_rows_is_fitted_to_a_sample(monkeypatch):
    sizes = []
    monkeypatch.setattr(ConfusionModel, "fit", lambda probability, given: sizes.append(len(given)))
    classes = 100
    for rows in (3_000, 7_000):
        fit_confusion(np.full((rows, classes), 1 / classes), np.arange(rows) % classes)
    assert sizes == [3_000, MOST_PROBABILITIES // classes]


def test_labels_are_judged_by_the_posterior_beside_the_geometric_mean(staged):
    judged = judge_audit_labels(staged.out_of_fold, staged.ulc, staged.data.prepared)
    mean = geometric_mean(staged.out_of_fold.probability, staged.ulc.folder.judgement.prediction)
    assert judged.judged_by == "plain training and ULC"
    judgement = judged.labels.judgement
    np.testing.assert_array_equal(judgement.prediction, mean)
    np.testing.assert_array_equal(
        judgement.posterior, ConfusionModel.fit(mean, staged.given).posterior(mean, staged.given)
    )
    assert judgement.score_kind == "posterior"
    np.testing.assert_array_equal(judgement.epistemic, staged.ulc.folder.judgement.epistemic)
    believed = judged.labels.judgement_with_verified.clean_probability
    assert (believed[:2] == 1).all()
    assert judged.noise_rate == pytest.approx(1 - believed.mean())


def test_where_ulc_has_memorised_its_labels_plain_predictions_decide_alone(staged):
    """ULC predicts every learned label, and no held-out one. No noise is fitted a second time."""
    given = staged.given
    everything = np.eye(3, dtype=np.float32)[given]
    unknown = np.full(90, np.nan, np.float32)
    folder = SimpleNamespace(judgement=Judgement(given, unknown, everything, unknown, unknown))
    ulc = HeldOutRun(folder, np.eye(3)[(staged.ulc.given + 1) % 3], staged.ulc.given)
    judged = judge_audit_labels(staged.out_of_fold, ulc, staged.data.prepared)
    assert judged.judged_by == "plain training"
    assert judged.confusion is staged.out_of_fold.confusion
    assert judged.labels.judgement.prediction is staged.out_of_fold.probability


def test_ulc_is_handed_over_as_it_was_trained(staged):
    handed_over = hand_over_ulc(staged.ulc, Comparison(True, "it is better"))
    assert handed_over.reason == "ULC's model, as it is better"
    assert handed_over.run is staged.ulc.folder
    assert handed_over.confusion == ConfusionModel.fit(staged.ulc.probability, staged.ulc.given)


def test_a_plain_model_is_handed_over_after_training_on_all_rows(staged):
    trained = []

    class Stub:
        def train(self, title, spec, prepared):
            trained.append((spec, prepared))
            return "the run"

    comparison, confusion = Comparison(False, "ULC is worse"), staged.out_of_fold.confusion
    handed_over = hand_over_plain(Stub(), staged.plain, comparison, confusion, staged.data.prepared)
    ((spec, prepared),) = trained
    assert (spec.algorithm, spec.held_out, spec.epochs) == ("ce", 0.0, QUICK["epochs"])
    assert len(prepared.learned) == 90
    assert prepared.held_out is None
    assert handed_over.run == "the run"
    assert handed_over.confusion is confusion
    assert handed_over.reason == "the plain model, trained again on all rows, as ULC is worse"


def test_results_are_written_from_the_values_of_the_stages(staged, tmp_path):
    judged = judge_audit_labels(staged.out_of_fold, staged.ulc, staged.data.prepared)
    handed_over = hand_over_ulc(staged.ulc, Comparison(True, "it is better"))
    results = AuditResults(
        staged.spec, staged.data, staged.data.choices, staged.plain, staged.ulc, judged, handed_over
    )
    folder = RunFolder(tmp_path)
    write_audit(folder, results)
    content = folder.read_json("audit.json")
    assert content["handed_over"] == "ulc"
    assert content["noise_rate"] == judged.noise_rate
    assert content["why"].startswith("ULC's model, as it is better; of 18 held-out labels ULC")
    assert folder.read("model.safetensors") == staged.ulc.folder.read("model.safetensors")
    assert folder.read_json("confusion.json")["temperature"] == judged.confusion.temperature
    assert folder.read_json("noise.json")["temperature"] == handed_over.confusion.temperature
    assert folder.read_json("health.json")["score_kind"] == "posterior"
    assert folder.read_json("summary.json")["labels"]["auc"] is not None  # true labels are known


def test_data_are_prepared_once_and_each_prediction_gets_one_confusion_model(tmp_path, monkeypatch):
    vectors, given, _ = blobs(rows=60)
    np.savez(tmp_path / "data.npz", X=vectors, y=given)
    prepared, fitted = [], []
    for module in (data_stage, run_module):
        counted = module.prepare

        def prepare(*arguments, counted=counted, **settings):
            prepared.append(arguments)
            return counted(*arguments, **settings)

        monkeypatch.setattr(module, "prepare", prepare)
    fit = ConfusionModel.fit

    def recording(probability, labels):
        fitted.append(probability.tobytes())
        return fit(probability, labels)

    monkeypatch.setattr(ConfusionModel, "fit", recording)
    ulc.audit(tmp_path / "data.npz", tmp_path / "audits", **QUICK)
    assert len(prepared) == 1
    assert len(fitted) == len(set(fitted)) <= 3


def trained(hits, given):
    """A run that predicts the given label of these held-out rows, another of the rest."""
    given = np.asarray(given)
    probability = np.eye(3)[np.where(hits, given, (given + 1) % 3)]
    return HeldOutRun(None, probability, given)


def test_ulc_is_handed_over_only_where_it_wins_by_more_than_chance():
    given = np.arange(300) % 3
    rows = np.arange(300)
    plain = trained(rows < 200, given)
    assert plain.agreement == pytest.approx(200 / 300)
    ahead, level = trained(rows < 230, given), trained((rows > 4) & (rows < 206), given)
    better = Comparison(True, "it is significantly better on held-out rows")
    not_better = Comparison(False, "ULC is not significantly better")
    as_good = Comparison(True, "it is at least as good on held-out rows")
    assert compare_models(ahead, plain, 0.099) == better  # wins 30, loses none: 30 > 1.64·√30
    assert compare_models(plain, plain, 0.099) == not_better
    assert compare_models(level, plain, 0.099) == not_better  # wins 6, loses 5: 1 < 1.64·√11
    for not_worse in (level, plain):  # plain training suffers from so much noise
        assert compare_models(not_worse, plain, 0.1) == as_good
    worse = Comparison(False, "ULC is worse on held-out rows")
    assert compare_models(plain, ahead, 0.1) == worse
    said = "of 300 held-out labels ULC predicts 76.7 %, plain training 66.7 %"
    assert describe_agreement(plain, ahead) == said


def test_a_model_that_wins_on_a_large_class_at_the_cost_of_the_small_ones_is_not_better():
    given = np.repeat([0, 1, 2], [400, 20, 20])
    plain = trained((given > 0) | (np.arange(440) < 300), given)
    greedy = trained(given == 0, given)
    assert greedy.agreement > plain.agreement
    worse = Comparison(False, "ULC is worse on held-out rows in the mean over classes")
    assert compare_models(greedy, plain, 0.3) == worse
    not_better = Comparison(False, "ULC is not better in the mean over classes")
    assert compare_models(greedy, plain, 0.01) == not_better


def test_the_mean_over_classes_and_its_variance():
    """Class 1 is absent. Mean: (2/4 + 1/1) / 2. Variance: (2/4² + 1/1²) / 2²."""
    given = np.array([0, 0, 0, 0, 2])
    differs = np.array([True, True, False, False, True])
    assert mean_over_classes(differs.astype(float), given) == pytest.approx(0.75)
    assert variance_of_class_mean(differs, given) == pytest.approx((2 / 16 + 1) / 4)


def test_memorised_labels_are_noticed():
    given = np.arange(300) % 3
    held_out = trained(np.arange(300) < 210, given)  # 70 % of the rows it did not learn from
    every, learned = np.eye(3)[given], np.arange(300)
    honest = np.where((np.arange(300) < 240)[:, None], every, np.eye(3)[(given + 1) % 3])
    nothing = np.full(300, np.nan)

    def judgement(prediction):
        return Judgement(given, nothing, prediction, nothing, nothing)

    assert has_memorised(judgement(every), learned, held_out)
    assert not has_memorised(judgement(honest), learned, held_out)


def test_the_mean_of_two_predictions_is_geometric():
    mean = geometric_mean(np.array([[0.9, 0.1]]), np.array([[0.1, 0.9]]))
    assert mean == pytest.approx(np.array([[0.5, 0.5]]))
    assert geometric_mean(np.array([[0.5, 0.5]]), np.array([[0.8, 0.2]])) == pytest.approx(
        np.array([[2, 1]]) / 3
    )


def test_folds_spread_every_class():
    given = np.repeat([0, 1, 2, 3], [50, 7, 2, 1])
    fold = assign_folds(given, 5, np.random.default_rng(0))
    assert np.bincount(fold).tolist() == [12] * 5
    for label, size in enumerate((50, 7, 2, 1)):
        counts = np.bincount(fold[given == label], minlength=5)
        assert counts.max() - counts.min() <= 1
        assert counts.sum() == size


def test_a_class_of_one_fold_is_found():
    """Class 0 has a lone row, class 1 two copies in one fold, class 2 rows in two folds."""
    given, fold = np.array([0, 1, 1, 2, 2, 2]), np.array([0, 1, 1, 0, 1, 0])
    assert find_classes_of_one_fold(given, fold).tolist() == [True] * 3 + [False] * 3


def test_copies_share_a_fold():
    rows = np.array([[1.0], [2], [1], [3], [1], [2]])
    fold = keep_copies_together(np.array([0, 1, 2, 3, 4, 0]), find_copies(rows))
    assert fold.tolist() == [0, 1, 0, 3, 0, 1]


def test_choices_follow_size_and_noise():
    np.savez("data.npz", X=np.eye(8), y=[0, 1] * 4)
    spec = audit_spec("data.npz")
    shares = [
        choices.choose_held_out(spec, np.arange(rows) % 2)[0] for rows in (100, 5_000, 100_000)
    ]
    assert shares == [0.2, 0.1, 0.02]
    epochs = [choices.choose_epochs(spec, (4,), rows)[0] for rows in (270, 4_500, 54_000)]
    assert epochs == sorted(epochs, reverse=True)
    assert epochs[-1] == 12
    before = RunSpec(options={"doubtful_weight": 25.0})
    weights = [
        choices.choose_doubtful_weight(before, spec, rate)[0].options["doubtful_weight"]
        for rate in (0.1, 0.6)
    ]
    assert weights == [0, 25]
    own = audit_spec("data.npz", options={"doubtful_weight": 7.0})
    before = RunSpec(options=own.options)
    assert choices.choose_doubtful_weight(before, own, 0.1)[0].options["doubtful_weight"] == 7


def test_without_a_preset_the_weight_of_doubtful_labels_is_the_default_of_ulc():
    spec = audit_spec("data.npz")
    found, choice = choices.choose_doubtful_weight(RunSpec(), spec, 0.6)
    assert found.options["doubtful_weight"] == configure("ulc", {}).doubtful_weight
    assert choice.why == "about 60 % of the labels are estimated wrong"


def test_with_fixmatch_no_weight_of_doubtful_labels_is_chosen():
    options = {"semi_supervised": "fixmatch"}
    before = RunSpec(options=options)
    spec = audit_spec("data.npz", options=options)
    assert choices.choose_doubtful_weight(before, spec, 0.6) == (before, None)


def test_the_number_of_held_out_rows_is_that_of_the_rows_drawn():
    """In the second data every class keeps its only row, so one row is left to hold out."""
    for given in (np.arange(90) % 3, np.array([*range(19), 0])):
        np.savez("data.npz", X=np.eye(len(given)), y=given)
        spec = audit_spec("data.npz", **QUICK)
        workspace = Workspace(create_folder(Path("audit")), CPU, AuditProgress())
        source = read_source(spec, Path(), CPU, AuditProgress())
        data = prepare_data(spec, source, workspace)
        count = len(data.prepared.held_out.positions)
        assert data.choices[1].value == f"{count} of {len(given)}"
    assert count == 1
