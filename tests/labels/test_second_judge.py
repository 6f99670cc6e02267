"""The second judge: leave-one-out predictions of a kernel ridge regression, and the pool."""

import numpy as np
import pytest

from ulc.labels import second_judge
from ulc.labels.second_judge import FourierFeatures, Ridge, Targets, judge_by_kernel, pool

K = 3


def clusters(rows=300, *, wrong=0.2, seed=0):
    """Points around three centres, given labels of which some are wrong, and true labels."""
    rng = np.random.default_rng(seed)
    true = np.arange(rows) % K
    inputs = (3 * np.eye(K)[true] + rng.normal(size=(rows, K))).astype(np.float32)
    given = np.where(rng.random(rows) < wrong, (true + rng.integers(1, K, rows)) % K, true)
    return inputs, given, true


@pytest.fixture
def few_features(monkeypatch):
    monkeypatch.setattr(second_judge, "FEATURES", 40)
    monkeypatch.setattr(second_judge, "BLOCK", 64)


@pytest.mark.usefixtures("few_features")
def test_scores_are_those_of_regressions_that_leave_the_row_and_its_copies_out():
    """Compared with a regression that is fitted anew without these rows."""
    inputs, given, _ = clusters(150)
    inputs[70] = inputs[80] = inputs[5]
    first_copy = np.arange(150)
    first_copy[[70, 80]] = 5
    features = FourierFeatures.draw(inputs)
    targets = Targets.of(given, K, first_copy)
    ridge = Ridge.fit(features, targets)
    penalty = 0.7
    scores = ridge.predict(features.of(slice(None)) @ ridge.vectors, slice(None), penalty)
    every = features.of(slice(None)).astype(float)
    for row in (0, 5, 70, 149):
        kept = first_copy != first_copy[row]
        matrix = every[kept].T @ every[kept] + penalty * np.eye(40)
        weights = np.linalg.solve(matrix, every[kept].T @ targets.centred(kept))
        assert scores[row] == pytest.approx(every[row] @ weights, abs=1e-3)


def test_features_give_the_gaussian_kernel():
    inputs, _, _ = clusters(200)
    features = FourierFeatures.draw(inputs)
    kernel = features.of(slice(0, 100)) @ features.of(slice(100, 200)).T
    distance = ((inputs[:100, None] - inputs[None, 100:]) ** 2).sum(2)
    width = 1 / features.directions.std()
    assert kernel == pytest.approx(np.exp(-distance / (2 * width**2)), abs=0.15)


def test_the_label_of_a_row_does_not_change_its_own_prediction():
    """But for the scale of all scores, and the mean label."""
    inputs, given, true = clusters()
    other = given.copy()
    other[10] = (true[10] + 1) % K
    given[10] = true[10]
    one, two = (judge_by_kernel(inputs, each, K, np.arange(300))[10] for each in (given, other))
    assert one.argmax() == two.argmax() == true[10]
    assert one == pytest.approx(two, abs=0.1)


def test_it_finds_the_true_classes_behind_wrong_labels():
    inputs, given, true = clusters(wrong=0.3)
    log_probability = judge_by_kernel(inputs, given, K, np.arange(300))
    assert np.exp(log_probability).sum(1) == pytest.approx(1, abs=1e-5)
    assert (log_probability.argmax(1) == true).mean() > 0.9


@pytest.mark.parametrize("rows", [6, 30])
def test_rows_that_are_all_equal_have_finite_predictions(rows):
    """All rows are copies of the first one, so nothing is left to learn from."""
    given = np.arange(rows) % K
    first_copy = np.zeros(rows, int)
    log_probability = judge_by_kernel(np.ones((rows, 2), np.float32), given, K, first_copy)
    assert np.isfinite(log_probability).all()


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_rows_of_classes_that_lie_apart_are_predicted_surely_whatever_their_number(classes):
    given = np.arange(240) % classes
    noise = np.random.default_rng(0).normal(0, 0.1, (240, classes))
    inputs = (5 * np.eye(classes)[given] + noise).astype(np.float32)
    probability = np.exp(judge_by_kernel(inputs, given, classes, np.arange(240)))
    assert np.median(probability[np.arange(240), given]) > 0.9


def test_the_pool_is_a_normalised_geometric_mean():
    """√(0.8·0.5) : √(0.2·0.5) = 2 : 1; a judge who knows nothing makes the other less sure."""
    pooled = pool(np.array([[0.8, 0.2]]), np.log([[0.5, 0.5]]))
    assert pooled == pytest.approx(np.array([[2 / 3, 1 / 3]]))
    many = np.random.default_rng(0).dirichlet(np.ones(3), 5)
    assert pool(many, np.log(many)) == pytest.approx(many)  # two equal predictions
    sure = np.array([[0.99, 0.01, 0.0]])
    assert pool(sure, np.log([[0.9, 0.05, 0.05]]))[0].argmax() == 0
    assert np.isfinite(pool(sure, np.log([[0.9, 0.05, 0.05]]))).all()
