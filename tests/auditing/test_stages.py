"""The stages of an audit, each alone."""

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from test_audit import QUICK, blobs

import ulc
from ulc.auditing import AuditProgress, audit_spec, choices, judging
from ulc.auditing import data as data_stage
from ulc.auditing.data import prepare_data, read_source
from ulc.auditing.handing_over import (
    Comparison,
    class_weights,
    compare_models,
    hand_over_plain,
    hand_over_robust,
    own_log_likelihood,
)
from ulc.auditing.judging import (
    MOST_PROBABILITIES,
    ONE_JUDGE,
    TWO_JUDGES,
    AuditJudgement,
    Rows,
    fit_confusion,
    for_model,
    judge_audit_labels,
)
from ulc.auditing.paired import is_significantly_negative
from ulc.auditing.results import AuditResults, describe_agreement, write_audit
from ulc.auditing.trainings import HeldOutRun, train_and_measure
from ulc.auditing.workspace import Workspace
from ulc.blocks.label_posterior import AnchoredConfusion
from ulc.data.sources import load_source
from ulc.errors import InputError
from ulc.labels.confusion import ConfusionModel
from ulc.labels.prior import with_prior
from ulc.labels.second_judge import pool
from ulc.settings import automatic
from ulc.settings.automatic import Size
from ulc.storage.run_folder import RunFolder, create_folder
from ulc.training import run as run_module

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
    robust = train_and_measure(workspace, "ULC+", data.robust_spec, data.prepared)
    return SimpleNamespace(
        spec=spec, source=source, workspace=workspace, data=data, plain=plain, robust=robust,
        given=given, true=true,
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


def test_both_trainings_have_the_same_data_network_and_held_out_rows(staged):
    plain, robust = staged.data.plain_spec, staged.data.robust_spec
    assert (plain.algorithm, robust.algorithm) == ("ce", "ulc_plus")
    for name in ("data", "network", "seed", "held_out"):
        assert getattr(plain, name) == getattr(robust, name)
    assert (plain.epochs, robust.epochs) == (math.ceil(QUICK["epochs"] / 2), QUICK["epochs"])
    assert len(staged.data.prepared.held_out.positions) == 18
    assert [choice.name for choice in staged.data.choices] == [
        "pretrained features", "rows held out", "network", "epochs",
    ]  # fmt: skip


def test_networks_of_an_audit_never_judge_labels_that_they_have_learned(staged):
    assert staged.data.robust_spec.options["allowed_gap"] == 0


def test_a_run_is_measured_on_the_rows_that_it_held_out(staged):
    held_out = staged.data.prepared.held_out
    assert staged.plain.given.tolist() == staged.given[held_out.positions].tolist()
    assert staged.plain.probability.shape == (18, 3)
    assert staged.plain.probability.sum(1) == pytest.approx(1, abs=1e-5)
    assert staged.plain.summary["held_out_agreement"] == staged.plain.hits.mean()
    all_rows = staged.data.prepared.with_all_rows()
    with pytest.raises(InputError, match="held-out rows"):
        train_and_measure(staged.workspace, "plain training", staged.data.plain_spec, all_rows)


def test_a_confusion_model_of_many_rows_is_fitted_to_a_sample(monkeypatch):
    sizes = []
    monkeypatch.setattr(
        AnchoredConfusion, "update", lambda self, logs, *others: sizes.append(len(logs))
    )
    classes = 100
    for rows in (3_000, 7_000):
        probability = np.full((rows + 1, classes), 1 / classes)
        given, certain = np.arange(rows + 1) % classes, np.zeros(rows + 1, bool)
        fit_confusion(probability, Rows(given, np.arange(rows), certain), ONE_JUDGE)
    assert sizes == [3_000, MOST_PROBABILITIES // classes]


@pytest.mark.parametrize("second", [True, False])
def test_labels_are_judged_by_those_who_have_not_learned_them(staged, monkeypatch, second):
    """Learned rows by ULC+'s cross-fitted predictions, held-out rows by its model.

    A second judge who knows the true classes counts; one who contradicts them does not.
    """
    prepared, theirs = staged.data.prepared, staged.robust.folder.judgement
    said = np.eye(3)[staged.true if second else (staged.true + 1) % 3]
    monkeypatch.setattr(judging, "judge_by_kernel", lambda *_: np.log(0.9 * said + 0.1 / 3))
    judged = judge_audit_labels(staged.robust, prepared)
    judgement = judged.labels.judgement
    learned, held_out = prepared.learned, prepared.held_out.positions
    expected = theirs.prediction.copy()
    expected[held_out] = with_prior(
        staged.robust.probability, staged.robust.class_prior, judged.frequency
    )
    if second:
        expected = pool(expected, np.log(0.9 * said + 0.1 / 3))
    np.testing.assert_allclose(judgement.prediction, expected, rtol=1e-4, atol=1e-7)
    assert (judged.confusion == judged.network_confusion) is not second
    assert judged.frequency == pytest.approx(theirs.select(learned).class_prior)
    assert judgement.score_kind == "posterior"
    believed = judgement.clean_probability
    assert (believed[:2] == 1).all()  # verified
    assert judged.noise_rate == pytest.approx(1 - believed.mean())
    low, high = judged.noise_interval
    assert 0 <= low < judged.noise_rate < high <= 1


def test_a_model_of_another_prior_gets_the_same_posterior(staged):
    """noise.json for the model's own prior, confusion.json for the training prior."""
    judged = judge_audit_labels(staged.robust, staged.data.prepared)
    robust = staged.robust
    own = for_model(judged.confusion, judged.frequency, robust.class_prior)
    np.testing.assert_allclose(
        own.posterior(robust.probability, robust.given),
        judged.confusion.posterior(robust.under_prior(judged.frequency), robust.given),
        atol=1e-4,
    )


def test_the_model_of_ulc_plus_is_handed_over_as_it_was_trained(staged):
    judged = judge_audit_labels(staged.robust, staged.data.prepared)
    handed_over = hand_over_robust(staged.robust, Comparison(True, "it is better"), judged)
    assert handed_over.reason == "the model of ULC+, as it is better"
    assert handed_over.run is staged.robust.folder
    assert handed_over.confusion.slope == judged.network_confusion.slope


def test_a_plain_model_is_handed_over_with_early_stopping(staged):
    handed_over = hand_over_plain(staged.plain, Comparison(False, "it is better"))
    assert handed_over.run is staged.plain.folder
    assert handed_over.confusion == ConfusionModel.fit(staged.plain.probability, staged.plain.given)
    assert handed_over.reason == "the plain model with early stopping, as it is better"


def test_results_are_written_from_the_values_of_the_stages(staged, tmp_path):
    judged = judge_audit_labels(staged.robust, staged.data.prepared)
    handed_over = hand_over_robust(staged.robust, Comparison(True, "it is better"), judged)
    results = AuditResults(
        staged.spec, staged.data, staged.plain, staged.robust, judged, handed_over
    )
    folder = RunFolder(tmp_path)
    write_audit(folder, results)
    content = folder.read_json("audit.json")
    assert content["handed_over"] == "ulc_plus"
    assert content["noise_rate"] == judged.noise_rate
    said = "the model of ULC+, as it is better; of 18 held-out labels ULC+"
    assert content["why"].startswith(said)
    assert folder.read("model.safetensors") == staged.robust.folder.read("model.safetensors")
    assert folder.read_json("confusion.json")["temperature"] == judged.confusion.temperature
    assert folder.read_json("noise.json")["slope"] == handed_over.confusion.slope
    assert folder.read_json("health.json")["score_kind"] == "posterior"
    assert folder.read_json("summary.json")["labels"]["auc"] is not None  # true labels are known


def test_data_are_prepared_once_and_the_noise_is_fitted_once_for_each_prediction(
    tmp_path, monkeypatch
):
    vectors, given, _ = blobs(rows=60)
    np.savez(tmp_path / "data.npz", X=vectors, y=given)
    prepared, fitted = [], []
    for module in (data_stage, run_module):
        counted = module.prepare

        def prepare(*arguments, counted=counted, **settings):
            prepared.append(arguments)
            return counted(*arguments, **settings)

        monkeypatch.setattr(module, "prepare", prepare)

    class Recording(AnchoredConfusion):
        def update(self, *arguments):
            fitted.append(self.priors)
            return super().update(*arguments)

    monkeypatch.setattr(judging, "AnchoredConfusion", Recording)
    ulc.audit(tmp_path / "data.npz", tmp_path / "audits", **QUICK)
    assert len(prepared) == 1
    assert fitted == [ONE_JUDGE, ONE_JUDGE]  # few rows: the pool has the same priors


def test_two_judges_of_many_rows_have_priors_of_their_own(staged, monkeypatch):
    monkeypatch.setattr(judging, "ENOUGH_ROWS", len(staged.data.prepared.learned))
    fitted = []
    monkeypatch.setattr(
        judging, "fit_confusion", lambda *given: fitted.append(given[2]) or fit_confusion(*given)
    )
    judge_audit_labels(staged.robust, staged.data.prepared)
    assert fitted == [ONE_JUDGE, TWO_JUDGES]


EVEN = np.full(3, 1 / 3)


def trained(probability, given):
    """A run whose model gives the given labels of held-out rows these probabilities."""
    rest = (1 - np.asarray(probability)) / 2
    predicted = np.repeat(rest[:, None], 3, 1)
    predicted[np.arange(len(given)), given] = probability
    return HeldOutRun(None, predicted, given, EVEN)


def test_the_model_of_ulc_plus_is_handed_over_unless_it_is_significantly_worse():
    given, rng = np.arange(300) % 3, np.random.default_rng(0)
    sure = np.where(rng.random(300) < 0.8, 0.95, 0.02)
    unsure = np.where(rng.random(300) < 0.6, 0.95, 0.02)
    good, weak = trained(sure, given), trained(unsure, given)
    passes = "it explains the held-out labels at least as well as plain training"
    for robust, plain in ((good, weak), (good, good)):
        assert compare_models(robust, plain, EVEN) == Comparison(True, passes)
    fails = Comparison(False, "it explains the held-out labels better than ULC+")
    assert compare_models(weak, good, EVEN) == fails
    said = "of 300 held-out labels ULC+ predicts 78.0 %, plain training 100.0 %"
    all_hit = trained(np.full(300, 0.9), given)
    part_hit = trained(np.where(np.arange(300) < 234, 0.9, 0.1), given)
    assert describe_agreement(all_hit, part_hit) == said


def test_a_model_that_loses_small_classes_is_not_handed_over():
    given = np.repeat([0, 1, 2], [400, 20, 20])
    plain = trained(np.full(440, 0.9), given)
    greedy = trained(np.where(given == 0, 0.97, 0.02), given)
    weights = class_weights(given)
    assert weights.sum() == pytest.approx(1)
    assert weights[0] == pytest.approx(1 / 1200)
    assert not compare_models(greedy, plain, EVEN).robust_passes


def test_small_classes_decide_only_if_the_model_is_no_better_over_all_rows():
    """A model that has learned the wrong labels of small classes explains these labels best."""
    given = np.repeat([0, 1, 2], [400, 20, 20])
    mixed = np.tile([0.9, 0.5], 220)
    plain = trained(np.where(given == 0, mixed, 0.9), given)
    robust = trained(np.where(given == 0, 0.9, mixed), given)
    difference = own_log_likelihood(robust.probability, given) - own_log_likelihood(
        plain.probability, given
    )
    assert difference.mean() > 0
    assert is_significantly_negative(difference, class_weights(given))
    assert compare_models(robust, plain, EVEN).robust_passes


def test_a_mean_is_significant_beyond_its_standard_error():
    """Mean −1 and standard error 1/2; then standard error 1."""
    even = np.full(4, 0.25)
    assert is_significantly_negative(np.array([-2.0, 0, -2, 0]), even)
    assert not is_significantly_negative(np.array([-3.0, 1, -3, 1]), even)


def test_the_interval_of_the_noise_rate_stays_within_0_and_1():
    def judged(rate):
        clean = SimpleNamespace(clean_probability=np.full(4, 1 - rate))
        labels = SimpleNamespace(judgement=clean)
        return AuditJudgement(labels, None, None, EVEN).noise_interval

    assert judged(0.01) == pytest.approx((0, 0.0275))
    assert judged(0.4) == pytest.approx((0.305, 0.515))
    assert judged(0.95)[1] == 1


def test_choices_follow_the_size():
    np.savez("data.npz", X=np.eye(8), y=[0, 1] * 4)
    spec = audit_spec("data.npz")
    shares = [
        choices.choose_held_out(spec, np.arange(rows) % 2)[0] for rows in (100, 5_000, 100_000)
    ]
    assert shares == [0.2, 0.1, 0.02]
    epochs = [choices.choose_epochs(spec, Size((4,), rows, 3))[0] for rows in (270, 4_500, 54_000)]
    assert epochs == sorted(epochs, reverse=True)
    assert epochs[-1] == 12


def test_the_number_of_held_out_rows_is_that_of_the_rows_drawn():
    """In the second data every class keeps its only row, so one row is left to hold out."""
    for given in (np.arange(90) % 3, np.array([*range(19), 0])):
        np.savez("data.npz", X=np.eye(len(given)), y=given)
        spec = audit_spec("data.npz", **QUICK)
        workspace = Workspace(create_folder(Path("audit")), CPU, AuditProgress())
        source = read_source(spec, Path(), CPU, AuditProgress())
        data = prepare_data(spec, source, workspace)
        assert source.source is None  # prepared inputs are in memory instead
        count = len(data.prepared.held_out.positions)
        assert data.choices[1].value == f"{count} of {len(given)}"
    assert count == 1


def test_pretrained_features_are_for_images_without_a_gpu(monkeypatch):
    """A device is only a name here: no GPU is needed."""
    np.savez("data.npz", X=np.zeros((4, 8, 8), np.uint8), y=[0, 1] * 2)
    spec = audit_spec("data.npz")
    source = load_source(spec.data)
    monkeypatch.setattr(choices, "find_spec", lambda _: object())
    assert choices.choose_backbone(spec, source, CPU)[0] == choices.BACKBONE
    name, choice = choices.choose_backbone(spec, source, torch.device("cuda"))
    assert (name, choice.value) == (None, "none")
    assert "with a GPU, a network is trained on the images themselves" in choice.why
    monkeypatch.setattr(choices, "find_spec", lambda _: None)
    name, choice = choices.choose_backbone(spec, source, CPU)
    assert (name, choice.value) == (None, "none")
    assert choice.why == "they would help; pip install 'ulc[embed]' installs them"


def test_settings_of_the_user_and_epochs_for_images_are_chosen_and_named():
    np.savez("data.npz", X=np.eye(8), y=[0, 1] * 4)
    share, choice = choices.choose_held_out(
        audit_spec("data.npz", held_out=0.3), np.arange(100) % 2
    )
    assert (share, choice.value, choice.why) == (0.3, "30 of 100", choices.SET_BY_USER)
    size = Size((3, 32, 32), 5_000, 3)
    epochs, choice = choices.choose_epochs(audit_spec("data.npz"), size)
    assert epochs == automatic.settings("ulc_plus", size, None, {}).epochs
    assert (choice.value, choice.why) == (
        str(epochs), "the preset for images, for 5000 training images",
    )  # fmt: skip
