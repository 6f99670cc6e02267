"""Dividing labels into trusted and doubtful ones, with enough examples on both sides."""

import torch
from hypothesis import example, settings
from hypothesis import given as given_values
from hypothesis import strategies as st

from ulc.blocks.dividing import divide, draw_folds

judged = st.lists(st.tuples(st.floats(0, 1, width=16), st.integers(0, 4)), min_size=4, max_size=40)


def columns(rows):
    clean, given = zip(*rows, strict=True)
    return torch.tensor(clean), torch.tensor(given)


def test_where_there_is_enough_of_both_the_mask_stays():
    clean = torch.tensor([0.9, 0.8, 0.7, 0.2, 0.1, 0.0])
    given = torch.tensor([0, 1, 0, 1, 0, 1])
    trusted = clean > 0.5
    before = trusted.clone()
    assert torch.equal(divide(clean, given, trusted, 2), trusted)
    assert torch.equal(trusted, before), "the mask that came is not written into"


def test_each_class_keeps_its_likeliest_label():
    clean = torch.tensor([0.9, 0.8, 0.7, 0.2, 0.3, 0.1])
    given = torch.tensor([0, 0, 0, 1, 1, 2])
    divided = divide(clean, given, clean > 0.5, 1)
    assert divided.tolist() == [True, True, True, False, True, True]


def test_too_few_trusted_are_topped_up_by_the_likeliest():
    clean = torch.tensor([0.1, 0.4, 0.3, 0.2, 0.45, 0.05])
    divided = divide(clean, torch.zeros(6, dtype=torch.long), clean > 0.5, 3)
    assert divided.tolist() == [False, True, True, False, True, False]


def test_too_few_doubtful_are_topped_up_by_the_least_likely():
    clean = torch.tensor([0.9, 0.6, 0.8, 0.95, 0.7, 0.1])
    divided = divide(clean, torch.zeros(6, dtype=torch.long), clean > 0.5, 3)
    assert divided.tolist() == [True, False, True, True, False, False]


def test_topping_up_the_doubtful_leaves_each_class_its_likeliest():
    """All are trusted, and the only label of class 1 is the least likely of them."""
    clean = torch.tensor([0.9, 0.95, 0.85, 0.8, 0.99, 0.6])
    given = torch.tensor([0, 0, 0, 0, 0, 1])
    divided = divide(clean, given, clean > 0.5, 2)
    assert divided.tolist() == [True, True, False, False, True, True]


def test_of_equals_the_first_is_likelier():
    clean = torch.full((6,), 0.2)
    divided = divide(clean, torch.zeros(6, dtype=torch.long), clean > 0.5, 2)
    assert divided.tolist() == [True, True, False, False, False, False]


@settings(max_examples=200, deadline=None)
@given_values(rows=judged, threshold=st.floats(0, 1), fewest=st.integers(1, 64))
@example(rows=[(0.5, k) for k in range(4)], threshold=0.5, fewest=16)
def test_neither_side_is_ever_too_small(rows, threshold, fewest):
    """At least `fewest`, or half of all (which is two or more: batch norm needs that)."""
    clean, given = columns(rows)
    divided = divide(clean, given, clean > threshold, fewest)
    needed = min(fewest, len(rows) // 2)
    assert int(divided.sum()) >= needed
    assert int((~divided).sum()) >= needed


@settings(max_examples=200, deadline=None)
@given_values(rows=judged, threshold=st.floats(0, 1), fewest=st.integers(1, 64))
def test_every_class_keeps_one_as_far_as_there_is_room(rows, threshold, fewest):
    """At least min(fewest, N // 2) of N labels are doubtful. If the other labels are at least as
    many as the classes, the likeliest label of each class is trusted."""
    clean, given = columns(rows)
    divided = divide(clean, given, clean > threshold, fewest)
    classes = given.unique()
    room = len(rows) - min(fewest, len(rows) // 2)
    if len(classes) <= room:
        for k in classes:
            here = given == k
            assert divided[here].any()
            assert clean[here & divided].max() == clean[here].max()


@settings(max_examples=100, deadline=None)
@given_values(rows=judged, threshold=st.floats(0, 1), fewest=st.integers(1, 8))
def test_nothing_else_changes(rows, threshold, fewest):
    """With enough labels on both sides, only the likeliest label of a class is added."""
    clean, given = columns(rows)
    trusted = clean > threshold
    divided = divide(clean, given, trusted, fewest)
    with_best = trusted.clone()
    for k in given.unique():
        positions = (given == k).nonzero().squeeze(1)
        with_best[positions[clean[positions].argmax()]] = True
    needed = min(fewest, len(rows) // 2)
    if int(with_best.sum()) >= needed and int((~with_best).sum()) >= needed:
        assert torch.equal(divided, with_best)


def test_folds_divide_every_class_evenly():
    given = torch.repeat_interleave(torch.arange(4), torch.tensor([50, 7, 2, 1]))
    fold = draw_folds(given, torch.arange(60), 5)
    assert torch.bincount(fold).tolist() == [12] * 5
    for label in range(4):
        counts = torch.bincount(fold[given == label], minlength=5)
        assert counts.max() - counts.min() <= 1


def test_copies_share_a_fold():
    first_copy = torch.tensor([0, 1, 0, 3, 0, 1])
    for _ in range(10):
        fold = draw_folds(torch.tensor([0, 0, 1, 1, 0, 1]), first_copy, 3)
        assert torch.equal(fold, fold[first_copy])
