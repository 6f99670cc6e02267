"""Laws of the training data that an algorithm sees."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ulc.config import DataSpec, ImbalanceSpec, NoiseSpec, RunSpec
from ulc.data.augment import strong_augmentation, weak_augmentation
from ulc.data.prepare import prepare
from ulc.data.preprocessing import Preprocessing
from ulc.data.training import Batch, TensorData, paired_batches
from ulc.errors import InputError

sizes = st.integers(2, 9)
counts = st.integers(4, 40)
seeds = st.integers(0, 2**32)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def vectors(count):
    """Example i has the value i, and the label i modulo 3."""
    values = torch.arange(float(count))[:, None].repeat(1, 2)
    return TensorData(
        stored=values,
        given=torch.arange(count) % 3,
        num_classes=3,
        seed=0,
        preprocessing=Preprocessing(kind="vector", shape=(2,), mean=(0.0, 0.0), std=(1.0,)),
        augment=weak_augmentation((2,)),
        strong=strong_augmentation((2,)),
    )


def images(count):
    """Black images with a centre of brightness i."""
    stored = torch.zeros(count, 1, 9, 9, dtype=torch.uint8)
    stored[:, 0, 4, 4] = torch.arange(count, dtype=torch.uint8)
    return TensorData(
        stored=stored,
        given=torch.arange(count) % 3,
        num_classes=3,
        seed=0,
        preprocessing=Preprocessing(kind="image", shape=(1, 9, 9), mean=(0.5,), std=(0.25,)),
        augment=weak_augmentation((1, 9, 9)),
        strong=strong_augmentation((1, 9, 9)),
    )


def indices(batches):
    return torch.cat([batch.index for batch in batches])


@given(counts, sizes, seeds)
@settings(max_examples=60, deadline=None)
def test_a_pass_meets_every_example_once_and_no_batch_is_alone(count, size, seed):
    torch.manual_seed(seed)
    batches = list(vectors(count).batches(size))
    assert indices(batches).sort().values.tolist() == list(range(count))
    lengths = [len(batch) for batch in batches]
    assert min(lengths) >= 2
    assert max(lengths) <= size + 1
    assert all(length == size for length in lengths[:-1])


@given(counts, sizes, seeds, st.data())
@settings(max_examples=40, deadline=None)
def test_a_pass_among_some_meets_those_and_no_other(count, size, seed, data):
    some = data.draw(st.sets(st.integers(0, count - 1), min_size=2))
    torch.manual_seed(seed)
    batches = vectors(count).batches(size, among=torch.tensor(sorted(some)))
    assert sorted(indices(batches).tolist()) == sorted(some)


def test_a_batch_holds_its_own_examples_and_labels():
    """Jitter of 0.1 does not move a value by half, so rounding finds the example again."""
    for batch in vectors(30).batches(7, views=2):
        assert len(batch.views) == 2
        for view in batch.views:
            assert torch.equal(view[:, 0].round().long(), batch.index)
        assert torch.equal(batch.given, batch.index % 3)


def test_views_of_a_batch_are_drawn_apart():
    first, second = next(vectors(30).batches(30, views=2)).views
    assert not torch.equal(first, second)


def test_an_order_is_drawn_for_each_pass_from_torch_s_seed():
    data = vectors(30)
    torch.manual_seed(3)
    first, second = indices(data.batches(8)), indices(data.batches(8))
    torch.manual_seed(3)
    assert torch.equal(indices(data.batches(8)), first)
    assert not torch.equal(first, second)


def test_the_only_view_is_the_input_and_two_are_no_input():
    batch = next(vectors(4).batches(4))
    assert batch.inputs is batch.views[0]
    with pytest.raises(ValueError, match="too many values"):
        _ = Batch(batch.index, batch.views * 2, batch.given).inputs


@pytest.mark.parametrize("make", [vectors, images])
@pytest.mark.parametrize("size", [1, 3, 10, 100])
def test_in_order_is_in_order_not_augmented_and_draws_nothing(make, size):
    data = make(10)
    before = torch.get_rng_state()
    batches = list(data.in_order(size))
    assert torch.equal(torch.get_rng_state(), before)
    assert indices(batches).tolist() == list(range(10))
    seen = torch.cat([batch.inputs for batch in batches])
    assert torch.equal(seen, data.preprocessing.ready(data.stored))
    assert torch.equal(torch.cat([batch.given for batch in batches]), data.given)


@pytest.mark.parametrize("make", [vectors, images])
def test_no_pass_changes_what_is_stored(make):
    data = make(10)
    stored, labels = data.stored.clone(), data.given.clone()
    for batch in [*data.batches(4, views=2, strong=1), *data.in_order(4)]:
        batch.given.fill_(-1)
        for view in batch.views + batch.strong:
            view.fill_(-1)
    assert torch.equal(data.stored, stored)
    assert torch.equal(data.given, labels)


def test_images_are_normalised_after_they_are_augmented():
    """The border of a crop is black, which a network sees as (0 − 0.5) / 0.25 = −2."""
    view = next(images(40).batches(40)).inputs
    assert view.dtype == torch.float32
    assert torch.equal(view[:, :, 0].unique(), torch.tensor([-2.0]))


@given(st.lists(st.booleans(), min_size=4, max_size=40), sizes, seeds)
@settings(max_examples=60, deadline=None)
def test_trusted_examples_are_met_once_beside_as_many_batches_of_doubtful_ones(mask, size, seed):
    trusted = torch.tensor(mask)
    if trusted.all() or not trusted.any():
        return
    torch.manual_seed(seed)
    data = vectors(len(mask))
    pairs = list(paired_batches(data, trusted, size))
    known, unknown = zip(*pairs, strict=True)
    assert torch.equal(indices(known).sort().values, trusted.nonzero().squeeze(1))
    assert not trusted[indices(unknown)].any()
    assert all(len(batch.views) == 2 for pair in pairs for batch in pair)
    # In repeated passes, no doubtful example comes two times more often than another.
    times = torch.bincount(indices(unknown), minlength=len(mask))[~trusted]
    assert times.max() - times.min() <= 1


def test_doubtful_examples_repeat_until_the_trusted_are_through():
    """Six trusted in batches of two: three steps, and two doubtful are met three times."""
    trusted = torch.tensor([True] * 6 + [False] * 2)
    pairs = list(paired_batches(vectors(8), trusted, 2))
    assert len(pairs) == 3
    assert torch.bincount(indices([pair[1] for pair in pairs])).tolist() == [0] * 6 + [3, 3]


def test_doubtful_examples_need_not_be_used_up():
    trusted = torch.tensor([True] * 2 + [False] * 6)
    pairs = list(paired_batches(vectors(8), trusted, 2))
    assert [(len(known), len(unknown)) for known, unknown in pairs] == [(2, 2)]


def test_without_strong_views_nothing_more_is_drawn():
    """An order, then the views of each batch, and no other draw."""
    data = vectors(20)
    torch.manual_seed(3)
    order = torch.randperm(20)
    expected = [data.augment(data.stored[piece]) for piece in order.split(8) for _ in range(2)]
    after = torch.get_rng_state()
    torch.manual_seed(3)
    batches = list(data.batches(8, views=2, strong=0))
    assert torch.equal(torch.get_rng_state(), after)
    assert torch.equal(
        torch.cat([view for batch in batches for view in batch.views]), torch.cat(expected)
    )
    assert all(batch.strong == () for batch in batches)


def test_strong_views_are_drawn_after_the_weak_ones():
    data = vectors(20)
    torch.manual_seed(3)
    plain = next(data.batches(8, views=2))
    torch.manual_seed(3)
    batch = next(data.batches(8, views=2, strong=2))
    assert torch.equal(batch.index, plain.index)
    assert all(map(torch.equal, batch.views, plain.views))
    first, second = batch.strong
    assert not torch.equal(first, second)


@pytest.mark.parametrize("make", [vectors, images])
def test_strong_views_are_of_the_same_examples_made_ready(make):
    data = replace(make(20), strong=lambda stored: stored + 7)
    for batch in data.batches(6, views=1, strong=3):
        assert len(batch.strong) == 3
        expected = data.preprocessing.ready(data.stored[batch.index] + 7)
        for view in batch.strong:
            assert torch.equal(view, expected)


def test_only_doubtful_examples_have_strong_views():
    trusted = torch.arange(12) < 8
    data = replace(vectors(12), strong=lambda stored: stored + 7)
    pairs = list(paired_batches(data, trusted, 3, views=1, strong=2))
    assert len(pairs) == 3
    for known, unknown in pairs:
        assert known.strong == ()
        assert len(unknown.strong) == 2
        for view in unknown.strong:
            assert torch.equal(view[:, 0].long() - 7, unknown.index)
        assert not trusted[unknown.index].any()


def test_pairs_without_strong_views_are_the_pairs_there_were():
    trusted = torch.arange(12) < 8
    torch.manual_seed(3)
    plain = list(paired_batches(vectors(12), trusted, 3))
    torch.manual_seed(3)
    none = list(paired_batches(vectors(12), trusted, 3, strong=0))
    for (known, unknown), (same, too) in zip(plain, none, strict=True):
        assert all(map(torch.equal, known.views, same.views))
        assert all(map(torch.equal, unknown.views, too.views))
        assert unknown.strong == too.strong == ()


def test_weights_say_how_often_an_example_is_drawn():
    """The expected count is proportional to the weight; a pass has the usual length."""
    weights = torch.tensor([1.0, 3.0, 1e-9, 4.0, 2.0])
    data = replace(vectors(5), weights=weights)
    drawn = torch.cat([batch.index for _ in range(2000) for batch in data.batches(2)])
    assert len(drawn) == 2000 * 5
    share = torch.bincount(drawn, minlength=5) / len(drawn)
    torch.testing.assert_close(share, weights / 10, rtol=0, atol=0.02)


def test_weights_count_among_some_too():
    data = replace(vectors(6), weights=torch.tensor([1.0, 1e9, 1.0, 3.0, 1e9, 1e9]))
    among = torch.tensor([3, 0])
    drawn = torch.cat([batch.index for _ in range(1000) for batch in data.batches(4, among=among)])
    assert set(drawn.tolist()) == {0, 3}
    assert abs((drawn == 3).float().mean() - 0.75) < 0.05


def test_three_examples_are_too_few():
    with pytest.raises(InputError, match="3 examples are too few to learn from; give at least 4"):
        vectors(3)


def reachable(value):
    """Every array in an object, at any depth."""
    if isinstance(value, torch.Tensor):
        yield value.numpy()
    elif isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (tuple, list)):
        yield np.array(value, dtype=object)
        for each in value:
            yield from reachable(each)
    elif hasattr(value, "__dict__"):
        for each in vars(value).values():
            yield from reachable(each)
    for cell in getattr(value, "__closure__", None) or ():
        yield from reachable(cell.cell_contents)


@pytest.fixture
def prepared():
    """Sixty examples of three classes, a third of their labels made wrong."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 60)
    np.savez("toy.npz", X=rng.normal(size=(60, 4)), y=labels)
    spec = RunSpec(
        data=DataSpec(source="npz", path="toy.npz"),
        imbalance=ImbalanceSpec(kind="half", ratio=2),
        noise=NoiseSpec(kind="symmetric", rate=1 / 3),
    )
    return prepare(spec, torch.device("cpu"))


def test_no_true_label_can_be_reached_from_the_training_data(prepared):
    true = prepared.truth.train
    size = len(true)
    names = [field.name for field in fields(prepared.training)]
    held = [each for name in names for each in reachable(getattr(prepared.training, name))]
    assert any(np.array_equal(each, prepared.training.given.numpy()) for each in held)
    assert not any(np.array_equal(each, true) for each in held)
    # No other array has a value per example, so none can tell which labels are wrong.
    per_example = [each for each in held if each.shape[:1] == (size,)]
    assert sorted(each.shape for each in per_example) == [(size,), (size, 4)]


def test_the_examiner_has_the_labels_as_they_were(prepared):
    with np.load("toy.npz") as content:
        inputs, labels = content["X"], content["y"]
    kept = [
        int(np.abs(inputs - each).sum(1).argmin())
        for each in prepared.training.stored.numpy() * prepared.training.preprocessing.std
        + np.asarray(prepared.training.preprocessing.mean)
    ]
    assert prepared.truth.train.tolist() == labels[kept].tolist()
    wrong = prepared.truth.train != prepared.training.given.numpy()
    assert wrong.sum() == len(wrong) // 3


def test_the_record_tells_what_the_data_turned_out_to_be(prepared):
    facts, true = prepared.facts, prepared.truth.train
    assert facts["examples"] == len(true) == sum(facts["given_sizes"])
    assert facts["true_sizes"] == np.bincount(true, minlength=3).tolist()
    assert facts["wrong_share"] == pytest.approx((len(true) // 3) / len(true))
    assert facts["small_classes"] == np.flatnonzero(prepared.truth.small).tolist()
    assert len(facts["small_classes"]) == 1


def test_noise_does_not_change_which_examples_are_kept():
    """Imbalance and noise draw from streams of their own, so runs compare on the same images."""
    rng = np.random.default_rng(0)
    np.savez("toy.npz", X=rng.normal(size=(60, 4)), y=np.arange(60) % 3)
    kept = []
    for noise in (NoiseSpec(), NoiseSpec(kind="symmetric"), NoiseSpec(kind="pair_flip")):
        spec = RunSpec(
            data=DataSpec(source="npz", path="toy.npz"),
            imbalance=ImbalanceSpec(kind="half", ratio=4),
            noise=noise,
        )
        kept.append(prepare(spec, torch.device("cpu")).training.stored)
    assert torch.equal(kept[0], kept[1])
    assert torch.equal(kept[0], kept[2])


def test_where_labels_came_wrong_the_truth_decides_which_class_is_cut():
    """True labels decide the sizes: 20 of one true class and 5 of the other."""
    np.savez("toy.npz", X=np.eye(40), y=np.arange(40) // 20, y_true=np.arange(40) % 2)
    spec = RunSpec(
        data=DataSpec(source="npz", path="toy.npz"), imbalance=ImbalanceSpec(kind="half", ratio=4)
    )
    prepared = prepare(spec, torch.device("cpu"))
    assert sorted(np.bincount(prepared.truth.train)) == [5, 20]
    assert sorted(prepared.facts["given_sizes"]) != [5, 20]


def test_copies_name_the_first_row_of_their_kind():
    data = vectors(6)
    stored = data.stored.clone()
    stored[4], stored[5] = stored[1], stored[1]
    assert replace(data, stored=stored).first_copy.tolist() == [0, 1, 2, 3, 1, 1]
