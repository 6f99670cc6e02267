"""Laws of the noise that is injected, and the composition of classes that follows from it."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ulc.config import ImbalanceSpec, NoiseSpec
from ulc.data.imbalance import choose_rows
from ulc.data.noise import (
    asymmetric,
    by_matrix,
    checked_matrix,
    corrupt,
    pair_flip_matrix,
    realised_transition,
    symmetric,
    symmetric_inclusive,
    whole_shares,
)
from ulc.data.sources.cifar import CIFAR10_CLASSES
from ulc.errors import InputError

EVERY_KIND = [
    NoiseSpec(kind="symmetric", rate=0.4),
    NoiseSpec(kind="symmetric_inclusive", rate=0.4),
    NoiseSpec(kind="asymmetric", rate=0.4),
    NoiseSpec(kind="pair_flip", rate=0.4),
    NoiseSpec(kind="matrix", matrix=tuple(map(tuple, np.full((10, 10), 0.1)))),
]
every_kind = pytest.mark.parametrize("spec", EVERY_KIND, ids=lambda spec: spec.kind)


def generator(seed=0):
    return np.random.default_rng(seed)


def ten_classes(each=100):
    return np.repeat(np.arange(10), each)


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=60),
    st.integers(0, 100),
    st.integers(0, 2**32),
)
@example([0] * 100, 29, 0)  # in floating point 0.29·100 is 28.999…
@settings(max_examples=60, deadline=None)
def test_symmetric_moves_exactly_its_share_and_each_label_elsewhere(labels, percent, seed):
    """A chosen label never stays, so the count of moved ones is the count of chosen ones."""
    labels = np.array(labels)
    noisy = symmetric(labels, 5, percent / 100, generator(seed))
    assert (noisy != labels).sum() == percent * len(labels) // 100
    assert ((noisy >= 0) & (noisy < 5)).all()


def test_symmetric_is_as_likely_to_move_to_each_other_class():
    """9000 labels of class 3 move to nine classes: 1000 each, σ = √(9000·1/9·8/9) = 29.8."""
    noisy = symmetric(np.full(9000, 3), 10, 1.0, generator())
    sizes = np.bincount(noisy, minlength=10)
    assert sizes[3] == 0
    assert (np.abs(np.delete(sizes, 3) - 1000) < 4 * 29.8).all()


def test_which_labels_are_chosen_is_spread_over_the_data_set():
    """5000 of 10000 chosen: 2500 in the first half, σ = √(10000/16) = 25."""
    labels = np.zeros(10_000, np.int64)
    moved = symmetric(labels, 2, 0.5, generator()) != labels
    assert abs(moved[:5000].sum() - 2500) < 4 * 25


@given(st.integers(1, 200), st.integers(0, 100), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_inclusive_redraws_exactly_its_share(count, percent, seed):
    """Of a billion classes a redrawn label hits its own again with probability 10⁻⁹."""
    labels = np.zeros(count, np.int64)
    noisy = symmetric_inclusive(labels, 10**9, percent / 100, generator(seed))
    assert (noisy != labels).sum() == percent * count // 100


def test_inclusive_leaves_one_redrawn_label_in_so_many_classes_right():
    """Rate 0.5 of 10000, ten classes: 5000·0.9 = 4500 are wrong, σ = √(5000·0.9·0.1) = 21.3."""
    labels = ten_classes(1000)
    noisy = symmetric_inclusive(labels, 10, 0.5, generator())
    assert abs((noisy != labels).sum() - 4500) < 4 * 21.3


def test_asymmetric_takes_five_classes_for_their_look_alikes():
    labels = ten_classes()
    noisy = asymmetric(labels, CIFAR10_CLASSES, 1.0, generator())
    targets = [np.unique(noisy[labels == k]).tolist() for k in range(10)]
    # airplane, car, bird, cat, deer, dog, frog, horse, ship, truck
    assert targets == [[0], [1], [0], [5], [7], [3], [6], [7], [8], [1]]


def test_asymmetric_moves_its_rate_of_the_five_classes_and_none_of_the_others():
    """Rate 0.4 of 1000 labels a class: 400 ± 4·√(1000·0.4·0.6) in each class that moves."""
    labels = ten_classes(1000)
    moved = asymmetric(labels, CIFAR10_CLASSES, 0.4, generator()) != labels
    share = np.bincount(labels[moved], minlength=10)
    assert share[[0, 1, 6, 7, 8]].sum() == 0
    assert (np.abs(share[[2, 3, 4, 5, 9]] - 400) < 4 * 15.5).all()


@pytest.mark.parametrize(
    "names", ["abc", tuple("0123456789"), ("t-shirt", *CIFAR10_CLASSES[1:])], ids=len
)
def test_asymmetric_is_for_the_classes_of_cifar_10_alone(names):
    labels = np.arange(len(names))
    with pytest.raises(InputError, match=r"classes of CIFAR-10 .*use pair_flip or a matrix"):
        asymmetric(labels, names, 0.4, generator())


def test_asymmetric_knows_the_classes_by_name_in_any_order():
    """The same examples with the classes numbered otherwise get the same classes."""
    order = generator(3).permutation(10)
    names = [CIFAR10_CLASSES[k].title() for k in order]
    labels = generator(4).integers(0, 10, 500)
    renumbered = np.argsort(order)[labels]
    usual = asymmetric(labels, CIFAR10_CLASSES, 0.4, generator())
    assert np.array_equal(order[asymmetric(renumbered, names, 0.4, generator())], usual)


def test_pair_flip_takes_each_class_for_the_next():
    labels = np.repeat(np.arange(4), 100)
    noisy = by_matrix(labels, pair_flip_matrix(4, 0.3), generator())
    expected = [[0.7, 0.3, 0, 0], [0, 0.7, 0.3, 0], [0, 0, 0.7, 0.3], [0.3, 0, 0, 0.7]]
    assert np.allclose(realised_transition(labels, noisy, 4), expected, atol=1e-12)


def test_shares_are_rounded_by_largest_remainder():
    """Of 11: 5.5, 3.3 and 2.2. The floors hold 10, and the eleventh goes to the .5."""
    assert whole_shares(np.array([0.5, 0.3, 0.2]), 11).tolist() == [6, 3, 2]


weights = st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any)


@given(
    st.lists(weights, min_size=3, max_size=3),
    st.lists(st.integers(0, 40), min_size=3, max_size=3),
    st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_a_matrix_is_met_exactly_but_for_rounding(rows, sizes, seed):
    """Each count is its exact share rounded up or down, up only for the largest remainders."""
    labels = np.repeat(np.arange(3), sizes)
    transition = np.array([np.array(row) / sum(row) for row in rows])
    noisy = by_matrix(labels, checked_matrix(transition, 3), generator(seed))
    for k, (row, size) in enumerate(zip(rows, sizes, strict=True)):
        counts = np.bincount(noisy[labels == k], minlength=3).tolist()
        exact = [Fraction(weight * size, sum(row)) for weight in row]
        over = [count - share for count, share in zip(counts, exact, strict=True)]
        assert sum(counts) == size
        assert all(abs(each) < 1 for each in over)
        remainders_up = [share % 1 for share, each in zip(exact, over, strict=True) if each > 0]
        remainders_down = [share % 1 for share, each in zip(exact, over, strict=True) if each < 0]
        assert max(remainders_down, default=0) <= min(remainders_up, default=1)


def test_a_matrix_moves_members_at_random_not_the_first_ones():
    """Half of 1000 labels move: 250 of the first 500, σ = √(1000/16) = 7.9."""
    labels = np.zeros(1000, np.int64)
    noisy = by_matrix(labels, np.array([[0.5, 0.5], [0, 1]]), generator())
    assert abs(noisy[:500].sum() - 250) < 4 * 7.9


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1, 0], [0, 1]], r"shape \(2, 2\); make it 3 by 3"),
        ([1, 0, 0], r"shape \(3,\)"),
        ([[1, 0, 0], [0, 1], [0, 0, 1]], "different lengths; make it 3 by 3"),
        (
            [[1, 0, 0], [0, 0.5, 0.4], [0, 0, 1]],
            r"row 1 \(counted from 0\) is not a probability distribution",
        ),
        ([[1, 0, 0], [0, 1, 0], [1.5, 0, -0.5]], r"row 2 .* entries must be ≥ 0 with sum 1"),
        ([[np.nan, 0, 0], [0, 1, 0], [0, 0, 1]], r"row 0 .* not a probability distribution"),
    ],
)
def test_what_is_no_transition_matrix_is_refused(matrix, message):
    with pytest.raises(InputError, match=message):
        checked_matrix(matrix, 3)


def test_the_spec_brings_its_matrix():
    swap = NoiseSpec(kind="matrix", matrix=((0, 1), (1, 0)))
    assert corrupt(np.array([0, 0, 1]), "ab", swap, generator()).tolist() == [1, 1, 0]
    with pytest.raises(InputError, match="make it 3 by 3"):
        corrupt(np.array([0, 1, 2]), "abc", swap, generator())


@every_kind
def test_the_same_seed_gives_the_same_labels_and_another_seed_others(spec):
    first, again, other = (
        corrupt(ten_classes(), CIFAR10_CLASSES, spec, generator(seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@every_kind
def test_the_labels_handed_in_stay_as_they_were(spec):
    labels = ten_classes()
    before = labels.copy()
    noisy = corrupt(labels, CIFAR10_CLASSES, spec, generator())
    assert np.array_equal(labels, before)
    assert not np.array_equal(noisy, before)


def test_no_noise_is_a_copy():
    labels = ten_classes()
    same = corrupt(labels, CIFAR10_CLASSES, NoiseSpec(), generator())
    assert np.array_equal(same, labels)
    assert not np.shares_memory(same, labels)


@every_kind
@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.int64])
def test_every_integer_type_gives_the_same_labels(spec, kind):
    noisy = corrupt(ten_classes().astype(kind), CIFAR10_CLASSES, spec, generator())
    assert noisy.dtype == np.int64
    assert np.array_equal(noisy, corrupt(ten_classes(), CIFAR10_CLASSES, spec, generator()))


@every_kind
def test_each_row_of_the_realised_transition_is_a_distribution_or_empty(spec):
    labels = ten_classes()
    labels = labels[labels != 6]
    transition = realised_transition(
        labels, corrupt(labels, CIFAR10_CLASSES, spec, generator()), 10
    )
    assert np.allclose(transition.sum(1), np.arange(10) != 6)


def test_the_realised_transition_by_hand():
    true, labels = np.array([0, 0, 0, 0, 2]), np.array([0, 0, 0, 2, 1])
    expected = [[0.75, 0, 0.25], [0, 0, 0], [0, 1, 0]]
    assert realised_transition(true, labels, 3).tolist() == expected


@pytest.mark.parametrize(
    ("classes", "ratio", "rate", "minority", "majority"),
    [
        (10, 5, 0.2, (800, 644), (4000, 556)),
        (10, 5, 0.5, (500, 1611), (2500, 1389)),
        (10, 10, 0.2, (400, 600), (4000, 500)),
        (10, 10, 0.5, (250, 1500), (2500, 1250)),
        (100, 5, 0.2, (80, 60), (400, 60)),
        (100, 5, 0.5, (50, 151), (250, 149)),
        (100, 10, 0.2, (40, 55), (400, 55)),
        (100, 10, 0.5, (25, 139), (250, 136)),
    ],
)
def test_small_classes_are_flooded_as_the_table_says(classes, ratio, rate, minority, majority):
    """Clean and flipped-in counts of every class, within four σ.

    A class of n keeps n·(1 − r) labels, σ² = n·r·(1 − r), and takes (N − n)·q of the others with
    q = r / (K − 1), σ² = (N − n)·q·(1 − q). The table is rounded, hence the half.
    """
    balanced = np.repeat(np.arange(classes), 50_000 // classes)
    spec = ImbalanceSpec(kind="half", ratio=ratio)
    true = balanced[choose_rows(balanced, classes, spec, generator(3))]
    noisy = symmetric(true, classes, rate, generator(4))
    sizes = np.bincount(true, minlength=classes)
    clean = np.bincount(true[true == noisy], minlength=classes)
    flipped_in = np.bincount(noisy[true != noisy], minlength=classes)
    chance = rate / (classes - 1)
    for size, (expected_clean, expected_in) in (
        (sizes.min(), minority),
        (sizes.max(), majority),
    ):
        group = sizes == size
        assert group.sum() == classes // 2
        sigma = np.sqrt(size * rate * (1 - rate))
        assert (np.abs(clean[group] - expected_clean) <= 4 * sigma + 0.5).all()
        sigma = np.sqrt((len(true) - size) * chance * (1 - chance))
        assert (np.abs(flipped_in[group] - expected_in) <= 4 * sigma + 0.5).all()
