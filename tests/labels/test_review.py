"""The labels most worth a look, and the errors to expect among them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ulc as package
from stub_runs import judged_run
from ulc.config import DataSpec
from ulc.errors import InputError
from ulc.labels.review import Review, find_review, review_columns

NONE = np.zeros(5, bool)
SCORE = np.array([0.9, 0.2, 1.0, 0.6, 0.2])


def test_the_lowest_scores_come_first_and_equal_ones_in_the_order_of_the_data():
    review = Review.of(SCORE, 4, NONE)
    assert review.rows.tolist() == [1, 4, 3, 0]


def test_the_errors_to_expect_are_the_sum_of_one_minus_score():
    """0.8, then 0.8 + 0.8, then + 0.4."""
    review = Review.of(SCORE, 3, NONE)
    assert np.allclose(review.expected, [0.8, 1.6, 2.0])
    assert review.errors == pytest.approx(2.0)


def test_a_review_of_more_labels_than_there_are_has_all_but_the_verified_ones():
    verified = np.array([False, True, False, False, False])
    assert Review.of(SCORE, 99, verified).rows.tolist() == [4, 3, 0, 2]
    assert Review.of(SCORE, 9, ~NONE).errors == 0


@pytest.fixture
def run():
    """Three doubted rows with scores 0.1, 0.2, 0.3; the others have 0.9."""
    lines = [f"r{i},{'uv'[i % 2]},{i}" for i in range(12)]
    Path("t.csv").write_text("\n".join(["id,label,x", *lines]))
    data = DataSpec(source="table", path="t.csv", id="id")
    return judged_run(data, {3: "u", 4: "v", 7: "u"})


def test_the_file_lists_labels_that_look_right_too(ulc, run):
    code, printed = ulc("show", run.path, "--review", 5)
    assert code == 0
    assert "Of the 5 labels with the lowest scores, about 3 are expected to be wrong" in printed.out
    table = pd.read_csv(run.path / "review.csv")
    assert list(table["id"]) == ["r3", "r4", "r7", "r0", "r1"]
    assert list(table["is_label_issue"]) == [True, True, True, False, False]
    np.testing.assert_allclose(table["expected_errors"], [0.9, 1.7, 2.4, 2.5, 2.6], atol=1e-6)
    labels = pd.read_csv(run.path / "labels.csv")
    assert list(table.columns) == [*labels.columns, "expected_errors"]
    pd.testing.assert_frame_equal(package.load_run(run.path).review(5), table)


def test_programs_get_the_number_of_errors_and_the_file(ulc, run):
    _, printed = ulc("show", run.path, "--review", 2, "--json")
    found = json.loads(printed.out)[0]["review"]
    assert found == {
        "labels": 2,
        "expected_errors": pytest.approx(1.7),
        "file": str(run.path / "review.csv"),
    }


def test_a_long_review_is_cut_on_the_screen_only(ulc, run, monkeypatch):
    monkeypatch.setattr("ulc.cli.tables.MOST_REVIEWED", 2)
    _, printed = ulc("show", run.path, "--review", 9)
    assert "r4" in printed.out
    assert "r7" not in printed.out
    assert len(pd.read_csv(run.path / "review.csv")) == 9


@pytest.mark.parametrize("count", [0, -3, 2.5, True, "ten"])
def test_anything_but_a_number_of_labels_is_refused_before_the_audit(count):
    with pytest.raises(InputError, match=r"review is .*; give a number of labels, at least 1"):
        package.audit("gone", review=count)


def test_ids_that_are_not_one_for_each_row_are_refused(run):
    review = find_review(run, 3)
    assert list(review_columns(run, review)["id"]) == ["r3", "r4", "r7"]
    run.write_json("ids.json", run.ids[:-1])
    with pytest.raises(InputError, match=r"ids\.json is damaged \(11 ids, not 12\)"):
        review_columns(run, review)
