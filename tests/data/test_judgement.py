"""An opinion on three labels, worked by hand."""

import numpy as np
import pytest

from ulc.judgement import Judgement
from ulc.labels_table import COLUMNS, as_csv, label_rows


@pytest.fixture
def judgement():
    """Label 0 is right, label 1 surely wrong, label 2 as likely as not."""
    return Judgement(
        given=np.array([0, 1, 2]),
        clean_probability=np.array([1.0, 0.0, 0.5]),
        prediction=np.array([[0.2, 0.4, 0.4], [0.7, 0.2, 0.1], [0.9, 0.1, 0.0]]),
        epistemic=np.array([0.9, 0.5, np.nan]),
        aleatoric=np.array([0.1, 0.2, np.nan]),
    )


def test_corrected_lies_between_the_given_label_and_the_prediction(judgement):
    """Third: 0.5·(0, 0, 1) + 0.5·(0.9, 0.1, 0) = (0.45, 0.05, 0.5)."""
    expected = [[1, 0, 0], [0.7, 0.2, 0.1], [0.45, 0.05, 0.5]]
    assert np.allclose(judgement.corrected, expected)


def test_suggested_is_what_the_corrected_label_favours(judgement):
    assert judgement.suggested.tolist() == [0, 0, 2]


def test_the_class_prior_is_the_mean_of_the_corrected_labels(judgement):
    """Columns sum to 2.15, 0.25 and 0.6, of 3 in all."""
    assert np.allclose(judgement.class_prior, [2.15 / 3, 0.25 / 3, 0.2])


def test_trusted_includes_the_threshold(judgement):
    assert judgement.trusted(0.5).tolist() == [True, False, True]


def test_looking_changes_nothing(judgement):
    before = judgement.prediction.copy()
    assert np.array_equal(judgement.corrected, judgement.corrected)
    assert np.array_equal(judgement.prediction, before)


def test_without_an_opinion_a_label_is_believed_as_far_as_it_is_predicted():
    prediction = np.array([[0.2, 0.8], [0.9, 0.1]], np.float32)
    plain = Judgement.of(prediction, np.array([0, 0]))
    assert np.allclose(plain.clean_probability, [0.2, 0.9])
    assert np.isnan(plain.epistemic).all()
    assert np.isnan(plain.aleatoric).all()


def test_it_is_stored_and_made_again_by_name(judgement):
    again = Judgement(**judgement.arrays())
    assert again.corrected.tolist() == judgement.corrected.tolist()


def test_the_table_has_the_most_suspicious_label_first(judgement):
    """Of the two that stay, the third is less likely right; its loss −log(10⁻⁸) is cut."""
    rows = list(label_rows(judgement, ("cat", "dog", "cow"), 0.6))
    assert [row["id"] for row in rows] == [1, 2, 0]
    assert rows[0] == {
        "id": 1,
        "is_label_issue": True,
        "label_score": 0.0,
        "given_label": "dog",
        "predicted_label": "cat",
        "suggested_label": "cat",
        "epistemic": 0.5,
        "aleatoric": 0.2,
        "loss": round(-np.log(0.2), 6),
    }
    # Doubted, but nothing better is suggested.
    assert rows[1]["is_label_issue"] is False
    assert rows[1]["epistemic"] is None
    assert rows[1]["loss"] == pytest.approx(18.420681)


def test_the_csv_has_a_header_and_a_line_a_label(judgement):
    lines = as_csv(label_rows(judgement, ("cat", "dog", "cow, brown"), 0.5)).splitlines()
    assert lines[0].split(",") == list(COLUMNS)
    assert lines[1].startswith("1,True,0.0,dog,cat,cat,0.5,0.2,")
    assert '"cow, brown"' in lines[2]
    assert len(lines) == 4
