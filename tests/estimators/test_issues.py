"""Wrong labels from a model's own outputs."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from stub_data import LABEL_COLUMNS
from ulc import InputError, find_label_issues
from ulc.blocks.loss_mixture import GaussianLossMixture
from ulc.labels.confusion import ConfusionModel

FRUIT = np.array(["apple", "banana", "cherry"])


@pytest.fixture(scope="module")
def noisy():
    """Vectors, given labels, true labels, and a model's out-of-sample probabilities."""
    rng = np.random.default_rng(0)
    true = np.arange(300) % 3
    vectors = rng.normal(size=(300, 4)) + 4 * np.eye(3, 4)[true]
    given = np.where(rng.random(300) < 0.2, (true + 1) % 3, true)
    model = LogisticRegression()
    return vectors, given, true, cross_val_predict(model, vectors, given, method="predict_proba")


def losses_of(probability, given):
    return -np.log(probability[np.arange(len(given)), given])


def test_probabilities_give_issues_and_suggestions(noisy):
    _, given, true, probability = noisy
    table = find_label_issues(FRUIT[given], pred_probs=probability)
    assert list(table.columns) == LABEL_COLUMNS
    assert set(table.score_kind) == {"posterior"}
    wrong = given != true
    assert (table.is_label_issue == wrong).mean() > 0.9
    assert (table.suggested_label == FRUIT[true]).mean() > 0.9
    assert table.given_label.tolist() == FRUIT[given].tolist()
    assert table.epistemic.between(0, 1).all()


def test_probabilities_are_judged_by_which_class_is_taken_for_which(noisy):
    _, given, _, probability = noisy
    table = find_label_issues(given, pred_probs=probability)
    posterior = ConfusionModel.fit(probability, given).posterior(probability, given)
    np.testing.assert_allclose(table.label_score, posterior[np.arange(300), given])
    assert table.suggested_label.tolist() == posterior.argmax(1).tolist()
    assert table.is_label_issue.tolist() == (posterior.argmax(1) != given).tolist()


def test_losses_are_judged_by_a_mixture_for_each_class_and_suggest_nothing(noisy):
    _, given, _, probability = noisy
    losses = losses_of(probability, given)
    table = find_label_issues(FRUIT[given], losses=losses)
    assert list(table.columns) == LABEL_COLUMNS
    assert set(table.score_kind) == {"mixture"}
    model = GaussianLossMixture(per_class=True, one_component_guard=True)
    belief = model.fit_predict(torch.from_numpy(losses), torch.from_numpy(given), 3)
    np.testing.assert_array_equal(table.label_score, belief.clean_probability.numpy())
    assert (table.is_label_issue == (table.label_score < 0.5)).all()
    assert table.suggested_label.isna().all()
    assert table.predicted_label.isna().all()
    np.testing.assert_allclose(table.loss, losses)


@pytest.mark.slow
def test_features_are_enough(noisy):
    vectors, given, true, _ = noisy
    frame = pd.DataFrame(vectors, index=np.arange(300)[::-1])
    table = find_label_issues(FRUIT[given], features=frame, random_state=0)
    wrong = given != true
    assert (table.is_label_issue.to_numpy() == wrong).mean() > 0.9
    assert table.index.tolist() == frame.index.tolist()


def test_the_index_of_the_labels_survives(noisy):
    _, given, _, probability = noisy
    labels = pd.Series(given, index=np.arange(300)[::-1])
    assert find_label_issues(labels, pred_probs=probability).index.tolist() == list(labels.index)


def test_tensors_are_taken(noisy):
    _, given, _, probability = noisy
    pd.testing.assert_frame_equal(
        find_label_issues(torch.from_numpy(given), pred_probs=torch.from_numpy(probability)),
        find_label_issues(given, pred_probs=probability),
    )


def test_columns_belong_to_the_classes_that_are_named(noisy):
    _, given, _, probability = noisy
    names = FRUIT[::-1]
    named = find_label_issues(FRUIT[given], pred_probs=probability[:, ::-1], classes=names)
    sorted_ = find_label_issues(FRUIT[given], pred_probs=probability)
    assert named.suggested_label.tolist() == sorted_.suggested_label.tolist()


def test_a_class_without_rows_has_a_column_all_the_same():
    table = find_label_issues([0, 0, 2], pred_probs=[[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0, 0, 1]])
    assert len(table) == 3
    assert set(table.predicted_label) <= {0, 1, 2}


def test_the_first_two_arguments_are_those_of_cleanlab(noisy):
    _, given, _, probability = noisy
    pd.testing.assert_frame_equal(
        find_label_issues(given, probability), find_label_issues(given, pred_probs=probability)
    )
    with pytest.raises(TypeError):
        find_label_issues(given, probability, losses_of(probability, given))


@pytest.mark.parametrize("kind", ["losses", "pred_probs"])
def test_outputs_learned_by_heart_are_warned_of(noisy, kind):
    _, given, _, probability = noisy
    sure = 0.98 * np.eye(3)[given] + 0.02 / 3
    outputs = {"losses": losses_of(sure, given), "pred_probs": sure}
    with pytest.warns(UserWarning, match="out-of-sample outputs") as caught:
        find_label_issues(given, **{kind: outputs[kind]})
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        find_label_issues(given, pred_probs=probability)


@pytest.mark.parametrize(
    ("labels", "outputs", "message"),
    [
        ([0, 1], {}, "give one of losses, pred_probs and features; found none"),
        ([0, 1], {"losses": [1, 2], "features": [[1], [2]]}, "found losses and features"),
        ([0, 1], {"losses": [1.0]}, "one loss for each label"),
        ([0, 1], {"losses": [1.0, np.nan]}, "missing or infinite value in row 1"),
        ([], {"losses": []}, "one label for each row"),
        ([0, 1], {"pred_probs": [[0.5, 0.5]]}, "give 2 rows"),
        ([0, 1], {"pred_probs": [[0.5, 0.5], [3.0, -2.0]]}, "row 1 .* has a negative value"),
        ([0, 1], {"pred_probs": [[0.5, 0.5], [0.5, 0.2]]}, "row 1 .* it sums to 0.7; .* logits"),
        ([[0.5, 0.5], [0.9, 0.1]], {"pred_probs": [0, 1]}, "give the labels first, then pred_pr"),
        ([0, 1], {"pred_probs": [0.1, 0.2]}, "for each class, .N, K., or losses as losses="),
        ([0, 3], {"pred_probs": [[0.5, 0.3, 0.2]] * 2}, "label 3 is outside the columns 0 to 2"),
        ([-1, 0], {"pred_probs": [[0.5, 0.3, 0.2]] * 2}, "label -1 is outside the columns"),
        ([[0], [0, 1]], {"pred_probs": [[0.5, 0.5]] * 2}, "labels are lists; give one label"),
        ([0.0, np.nan], {"pred_probs": [[0.5, 0.5]] * 2}, "row 1 has no label; leave"),
        ([0, 1], {"pred_probs": [["a", "b"]] * 2}, "values that are no numbers"),
        (["a", "b", "c"], {"pred_probs": [[0.5, 0.5]] * 3}, "2 columns for 3 classes"),
        ([0, 2], {"pred_probs": [[0.5, 0.5]] * 2, "classes": [0, 1]}, "label 2 is not among"),
    ],
)
def test_a_mistake_ends_in_one_sentence(labels, outputs, message):
    with pytest.raises(InputError, match=message) as caught:
        find_label_issues(labels, **outputs)
    assert "\n" not in str(caught.value)
