"""The estimators as a user of scikit-learn meets them."""

import copy
import pickle
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from stub_data import LABEL_COLUMNS
from ulc import InputError, Judgement, NoisyLabelClassifier, ULCClassifier
from ulc.algorithms import ALGORITHMS, configure
from ulc.data.held_out import draw_held_out
from ulc.estimators.saved import to_json_values
from ulc.labels.unseen import judge_unseen
from ulc.settings.automatic import Size, settings

GUIDE = (Path(__file__).parents[2] / "docs" / "estimator.md").read_text()
FRUIT = np.array(["apple", "banana", "cherry"])
QUICK = {"batch_size": 32, "warmup_batch_size": 32, "warmup_epochs": 4, "passes": 3}


def rows(count=120, classes=3, features=4, *, wrong=0.2, seed=0):
    """Vectors, labels of which a share is wrong, and the true ones."""
    rng = np.random.default_rng(seed)
    true = np.arange(count) % classes
    vectors = rng.normal(size=(count, features)) + 4 * np.eye(classes, features)[true]
    given = np.where(rng.random(count) < wrong, (true + 1) % classes, true)
    return vectors, given, true


def ulc(**arguments):
    options = {**QUICK, "sgd": {"lr": 0.1}, **arguments.pop("options", {})}
    return ULCClassifier(
        **{"epochs": 8, "width": 32, "random_state": 0, "options": options, **arguments}
    )


def plain(**arguments):
    return NoisyLabelClassifier(
        **{"algorithm": "ce", "epochs": 4, "width": 16, "random_state": 0, **arguments}
    )


@pytest.fixture(scope="module")
def fitted():
    vectors, given, _ = rows()
    return ulc().fit(vectors, FRUIT[given])


class Backbone(nn.Module):
    """A user's own network for four features."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 8)

    def forward(self, vectors):
        return self.layer(vectors).relu()


def test_it_learns_the_truth_and_finds_the_wrong_labels():
    vectors, given, true = rows(240)
    model = ulc(epochs=12).fit(vectors, FRUIT[given])
    assert (model.predict(vectors) == FRUIT[true]).mean() > 0.9
    table = model.find_label_issues()
    wrong = given != true
    assert (table.is_label_issue & wrong).sum() > 0.8 * wrong.sum()
    assert (table.is_label_issue & ~wrong).sum() < 0.1 * (~wrong).sum()
    assert (model.correct_labels() == FRUIT[true]).mean() > 0.9


def test_string_labels_come_back_as_strings(fitted):
    vectors, given, _ = rows()
    assert fitted.classes_.tolist() == FRUIT.tolist()
    assert fitted.predict(vectors).dtype == FRUIT.dtype
    assert fitted.correct_labels().dtype == FRUIT.dtype
    table = fitted.find_label_issues()
    assert list(table.columns) == LABEL_COLUMNS
    assert set(table.score_kind) == {"omega"}
    assert table.given_label.tolist() == FRUIT[given].tolist()
    assert table.index.tolist() == table.id.tolist() == list(range(len(given)))
    changed = fitted.correct_labels() != FRUIT[given]
    assert (changed == table.is_label_issue).all()


def test_an_unsorted_index_and_the_names_of_columns_survive():
    vectors, given, _ = rows(40)
    index = np.random.default_rng(0).permutation(1000)[:40]
    frame = pd.DataFrame(vectors, columns=list("abcd"), index=index)
    labels = pd.Series(FRUIT[given], index=index)
    model = plain().fit(frame, labels)
    table = model.find_label_issues()
    assert table.index.tolist() == index.tolist()
    assert table.given_label.tolist() == labels.tolist()
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.n_features_in_ == 4
    np.testing.assert_array_equal(
        model.predict_proba(frame), plain().fit(vectors, given).predict_proba(vectors)
    )


def test_tensors_and_arrays_are_the_same():
    vectors, given, _ = rows(40)
    tensors = plain().fit(torch.from_numpy(vectors), torch.from_numpy(given))
    arrays = plain().fit(vectors, given)
    np.testing.assert_array_equal(
        tensors.predict_proba(torch.from_numpy(vectors)), arrays.predict_proba(vectors)
    )


def test_every_layout_of_images_is_the_same():
    rng = np.random.default_rng(0)
    given = np.arange(24) % 2
    images = rng.integers(0, 100, (24, 8, 8)).astype(np.uint8)
    images[given == 1, 2:4] += 150
    layouts = {"grey": images, "first": images[:, None], "last": images[..., None]}
    found = []
    for layout in layouts.values():
        model = plain(width=2).fit(layout, given)
        assert model.n_features_in_ == 64
        found.append(model.predict_proba(layout))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_colour_images_and_ulc():
    images = np.random.default_rng(0).integers(0, 255, (20, 9, 9, 3)).astype(np.uint8)
    model = ulc(width=2, epochs=6).fit(images, np.arange(20) % 2)
    assert model.predict_proba(images).shape == (20, 2)
    assert model.model_.spec.preprocessing.shape == (3, 9, 9)
    with pytest.raises(InputError, match="shape"):
        model.predict(images[:, :8])


def test_it_works_in_a_pipeline_and_under_cross_validation():
    vectors, given, _ = rows(60, wrong=0)
    scores = cross_val_score(
        make_pipeline(StandardScaler(), plain(epochs=10)), 1000 * vectors, FRUIT[given], cv=3
    )
    assert scores.mean() > 0.9


def test_options_are_searched_by_name():
    vectors, given, _ = rows(60)
    search = GridSearchCV(
        plain(options={"sgd": {"momentum": 0.5}}),
        {"options__sgd__lr": [1e-6, 0.1], "options__batch_size": [16]},
        cv=2,
    ).fit(vectors, given)
    assert search.best_params_["options__sgd__lr"] == 0.1
    best = search.best_estimator_
    assert best.options == {"sgd": {"momentum": 0.5, "lr": 0.1}, "batch_size": 16}
    assert best.get_params()["options__sgd__momentum"] == 0.5
    assert "options__batch_size" not in best.get_params(deep=False)


def test_a_whole_dict_of_options_is_searched_too():
    vectors, given, _ = rows(40)
    grid = {"options": [{"doubt_weight": 0.1}, {"doubt_weight": 0.2}]}
    search = GridSearchCV(ulc(epochs=2), grid, cv=2).fit(vectors, given)
    assert search.best_params_["options"] in grid["options"]


def test_a_clone_knows_the_arguments_and_nothing_learned(fitted):
    twin = clone(fitted)
    assert twin.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        twin.find_label_issues()
    options = {"doubt_weight": 0.2}
    assert ULCClassifier(options=options).options is options


def test_a_pickle_predicts_alike_and_holds_the_judgement_but_no_inputs(fitted):
    vectors, *_ = rows()
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(vectors), fitted.predict_proba(vectors))
    pd.testing.assert_frame_equal(again.find_label_issues(), fitted.find_label_issues())

    def size(count):
        vectors, given, _ = rows(count, features=300)
        return len(pickle.dumps(plain(epochs=1).fit(vectors, given)))

    judgement_of_a_row = 8 + 4 * (3 + 3)  # given, three numbers, a probability for each class
    assert size(400) - size(100) < 300 * judgement_of_a_row + 200


def test_the_same_seed_is_the_same_model_and_another_is_not():
    vectors, given, _ = rows(40)
    first, second, other = (
        plain(random_state=seed).fit(vectors, given).predict_proba(vectors)
        for seed in (0, np.int64(0), 1)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)
    model = plain(random_state=0).fit(vectors, given)
    model.set_params(random_state=1).fit(vectors, given)
    np.testing.assert_array_equal(model.predict_proba(vectors), other)


def test_a_generator_of_the_user_s_moves_on_and_repeats_itself():
    vectors, given, _ = rows(40)
    state = np.random.RandomState(3)
    twin = copy.deepcopy(state)
    first = plain(random_state=state).fit(vectors, given).predict_proba(vectors)
    second = plain(random_state=state).fit(vectors, given).predict_proba(vectors)
    assert not np.array_equal(first, second)
    again = plain(random_state=twin).fit(vectors, given).predict_proba(vectors)
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("seed", [0, None])
def test_the_user_s_random_state_is_left_alone(seed, tmp_path):
    vectors, given, _ = rows(40)

    def states():
        return (
            torch.get_rng_state().tolist(),
            pickle.dumps(np.random.get_state()),  # noqa: NPY002 (that of the user)
            random.getstate(),
        )

    before = states()
    model = ulc(random_state=seed, early_stopping=True, epochs=3).fit(vectors, given)
    model.predict(vectors)
    model.predict_uncertainty(vectors)
    model.save(tmp_path / "model")
    ULCClassifier.load(tmp_path / "model")
    assert states() == before


@pytest.mark.parametrize("name", ALGORITHMS)
def test_uncertainty_is_a_number_between_0_and_1(name):
    vectors, given, _ = rows(40)
    model = NoisyLabelClassifier(name, epochs=2, width=8, random_state=0).fit(vectors, given)
    found = model.predict_uncertainty(vectors)
    assert found.epistemic.shape == (40,)
    assert ((found.epistemic >= 0) & (found.epistemic <= 1)).all()
    again = model.predict_uncertainty(vectors)
    np.testing.assert_array_equal(found.epistemic, again.epistemic)
    if name == "ulc":
        assert (found.aleatoric > 0).all()
    else:
        assert found.aleatoric is None
    if name not in ("ulc", "ulc_plus"):  # without dropout
        p = model.predict_proba(vectors)
        entropy = -(p * np.log(p)).sum(1) / np.log(3)
        np.testing.assert_allclose(found.epistemic, entropy, rtol=1e-5)


@pytest.mark.parametrize("noise", ["off", "local"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_uncertainty_of_ulc_without_its_parts(noise, dropout):
    vectors, given, _ = rows(40)
    options = {"logit_noise": noise, "dropout": dropout}
    found = ulc(epochs=2, options=options).fit(vectors, given).predict_uncertainty(vectors)
    assert ((found.epistemic >= 0) & (found.epistemic <= 1)).all()
    assert (found.aleatoric is None) == (noise == "off")


def test_ulc_is_less_sure_between_the_classes(fitted):
    corners = 4 * np.eye(3, 4)
    middle = corners.mean(0, keepdims=True)
    sure = fitted.predict_uncertainty(corners).epistemic
    assert fitted.predict_uncertainty(middle).epistemic[0] > sure.max()


def test_priors_change_predictions_as_they_say():
    vectors, _, true = rows(120, classes=2, wrong=0)
    kept = np.flatnonzero((true == 0) | (np.arange(120) % 10 == 1))
    model = plain().fit(vectors[kept], true[kept])
    trained, even = model.predict_proba(vectors), model.predict_proba(vectors, "balanced")
    assert (even[:, 1] > trained[:, 1]).all()
    sure = model.predict_proba(vectors, [0, 1])
    np.testing.assert_allclose(sure[:, 1], 1)
    model.set_params(prior="balanced")
    np.testing.assert_array_equal(model.predict_proba(vectors), even)
    np.testing.assert_array_equal(model.predict(vectors), model.classes_[even.argmax(1)])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_warm_start_goes_on_from_the_weights(name):
    """A second fit of no effect, its rate all but zero, predicts almost as the first."""
    vectors, given, _ = rows(60)
    model = NoisyLabelClassifier(name, epochs=4, width=8, random_state=0, warm_start=True)
    first = model.fit(vectors, given).predict_proba(vectors)
    still = {"momentum": 0.0} if name != "coteaching_plus" else {}
    section = "adam" if name == "coteaching_plus" else "sgd"
    options = {section: {"lr": 1e-9, **still}}
    if name == "pencil":
        options["final_lr"] = 1e-9
    model.set_params(epochs=1, options=options).fit(vectors, given)
    assert model.n_iter_ == 5
    # Batch norm's running statistics move all the same.
    assert np.abs(model.predict_proba(vectors) - first).max() < 0.1
    model.set_params(warm_start=False).fit(vectors, given)
    assert model.n_iter_ == 1


def test_warm_start_keeps_to_its_task():
    vectors, given, _ = rows(60)
    model = plain(warm_start=True).fit(vectors, FRUIT[given])
    before = model.predict(vectors)
    with pytest.raises(InputError, match="warm_start needs the classes"):
        model.fit(vectors, given)
    with pytest.raises(ValueError, match="features"):
        model.fit(vectors[:, :2], FRUIT[given])
    with pytest.raises(InputError, match="warm_start needs the network"):
        model.set_params(width=8).fit(vectors, FRUIT[given])
    assert (model.predict(vectors) == before).all()


def test_early_stopping_keeps_the_best_epoch():
    vectors, given, _ = rows(100)
    arguments = {
        "early_stopping": True,
        "validation_fraction": 0.2,
        # Schedules and ramps of the preset would depend on `epochs`.
        "options": {
            "rampup_epochs": 4,
            "sgd": {"lr": 0.1, "milestones": (), "cosine_epochs": 0},
        },
    }
    model = ulc(epochs=30, patience=3, **arguments).fit(vectors, given)
    scores = model.validation_scores_
    assert len(scores) == model.n_iter_ < 30
    after = scores[QUICK["warmup_epochs"] :]
    first_best = QUICK["warmup_epochs"] + after.index(max(after))
    assert model.n_iter_ - 1 - first_best == 3
    share = (20 * max(after) + 1) / 22  # of 20 held-out rows and two pseudo-counts
    near = max(after) - np.sqrt(share * (1 - share) / 22)
    assert model.best_epoch_ == max(
        epoch for epoch in range(4, len(scores)) if scores[epoch] >= near
    )
    assert len(model.find_label_issues()) == 100
    assert not model.find_label_issues().epistemic.isna().any()
    same = ulc(epochs=model.best_epoch_ + 1, **arguments)
    np.testing.assert_array_equal(
        same.fit(vectors, given).predict_proba(vectors), model.predict_proba(vectors)
    )


@pytest.mark.parametrize("by", ["early_stopping", "weight"])
def test_rows_not_learned_from_are_judged_by_the_learned_rows_with_the_nearest_losses(by):
    vectors, given, _ = rows(60)
    verified = np.arange(60) % 7 == 0
    if by == "weight":
        apart = np.arange(0, 60, 4)
        weights = (np.arange(60) % 4 > 0) * 1.0
        model = plain().fit(vectors, given, sample_weight=weights, verified=verified)
    else:
        apart = draw_held_out(given, 0.3, np.random.default_rng(0))
        arguments = {"early_stopping": True, "validation_fraction": 0.3}
        model = plain(**arguments).fit(vectors, given, verified=verified)
    learned = np.setdiff1d(np.arange(60), apart)
    prediction = model.judgement_.prediction
    np.testing.assert_allclose(prediction, model.predict_proba(vectors), rtol=1e-4)
    expected = judge_unseen(
        Judgement.of(prediction[learned], given[learned]), prediction[apart], given[apart]
    )
    found = model.find_label_issues().label_score[apart]
    np.testing.assert_allclose(
        found, np.where(verified[apart], 1, expected.clean_probability), rtol=1e-5
    )


def test_rows_of_no_weight_are_not_learned_from():
    vectors, given, _ = rows(60)
    weights = (np.arange(60) % 4 > 0) * 2.0
    spoiled = np.where(weights[:, None] > 0, vectors, 1e6)
    weighted = plain().fit(spoiled, given, sample_weight=weights)
    removed = plain().fit(vectors[weights > 0], given[weights > 0])
    np.testing.assert_array_equal(weighted.predict_proba(vectors), removed.predict_proba(vectors))
    assert len(weighted.find_label_issues()) == 60


def test_heavy_rows_win():
    vectors = np.repeat([[1.0, 0.0], [-1.0, 0.0]], 40, axis=0)
    given = np.tile([0, 1], 40)  # each point has both labels, half and half
    weights = np.where(given == (vectors[:, 0] < 0), 9.0, 1.0)
    found = plain(epochs=15).fit(vectors, given, sample_weight=weights)
    assert found.predict([[1.0, 0.0], [-1.0, 0.0]]).tolist() == [0, 1]


def test_verified_labels_are_never_issues():
    vectors, given, true = rows(90)
    verified = (given != true) & (np.arange(90) % 2 == 0)
    model = ulc().fit(vectors, given, verified=verified)
    table = model.find_label_issues()
    assert (table.label_score[verified] == 1).all()
    assert not table.is_label_issue[verified].any()
    assert (model.correct_labels()[verified] == given[verified]).all()
    assert table.is_label_issue[(given != true) & ~verified].any()


def test_a_judgement_with_verified_labels():
    """Clean probability 1 and the given label itself; the others stay as they were."""
    prediction = np.array([[0.9, 0.1], [0.9, 0.1]], np.float32)
    judgement = Judgement.of(prediction, np.array([1, 1])).with_verified(np.array([True, False]))
    np.testing.assert_allclose(judgement.clean_probability, [1, 0.1])
    np.testing.assert_allclose(judgement.corrected, [[0, 1], [0.81, 0.19]], rtol=1e-6)
    assert judgement.suggested.tolist() == [1, 0]


@pytest.mark.parametrize("network", [Backbone, lambda: Backbone(), f"{__name__}:Backbone"])
def test_a_network_of_the_user_s_own(network, tmp_path):
    vectors, given, _ = rows(60, wrong=0)
    model = plain(network=network, width=None, epochs=20).fit(vectors, given)
    assert isinstance(model.model_.members[0].backbone, Backbone)
    assert model.score(vectors, given) > 0.9
    model.save(tmp_path / "model")
    bring = None if network is Backbone or isinstance(network, str) else Backbone
    if bring:
        with pytest.raises(InputError, match="give it as network="):
            NoisyLabelClassifier.load(tmp_path / "model")
    again = NoisyLabelClassifier.load(tmp_path / "model", network=bring, trust=True)
    np.testing.assert_array_equal(again.predict_proba(vectors), model.predict_proba(vectors))


@pytest.mark.parametrize("kind", ["strings", "numbers", "booleans", "frame"])
def test_saved_and_loaded_it_is_the_same(kind, tmp_path):
    vectors, given, _ = rows(60, classes=2)
    labels = {"strings": FRUIT[given], "booleans": given == 1}.get(kind, given - 1)
    inputs = vectors
    if kind == "frame":
        inputs = pd.DataFrame(vectors, columns=list("abcd"), index=[f"row {i}" for i in range(60)])
        labels = pd.Series(FRUIT[given], index=inputs.index)
    model = ulc(prior=[0.3, 0.7], epochs=6).fit(inputs, labels)
    model.save(tmp_path / "model.safetensors")
    for door in (ULCClassifier, NoisyLabelClassifier):
        again = door.load(tmp_path / "model.safetensors")
        assert again.classes_.dtype == model.classes_.dtype
        np.testing.assert_array_equal(again.predict(inputs), model.predict(inputs))
        np.testing.assert_array_equal(again.predict_proba(inputs), model.predict_proba(inputs))
        np.testing.assert_array_equal(
            again.predict_uncertainty(inputs).epistemic,
            model.predict_uncertainty(inputs).epistemic,
        )
        np.testing.assert_array_equal(again.correct_labels(), model.correct_labels())
        pd.testing.assert_frame_equal(again.find_label_issues(), model.find_label_issues())
        assert again.get_params() | {"algorithm": "ulc"} == model.get_params() | {
            "algorithm": "ulc"
        }
    assert again.set_params(warm_start=True).fit(inputs, labels).n_iter_ == 12


def test_a_file_that_is_none_is_refused_in_one_sentence(tmp_path):
    vectors, given, _ = rows(40)
    model = plain().fit(vectors, given)
    model.save(tmp_path / "model")
    with pytest.raises(InputError, match=r"holds the algorithm 'ce'; load it with Noisy"):
        ULCClassifier.load(tmp_path / "model")
    with pytest.raises(InputError, match="no such file"):
        ULCClassifier.load(tmp_path / "nothing")
    (tmp_path / "broken").write_bytes((tmp_path / "model").read_bytes()[:500])
    with pytest.raises(InputError, match="not a readable estimator"):
        ULCClassifier.load(tmp_path / "broken")
    with pytest.raises(InputError, match="cannot be written"):
        model.save(tmp_path / "no" / "such" / "folder")
    with pytest.raises(NotFittedError):
        plain().save(tmp_path / "model")


def test_tiny_sets_are_learned_from():
    """Four rows, a batch larger than the data, classes of one, held-out rows."""
    vectors, *_ = rows(6)
    for name in ALGORITHMS:
        model = NoisyLabelClassifier(name, epochs=2, width=4, random_state=0)
        model.fit(vectors[:4], ["a", "a", "a", "b"])
        assert len(model.find_label_issues()) == 4
        model.fit(vectors, ["a", "b", "c", "d", "a", "e"])
        assert model.predict_proba(vectors).shape == (6, 5)
    model = plain(early_stopping=True).fit(vectors[:5], [0, 0, 0, 1, 2])
    assert len(model.correct_labels()) == 5


def with_a_hole(vectors):
    vectors = vectors.copy()
    vectors[3, 1] = np.nan
    return vectors


@pytest.mark.parametrize(
    ("arguments", "change", "message"),
    [
        ({}, lambda x, y: (with_a_hole(x), y), "X holds NaN in row 3, column 1; fill or"),
        ({}, lambda x, y: (x, np.zeros(len(x), int)), "y holds 1 class; give rows of at least"),
        ({}, lambda x, y: (x, y[:-1]), "inconsistent numbers of samples"),
        ({}, lambda x, y: (x, np.array([None, *"ab" * 20][:40], object)), "y mixes labels of"),
        ({}, lambda x, y: (x[:3], y[:3]), "3 examples are too few"),
        ({}, lambda x, y: (x.reshape(-1, 2, 2), y), "as uint8, 0 to 255"),
        ({}, lambda x, y: (x.reshape(-1, 2, 1, 2, 1), y), "give vectors .* or images"),
        ({"options": {"doubt": 1}}, None, "options of ce: unknown key 'doubt'; known here: batch"),
        ({"options": {"batch_size": "big"}}, None, "options of ce: 'batch_size'"),
        ({"options": 3}, None, "options is 3; give a dict"),
        ({"algorithm": "nothing"}, None, "unknown algorithm 'nothing'"),
        ({"network": "nothing"}, None, "unknown network 'nothing'"),
        ({"network": Backbone()}, None, "network is a Backbone; give a name, a Module class"),
        ({"network": dict, "width": None}, None, "makes no torch Module"),
        ({"network": Backbone}, None, "width = 16 is for built-in networks"),
        ({"epochs": 0}, None, "epochs is 0; give a whole number"),
        ({"width": 0}, None, "width"),
        ({"random_state": -1}, None, "random_state is -1"),
        ({"device": "nowhere"}, None, "device 'nowhere' does not work here"),
        ({"early_stopping": True, "validation_fraction": 1.5}, None, "validation_fraction is 1.5"),
        ({"early_stopping": True, "patience": 0}, None, "patience is 0"),
    ],
)  # fmt: skip
def test_a_mistake_ends_in_one_sentence(arguments, change, message):
    vectors, given, _ = rows(40)
    if change is not None:
        vectors, given = change(vectors, given)
    with pytest.raises(ValueError, match=message) as caught:
        plain(**arguments).fit(vectors, given)
    assert "\n" not in str(caught.value)


def test_divergence_ends_in_one_sentence_with_the_estimator_s_remedy():
    vectors, given, _ = rows(40)
    with pytest.raises(InputError, match=r"diverged; lower .*options=\{'sgd': \{'lr': …\}\}"):
        plain(options={"sgd": {"lr": 1e30}}).fit(vectors, given)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), "sample_weight has shape"),
        (-np.ones(40), "a finite number of at least 0 for each of the 40 rows"),
        (np.full(40, np.nan), "a finite number of at least 0"),
        (np.zeros(40), "sample_weight is zero for all rows"),
        ((np.arange(40) % 3 == 0) * 1.0, "y holds 1 class"),
    ],
)
def test_weights_that_do_not_fit_are_refused(weights, message):
    vectors, _, true = rows(40)
    with pytest.raises(InputError, match=message):
        plain().fit(vectors, true, sample_weight=weights)


@pytest.mark.parametrize("verified", [[True], np.zeros(40), "yes"])
def test_a_mask_that_does_not_fit_is_refused(verified):
    vectors, given, _ = rows(40)
    with pytest.raises(InputError, match=r"verified has shape .*each of the 40 rows"):
        plain().fit(vectors, given, verified=verified)


@pytest.mark.parametrize(
    ("count", "shape", "batch", "epochs"),
    [
        (30, (4,), 16, 100),  # 2 steps an epoch; no more than 100
        (300, (4,), 30, 60),  # 10 steps
        (3_000, (4,), 128, 25),  # 24 steps
        (50_000, (4,), 128, 24),  # no fewer than the preset's
        (50_000, (3, 32, 32), 64, 36),
    ],
)
def test_epochs_and_batches_are_sized_to_the_data(count, shape, batch, epochs):
    spec = settings("ce", Size(shape, count, 3), None, None)
    assert (spec.options["batch_size"], spec.epochs) == (batch, epochs)


def test_what_the_user_says_goes_before():
    own = {"batch_size": 7, "doubtful_weight": 3.0, "warmup_epochs": 2}
    assert own.items() <= settings("ulc", Size((4,), 100, 3), 5, own).options.items()
    assert settings("ulc", Size((4,), 100, 3), 5, None).options["doubtful_weight"] == 1
    assert settings("ulc", Size((4,), 5_000, 3), 5, None).options["doubtful_weight"] == 5  # preset


@pytest.mark.parametrize(
    ("rows", "classes", "folds"),
    [(2_999, 10, 5), (3_000, 10, 2), (19_999, 1_000, 5), (20_000, 1_000, 2)],
)
def test_few_rows_in_all_or_of_a_class_have_five_folds(rows, classes, folds):
    options = settings("ulc_plus", Size((4,), rows, classes), 5, None).options
    assert configure("ulc_plus", options).folds == folds


@pytest.mark.slow
def test_import_is_light_and_finds_the_names():
    code = (
        "import sys, ulc; heavy = {'torch', 'pandas', 'sklearn'};"
        "assert not heavy & set(sys.modules), sys.modules;"
        "assert ulc.ULCClassifier().get_params()['options'] is None"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_the_guide_s_examples_run():
    for code in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
        exec(compile(code, "estimator.md", "exec"), {})


def test_numbers_of_numpy_are_saved_as_numbers_and_other_objects_are_refused():
    content = {"a": np.float32(0.5), "b": np.arange(3), "c": [np.bool_(True), "text", None]}
    assert to_json_values(content, "x") == {"a": 0.5, "b": [0, 1, 2], "c": [True, "text", None]}
    message = r"the parameters cannot be saved \(set is no JSON\); use numbers and strings, or pick"
    with pytest.raises(InputError, match=message):
        to_json_values({"a": {1, 2}}, "the parameters")
