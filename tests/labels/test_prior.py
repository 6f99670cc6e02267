"""Predictions under another class prior, worked by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ulc.errors import InputError
from ulc.labels.prior import checked_prior, with_prior

PROBABILITY = np.array([[0.8, 0.2], [0.5, 0.5]])
LEARNED = np.array([0.8, 0.2])


def test_the_training_prior_changes_nothing():
    assert with_prior(PROBABILITY, LEARNED, "training") is PROBABILITY


def test_the_balanced_prior_divides_the_learned_one_out():
    """0.8 / 0.8 and 0.2 / 0.2 are even; 0.5 / 0.8 : 0.5 / 0.2 is 1 : 4."""
    balanced = with_prior(PROBABILITY, LEARNED, "balanced")
    assert np.allclose(balanced, [[0.5, 0.5], [0.2, 0.8]])


def test_numbers_take_the_learned_prior_s_place_whatever_their_scale():
    """0.8·(3/0.8) : 0.2·(1/0.2) is 3 : 1; 0.5·(3/0.8) : 0.5·(1/0.2) is 1.875 : 2.5, 3 : 4."""
    expected = [[0.75, 0.25], [3 / 7, 4 / 7]]
    assert np.allclose(with_prior(PROBABILITY, LEARNED, [3, 1]), expected)
    assert np.allclose(with_prior(PROBABILITY, LEARNED, [0.75, 0.25]), expected)


def test_a_class_with_prior_zero_is_never_predicted():
    assert with_prior(PROBABILITY, LEARNED, [0, 1]).tolist() == [[0, 1], [0, 1]]


def test_a_class_that_was_never_learned_does_not_become_infinite():
    shifted = with_prior(np.array([[1.0, 0.0]]), np.array([1.0, 0.0]), "balanced")
    assert shifted.tolist() == [[1, 0]]


numbers = st.lists(st.floats(0.01, 1), min_size=3, max_size=3).map(np.array)


@given(numbers, numbers, numbers)
@settings(max_examples=40, deadline=None)
def test_there_and_back_is_where_it_was(values, first, second):
    probability = (values / values.sum())[None]
    first, second = first / first.sum(), second / second.sum()
    there = with_prior(probability, first, second.tolist())
    assert there.sum() == pytest.approx(1)
    assert np.allclose(with_prior(there, second, first.tolist()), probability)


@pytest.mark.parametrize(
    "prior", [[1], [1, 1, 1], [-1, 2], [0, 0], [np.nan, 1], [np.inf, 1], [], [[1, 1]]]
)
def test_numbers_that_are_no_prior_are_refused(prior):
    with pytest.raises(InputError, match="does not fit; give 2 non-negative numbers, not all zero"):
        with_prior(PROBABILITY, LEARNED, prior)


def test_an_unknown_prior_is_refused():
    with pytest.raises(InputError, match="unknown prior 'flat'; use training, balanced"):
        with_prior(PROBABILITY, LEARNED, "flat")


def test_numbers_of_any_scale_become_shares():
    assert checked_prior([6, 2], 2).tolist() == [0.75, 0.25]
