"""Outliers and almost equal rows."""

import json

import numpy as np
import pytest

from ulc.labels import neighbours
from ulc.labels.duplicates import find_copies
from ulc.labels.files import LabelFiles
from ulc.labels.judgement import Judgement
from ulc.labels.neighbours import find_neighbours
from ulc.storage.run_folder import RunFolder


def odd_vectors(rows=600, width=12):
    """Normal rows, among which row 5 is far away, 8 almost equals 7, and 10 to 59 are copies."""
    vectors = np.random.default_rng(0).normal(0, 1, (rows, width)).astype(np.float32)
    vectors[5] *= 8
    vectors[8] = vectors[7] + 1e-3
    vectors[10:60] = vectors[10]
    return vectors


def find(vectors):
    return find_neighbours(vectors, find_copies(vectors))


def test_a_far_row_is_an_outlier_and_almost_equal_rows_are_a_pair():
    found = find(odd_vectors())
    assert found.checked == 600 - 49  # copies are looked at once
    assert found.outliers.tolist() == [5]
    assert found.far[0] > 3
    assert found.pairs.tolist() == [[7, 8]]
    assert 0 < found.near[0] < 0.05


def test_rows_without_oddities_have_none():
    vectors = np.random.default_rng(1).normal(0, 1, (2000, 8))
    found = find(vectors)
    assert len(found.outliers) <= 2  # tails
    assert len(found.pairs) == 0


def test_the_order_of_the_rows_and_the_unit_do_not_matter():
    vectors = odd_vectors()
    order = np.random.default_rng(2).permutation(len(vectors))
    found = find(1000 * vectors[order])
    assert order[found.outliers].tolist() == [5]
    assert sorted(order[found.pairs[0]]) == [7, 8]


def test_many_rows_are_compared_with_some(monkeypatch):
    monkeypatch.setattr(neighbours, "DISTANCES", 1)
    monkeypatch.setattr(neighbours, "REFERENCE", (100, 200))
    monkeypatch.setattr(neighbours, "FITTED", 100)
    found = find(odd_vectors())
    assert found.outliers[0] == 5
    assert found.pairs.tolist() == [[7, 8]]
    monkeypatch.setattr(neighbours, "MOST_ROWS", 300)
    assert find(odd_vectors()).checked == 300


def test_in_few_dimensions_rows_are_close_by_chance():
    vectors = np.random.default_rng(0).normal(0, 1, (5000, 2))
    assert len(find(vectors).pairs) == 0


@pytest.mark.parametrize(
    "inputs",
    [
        np.zeros((50, 1, 8, 8), np.uint8),  # images
        np.random.default_rng(0).normal(0, 1, (15, 3)),  # few
        np.ones((100, 3)),  # all equal
        np.arange(300).reshape(100, 3) * 5e-324,  # equal as far as distances can tell
        np.random.default_rng(0).normal(0, 1, (30, 2000)),  # too wide
    ],
)
def test_images_few_equal_and_wide_rows_are_not_compared(inputs):
    assert find(inputs) is None


def test_health_names_the_rows(tmp_path):
    labels = np.arange(600) % 2
    judgement = Judgement(
        given=labels,
        clean_probability=np.ones(600),
        prediction=np.eye(2)[labels],
        epistemic=np.zeros(600),
        aleatoric=np.zeros(600),
        score_kind="posterior",
    )
    ids = [f"row-{row}" for row in range(600)]
    files = LabelFiles(judgement, ["a", "b"], 0.5, ids, inputs=odd_vectors(), odd_rows=True)
    files.write(RunFolder(tmp_path))
    health = json.loads((tmp_path / "health.json").read_text())
    (outlier,) = health["outliers"]["listed"]
    assert (outlier["id"], outlier["label"]) == ("row-5", "b")
    assert (health["outliers"]["rows"], health["outliers"]["checked"]) == (1, 551)
    (pair,) = health["near_duplicates"]["listed"]
    assert (pair["ids"], pair["labels"]) == (["row-7", "row-8"], ["b", "a"])
    assert (health["near_duplicates"]["pairs"], health["near_duplicates"]["conflicts"]) == (1, 1)


@pytest.mark.parametrize("members", [300, 40])
def test_the_distance_is_that_to_the_tenth_other_row_among_those_compared(monkeypatch, members):
    """By hand: sorted distances to all compared rows, without the row itself."""
    monkeypatch.setattr(neighbours, "DISTANCES", 1)
    monkeypatch.setattr(neighbours, "REFERENCE", (members, members))
    monkeypatch.setattr(neighbours, "BLOCK", 64)
    places = np.random.default_rng(0).normal(size=(300, 5))
    compared = neighbours.evenly(300, members)
    assert len(compared) == members
    by_hand = [
        sorted(np.linalg.norm(places[row] - places[[m for m in compared if m != row]], axis=1))[9]
        for row in range(300)
    ]
    np.testing.assert_allclose(neighbours.neighbour_distance(places), by_hand, rtol=1e-3)


def test_numbers_at_even_distances_begin_and_end_at_the_ends():
    assert neighbours.evenly(10, 4).tolist() == [0, 3, 6, 9]
    assert neighbours.evenly(3, 5).tolist() == [0, 1, 2]


def test_principal_axes_are_orthonormal_and_their_variances_are_shares():
    features = np.random.default_rng(0).normal(size=(200, 6)) * [5, 3, 2, 1, 0.5, 0.1] + 7
    axes, shares = neighbours.principal_axes(features, 3)
    np.testing.assert_allclose(axes.T @ axes, np.eye(3), atol=1e-9)
    variances = (features @ axes).var(0)
    np.testing.assert_allclose(shares, variances / features.var(0).sum(), rtol=1e-6)
    assert (np.diff(shares) < 0).all()
    assert (axes[np.abs(axes).argmax(0), range(3)] > 0).all()
    _, none = neighbours.principal_axes(np.ones((5, 2)), 2)
    assert none.tolist() == [0, 0]


def test_outliers_come_farthest_first():
    distance = np.random.default_rng(0).uniform(1, 1.1, 100)
    distance[[3, 50, 70]] = 20, 40, 30
    assert neighbours.lonely_places(distance).tolist() == [50, 70, 3]
    assert neighbours.lonely_places(np.ones(100)).tolist() == []


def test_an_outlier_is_five_robust_standard_deviations_above_the_median_on_the_log_scale():
    """Logs −1, 0 and 1: median 0, standard deviation 1.4826, so the bound is 7.413."""
    logs = np.r_[np.tile([-1.0, 0.0, 1.0], 40), 7.3, 7.5]
    assert neighbours.lonely_places(np.exp(logs)).tolist() == [121]


def test_distances_are_multiples_of_the_median_distance_whatever_the_unit():
    vectors = odd_vectors()
    found, larger = find(vectors), find(1000 * vectors)
    assert larger.far == pytest.approx(found.far, rel=1e-3)
    assert larger.near == pytest.approx(found.near, rel=1e-3)


@pytest.mark.parametrize(("width", "pairs"), [(3, []), (4, [[7, 8]])])
def test_pairs_are_sought_in_four_dimensions_and_more(width, pairs):
    vectors = np.random.default_rng(0).normal(0, 1, (100, width))
    vectors[8] = vectors[7] + 1e-6
    assert find(vectors).pairs.tolist() == pairs


def test_neighbours_need_more_rows_than_two_tens_and_rows_that_are_not_too_wide(monkeypatch):
    vectors = np.random.default_rng(0).normal(0, 1, (21, 6))
    monkeypatch.setattr(neighbours, "WIDEST", 6)
    assert find(vectors).checked == 21
    assert find(vectors[:20]) is None
    monkeypatch.setattr(neighbours, "WIDEST", 5)
    assert find(vectors) is None


@pytest.mark.parametrize("count", [99, 100, 101, 150])
def test_at_most_a_hundred_rows_and_pairs_are_written_and_all_are_counted(count):
    rows, far = np.arange(count), np.linspace(9, 5, count)
    found = neighbours.Neighbours(500, rows, far, np.stack([rows, rows + count], 1), far / 1000)
    given = np.arange(2 * count) % 2
    outliers = neighbours.outlier_entry(found, given, ["a", "b"], None)
    pairs = neighbours.near_duplicate_entry(found, given, ["a", "b"], None)
    assert (outliers["rows"], pairs["pairs"]) == (count, count)
    assert [each["id"] for each in outliers["listed"]] == rows[:100].tolist()
    assert [each["ids"] for each in pairs["listed"]] == found.pairs[:100].tolist()
    assert pairs["conflicts"] == (count if count % 2 else 0)


def test_distances_are_written_with_as_many_digits_as_say_something():
    pi = np.array([np.pi])
    found = neighbours.Neighbours(2, np.array([0]), pi, np.array([[0, 1]]), pi / 100)
    named = (np.array([0, 0]), ["a"], ["r", "s"])
    assert neighbours.outlier_entry(found, *named)["listed"][0]["distance"] == 3.142
    assert neighbours.near_duplicate_entry(found, *named)["listed"][0]["distance"] == 0.0314
