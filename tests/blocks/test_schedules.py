"""Ramps, by hand."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ulc.blocks.schedules import linear_rampup, sigmoid_rampup


@pytest.mark.parametrize(
    ("since", "length", "expected"),
    [(0, 16, 0), (4, 16, 0.25), (0.5, 2, 0.25), (16, 16, 1), (40, 16, 1), (-3, 16, 0), (0, 0, 1)],
)
def test_linear_rampup(since, length, expected):
    assert linear_rampup(since, length) == expected


@pytest.mark.parametrize(
    ("since", "length", "exponent"),
    [(0, 10, -5), (-3, 10, -5), (5, 10, -1.25), (8, 10, -0.2), (10, 10, 0), (99, 10, 0), (0, 0, 0)],
)
def test_sigmoid_rampup_by_hand(since, length, exponent):
    """−5·(1 − t/L)²: −5 at the start, −5/4 halfway, −5/25 at four fifths, then 0."""
    assert sigmoid_rampup(since, length) == pytest.approx(math.exp(exponent))


@settings(max_examples=100, deadline=None)
@given(st.floats(-10, 100), st.floats(0, 10), st.floats(-1, 50))
@pytest.mark.parametrize("rampup", [linear_rampup, sigmoid_rampup])
def test_a_weight_never_falls_nor_leaves_its_range(rampup, since, more, length):
    before, after = rampup(since, length), rampup(since + more, length)
    assert 0 <= before <= after <= 1
