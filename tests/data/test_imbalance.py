"""Laws of uneven classes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ulc.config import ImbalanceSpec
from ulc.data.imbalance import choose_rows
from ulc.data.truth import small_classes

KINDS = [
    ImbalanceSpec(),
    ImbalanceSpec(kind="half", ratio=10),
    ImbalanceSpec(kind="long_tail", ratio=10),
]


def generator(seed=0):
    return np.random.default_rng(seed)


def sizes_after(spec, labels, classes, seed=0):
    kept = choose_rows(labels, classes, spec, generator(seed))
    return np.bincount(labels[kept], minlength=classes)


@pytest.mark.parametrize("classes", [2, 7, 10])
def test_half_cuts_half_of_the_classes_to_their_share_and_no_other(classes):
    labels = np.repeat(np.arange(classes), 200)
    sizes = sizes_after(ImbalanceSpec(kind="half", ratio=10), labels, classes)
    assert sorted(sizes) == [20] * (classes // 2) + [200] * (classes - classes // 2)


def test_every_class_may_be_among_the_small_half_and_among_the_large():
    labels = np.repeat(np.arange(10), 20)
    spec = ImbalanceSpec(kind="half", ratio=10)
    small = np.array([sizes_after(spec, labels, 10, seed=seed) == 2 for seed in range(16)])
    assert small.any(0).all()
    assert not small.all(0).any()


def test_half_cuts_an_uneven_class_to_its_own_share():
    labels = np.repeat(np.arange(2), [40, 80])
    for seed in range(4):
        sizes = sizes_after(ImbalanceSpec(kind="half", ratio=4), labels, 2, seed=seed).tolist()
        assert sizes in ([10, 80], [40, 20])


def test_long_tail_falls_by_the_same_factor_from_class_to_class():
    """Three classes of 900 with ratio 9 keep 900, 900 / √9 = 300 and 900 / 9 = 100."""
    labels = np.repeat(np.arange(3), 900)
    assert sizes_after(ImbalanceSpec(kind="long_tail", ratio=9), labels, 3).tolist() == [
        900, 300, 100,
    ]  # fmt: skip


@given(st.integers(2, 12), st.integers(1, 50), st.floats(1, 100))
@settings(max_examples=40, deadline=None)
def test_a_long_tail_never_rises_and_loses_no_class(classes, each, ratio):
    labels = np.repeat(np.arange(classes), each)
    sizes = sizes_after(ImbalanceSpec(kind="long_tail", ratio=ratio), labels, classes)
    assert (np.diff(sizes) <= 0).all()
    assert sizes[0] == each
    assert sizes[-1] == max(1, np.rint(each / ratio))


def test_no_imbalance_keeps_everything():
    labels = np.array([2, 0, 1, 1, 0])
    assert choose_rows(labels, 3, ImbalanceSpec(), generator()).tolist() == [0, 1, 2, 3, 4]


@given(
    st.sampled_from(KINDS),
    st.lists(st.integers(0, 4), min_size=1, max_size=80),
    st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_kept_positions_are_in_order_unique_and_empty_no_class(spec, labels, seed):
    """Random class sizes, including empty classes."""
    labels = np.array(labels)
    kept = choose_rows(labels, 5, spec, generator(seed))
    assert (np.diff(kept) > 0).all()
    assert kept.min() >= 0
    assert kept.max() < len(labels)
    assert set(labels[kept]) == set(labels)


def test_the_same_seed_keeps_the_same_examples_and_another_seed_others():
    labels = np.repeat(np.arange(2), 100)
    spec = ImbalanceSpec(kind="long_tail", ratio=5)
    first, again, other = (choose_rows(labels, 2, spec, generator(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("sizes", "small"),
    [
        ([100, 100, 100], [0, 0, 0]),
        ([100, 70, 100], [0, 0, 0]),  # 100 < 1.5 · 70: counts as even
        ([90, 60, 90], [0, 1, 0]),  # 90 = 1.5 · 60
        ([10, 100, 10, 100], [1, 0, 1, 0]),
        ([100, 50, 10], [0, 1, 1]),  # the mean is 53.3
        ([5, 0], [0, 1]),
    ],
)
def test_small_classes_are_below_the_mean_where_sizes_differ_by_half(sizes, small):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    assert small_classes(labels, len(sizes)).tolist() == [bool(each) for each in small]
