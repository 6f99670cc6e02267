"""Scores, worked by hand."""

import numpy as np
import pytest
from hypothesis import given as given_values
from hypothesis import settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from ulc.evaluation.judgement_scores import by_group, detection, score_judgement
from ulc.evaluation.prediction_scores import calibration_error, score_predictions
from ulc.evaluation.ranking import ranking
from ulc.labels.judgement import Judgement


def test_accuracy_in_all_by_class_and_by_group():
    """Three of four right in class 0, one of two in class 1, which is small; class 2 is absent."""
    labels = np.array([0, 0, 0, 0, 1, 1])
    predicted = np.array([0, 0, 0, 1, 1, 0])
    probability = np.eye(3)[predicted]
    scores = score_predictions(probability, labels, np.array([False, True, False]))
    assert scores["accuracy"] == pytest.approx(4 / 6)
    assert scores["per_class_accuracy"] == [0.75, 0.5, None]
    assert scores["balanced_accuracy"] == pytest.approx(0.625)
    assert scores["small_accuracy"] == 0.5
    assert scores["large_accuracy"] == 0.75


def test_calibration_error_is_the_gap_of_confidence_and_accuracy():
    """Two at 0.95, one right: a gap of |1.9 − 1| in one bin; two at 0.55, both right: |1.1 − 2|."""
    confidence = np.array([0.95, 0.95, 0.55, 0.55])
    right = np.array([True, False, True, True])
    assert calibration_error(confidence, right) == pytest.approx((0.9 + 0.9) / 4)
    assert calibration_error(np.ones(3), np.ones(3, bool)) == 0


def judge(clean, epistemic=None):
    """A judgement of labels that are all of class 0."""
    nothing = np.full(len(clean), np.nan)
    given = np.zeros(len(clean), int)
    doubt = nothing if epistemic is None else np.array(epistemic)
    return Judgement(given, np.array(clean), np.full((len(clean), 2), 0.5), doubt, nothing)


def detect(judgement, wrong):
    return detection(judgement, np.array(wrong).astype(int), np.ones(len(wrong), bool), 0.5)


def test_detection_at_the_threshold_and_by_rank():
    """Wrong labels score 0.1 and 0.6, right ones 0.4, 0.5 and 0.9; below 0.5 are 0.1 and 0.4.

    Pairs (wrong, right) in the right order: 0.1 beats three, 0.6 beats only 0.9: 4 of 6.
    """
    scores = detect(judge([0.1, 0.6, 0.4, 0.5, 0.9]), [True, True, False, False, False])
    assert scores["auc"] == pytest.approx(4 / 6)
    assert scores["precision"] == 0.5
    assert scores["recall"] == 0.5
    assert scores["trusted_correct"] == pytest.approx(2 / 3)
    assert scores["certainty_auc"] is None


def test_a_score_is_calibrated_if_it_is_the_share_of_correct_labels():
    """Four labels of score 0.75, of which three are right: no error; all right: 0.25 off."""
    assert detect(judge([0.75] * 4), [True, False, False, False])["calibration_error"] == 0
    assert detect(judge([0.75] * 4), [False] * 4)["calibration_error"] == pytest.approx(0.25)


def test_certainty_ranks_by_one_minus_the_epistemic_uncertainty():
    """Wrong labels have ε of .9 and .2, right ones .1 and .5: three of four pairs are in order."""
    scores = detect(judge([0.5] * 4, [0.9, 0.2, 0.1, 0.5]), [True, True, False, False])
    assert scores["certainty_auc"] == pytest.approx(3 / 4)


def test_where_nothing_is_wrong_there_is_nothing_to_find():
    scores = detect(judge([0.2, 0.9]), [False, False])
    assert scores["auc"] is None
    assert scores["precision"] is None
    assert scores["recall"] is None
    assert scores["trusted_correct"] == 0.5


def test_a_label_belongs_to_the_group_of_its_given_class():
    given, true = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0])
    prediction = np.full((4, 2), 0.5)
    nothing = np.full(4, np.nan)
    judgement = Judgement(given, np.array([0.9, 0.1, 0.9, 0.8]), prediction, nothing, nothing)
    scores = score_judgement(judgement, true, np.array([False, True]), 0.5)
    assert scores["large"]["recall"] == 1
    assert scores["small"]["recall"] == 0
    groups = by_group(judgement, {"norm": np.array([2.0, 1.0])}, np.array([False, True]))
    unknown = {"epistemic": None, "aleatoric": None, "aleatoric_spread": None}
    assert groups["small"] == unknown | {"norm": 1.0}


def test_uncertainties_of_a_group_have_a_mean_and_a_spread():
    """σ of 1 and 3 in the one class: mean 2, standard deviation 1."""
    given, prediction = np.array([0, 0, 1]), np.full((3, 2), 0.5)
    aleatoric = np.array([1.0, 3.0, 5.0])
    judgement = Judgement(given, np.ones(3), prediction, np.array([0.2, 0.4, 0.9]), aleatoric)
    large = by_group(judgement, {}, np.array([False, True]))["large"]
    assert large == {"epistemic": pytest.approx(0.3), "aleatoric": 2.0, "aleatoric_spread": 1.0}


def test_ranking_by_hand():
    """Smallest first: wrong, right, right, wrong, right. Wrong ones are found at precision 1 and
    2 of 4; they precede 3 and 1 of the 3 right ones."""
    auc, precision = ranking(
        np.array([0.1, 0.6, 0.4, 0.5, 0.9]), np.array([True, True, False, False, False])
    )
    assert auc == pytest.approx(4 / 6)
    assert precision == pytest.approx((1 + 2 / 4) / 2)


@settings(max_examples=100, deadline=None)
@given_values(
    st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=30).filter(
        lambda pairs: len({sought for _, sought in pairs}) == 2
    )
)
def test_ranking_is_scikit_learns(pairs):
    """Also where values are alike."""
    values = np.array([value / 7 for value, _ in pairs])
    sought = np.array([each for _, each in pairs])
    auc, precision = ranking(values, sought)
    assert auc == pytest.approx(roc_auc_score(sought, -values))
    assert precision == pytest.approx(average_precision_score(sought, -values))


@pytest.mark.parametrize("sought", [True, False])
def test_where_all_or_none_are_sought_there_is_no_ranking(sought):
    assert ranking(np.array([0.1, 0.2]), np.array([sought, sought])) == (None, None)
