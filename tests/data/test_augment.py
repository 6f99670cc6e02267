"""Laws of augmentation: each example has its own random draw, and stored values stay."""

import pytest
import torch
import torch.nn.functional as F

from ulc.data.augment import (
    crop_and_flip,
    drop_features,
    jitter,
    strong_augmentation,
    weak_augmentation,
)

SHAPES = [(1, 8, 8), (3, 16, 8), (5,)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
every_strength = pytest.mark.parametrize(
    "augmentation", [weak_augmentation, strong_augmentation], ids=["weak", "strong"]
)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def numbered(count, channels, height, width):
    """Images in which all pixels differ and none is black."""
    size = count * channels * height * width
    return torch.arange(1, size + 1).view(count, channels, height, width)


def windows(image, padding):
    """Every window of the image's size in the image with a black border, by its place."""
    height, width = image.shape[-2:]
    padded = F.pad(image, (padding,) * 4)
    span = range(2 * padding + 1)
    return {
        (top, left): padded[:, top : top + height, left : left + width]
        for top in span
        for left in span
    }


def views_of(image, padding):
    """Every window and its mirror, by place and side."""
    return {
        (*place, mirrored): window.flip(2) if mirrored else window
        for place, window in windows(image, padding).items()
        for mirrored in (False, True)
    }


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_every_view_is_a_window_of_its_own_padded_image_or_its_mirror(layout):
    images = numbered(30, 2, 5, 4)
    seen = crop_and_flip(images.contiguous(memory_format=layout), padding=2)
    assert seen.is_contiguous(memory_format=torch.channels_last)
    for image, view in zip(images, seen, strict=True):
        assert sum(torch.equal(view, each) for each in views_of(image, 2).values()) == 1


def test_every_place_is_cut_and_rows_columns_and_sides_are_drawn_apart():
    """Eighteen views in 900 draws: missing one has probability 18·(17/18)⁹⁰⁰ < 10⁻²⁰."""
    image = numbered(1, 1, 4, 4)
    seen = crop_and_flip(image.repeat(900, 1, 1, 1), padding=1)
    counts = [
        sum(torch.equal(view, each) for view in seen) for each in views_of(image[0], 1).values()
    ]
    assert min(counts) > 0
    assert sum(counts) == 900


def test_half_are_mirrored():
    """400 coins: 200 mirrored, σ = 10."""
    images = numbered(400, 2, 3, 4)
    seen = crop_and_flip(images, padding=0)
    mirrored = [torch.equal(view, image.flip(2)) for view, image in zip(seen, images, strict=True)]
    assert abs(sum(mirrored) - 200) < 40


@pytest.mark.parametrize(("size", "reach"), [(5, 1), (8, 1), (28, 3), (32, 4)])
def test_a_crop_moves_by_an_eighth_of_the_width(size, reach):
    """A bright row lands up to `reach` rows away, and in 600 draws as far as that."""
    images = torch.zeros(600, 1, size, size, dtype=torch.uint8)
    middle = size // 2
    images[:, :, middle] = 1
    rows = weak_augmentation((1, size, size))(images)[:, 0, :, middle].argmax(1) - middle
    assert rows.abs().max() == reach


def test_jitter_has_the_strength_it_is_told():
    """10000 draws of standard deviation 0.1: mean 0 ± 4·0.001, deviation 0.1 ± 4·0.0007."""
    noise = jitter(torch.full((100, 100), 3.0), strength=0.1) - 3
    assert abs(noise.mean()) < 0.004
    assert abs(noise.std() - 0.1) < 0.003


def stored(shape, count=20):
    if len(shape) == 1:
        return torch.randn(1, *shape).repeat(count, 1)
    return torch.randint(1, 256, (1, *shape), dtype=torch.uint8).repeat(count, 1, 1, 1)


@every_strength
@every_shape
def test_a_view_has_the_shape_and_type_of_what_is_stored(shape, augmentation):
    seen = augmentation(shape)(stored(shape))
    assert seen.shape == (20, *shape)
    assert seen.dtype == stored(shape).dtype


@every_strength
@every_shape
def test_equal_examples_of_a_batch_are_seen_differently(shape, augmentation):
    assert len(augmentation(shape)(stored(shape)).unique(dim=0)) > 2


@every_strength
@every_shape
def test_the_same_seed_gives_the_same_view_and_the_next_draw_another(shape, augmentation):
    batch, augment = stored(shape), augmentation(shape)
    torch.manual_seed(7)
    first, second = augment(batch), augment(batch)
    torch.manual_seed(7)
    assert torch.equal(augment(batch), first)
    assert not torch.equal(first, second)


@every_strength
@every_shape
def test_what_is_stored_is_never_changed(shape, augmentation):
    batch = stored(shape)
    before = batch.clone()
    seen = augmentation(shape)(batch)
    seen.zero_()
    assert torch.equal(batch, before)


@pytest.mark.parametrize(("shift", "reach"), [(0, 0), (1, 1), (None, 2)])
def test_a_crop_moves_an_image_no_further_than_its_shift(shift, reach):
    """One bright pixel in the middle of 16 stays within `reach` of its place or its mirror."""
    images = torch.zeros(200, 1, 16, 16, dtype=torch.uint8)
    images[:, 0, 8, 8] = 255
    torch.manual_seed(0)
    moved = weak_augmentation((1, 16, 16), shift)(images)
    _, _, rows, columns = moved.nonzero(as_tuple=True)
    assert len(rows) == 200
    assert set(rows.tolist()) == set(range(8 - reach, 8 + reach + 1))
    assert set(columns.tolist()) == set(range(7 - reach, 8 + reach + 1))


@pytest.mark.parametrize("shift", [0, 1, None])
def test_a_strong_view_is_a_weak_one_before_it_is_changed(shift, monkeypatch):
    monkeypatch.setattr("ulc.data.augment.rand_augment", lambda images: images)
    monkeypatch.setattr("ulc.data.augment.cutout", lambda images: images)
    images = torch.randint(256, (20, 3, 16, 16), dtype=torch.uint8)
    torch.manual_seed(4)
    weak = weak_augmentation((3, 16, 16), shift)(images)
    torch.manual_seed(4)
    assert torch.equal(strong_augmentation((3, 16, 16), shift)(images), weak)


def test_a_strong_view_is_covered_last():
    """At least a quarter of each side is grey, whatever the other operations did."""
    images = torch.randint(128, 256, (60, 3, 16, 8), dtype=torch.uint8)
    grey = (strong_augmentation((3, 16, 8))(images) == 127).all(1)
    assert (grey.sum((1, 2)) >= 4 * 2).all()


def test_a_strong_image_is_further_from_the_stored_one():
    images = torch.randint(256, (200, 3, 8, 8), dtype=torch.uint8)
    away = [
        (augmentation((3, 8, 8), 0)(images).float() - images).square().mean()
        for augmentation in (weak_augmentation, strong_augmentation)
    ]
    assert away[1] > away[0]


def test_a_strong_vector_has_more_jitter_and_gaps():
    """20,000 features of 3: a fifth are 0 ± 4·0.0028; the rest deviate by 0.3 ± 4·0.0017."""
    seen = strong_augmentation((200,))(torch.full((100, 200), 3.0))
    gaps = seen == 0
    assert abs(gaps.float().mean() - 0.2) < 0.012
    assert abs((seen[~gaps] - 3).std() - 0.3) < 0.007


def test_features_are_dropped_each_by_itself_and_the_others_stay():
    """100 × 100 at 0.3: 0.3 ± 4·0.0046; two neighbours 0.09 ± 4·0.004; rows and columns differ."""
    vectors = torch.randn(100, 100)
    seen = drop_features(vectors, share=0.3)
    gaps = seen == 0
    assert torch.equal(seen[~gaps], vectors[~gaps])
    assert abs(gaps.float().mean() - 0.3) < 0.019
    assert abs((gaps[:, 1:] & gaps[:, :-1]).float().mean() - 0.09) < 0.016
    assert abs((gaps[1:] & gaps[:-1]).float().mean() - 0.09) < 0.016


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_share_drops_nothing_and_all_of_it_everything(dtype):
    vectors = torch.randn(10, 4, dtype=dtype)
    assert torch.equal(drop_features(vectors, share=0.0), vectors)
    assert torch.equal(drop_features(vectors, share=1.0), torch.zeros_like(vectors))


def test_a_random_part_is_a_part_of_the_image_or_of_its_mirror():
    torch.manual_seed(0)
    images = torch.arange(2 * 3 * 6 * 6, dtype=torch.uint8).view(2, 3, 6, 6).repeat(80, 1, 1, 1)
    cut = weak_augmentation((3, 6, 6), crop=4)(images)
    assert cut.shape == (160, 3, 4, 4)
    assert cut.is_contiguous(memory_format=torch.channels_last)
    found = set()
    for image, part in zip(images, cut, strict=True):
        places = [
            (top, left, mirrored)
            for top in range(3)
            for left in range(3)
            for mirrored in (False, True)
            if torch.equal(
                part, (image.flip(2) if mirrored else image)[:, top : top + 4, left : left + 4]
            )
        ]
        assert len(places) == 1
        found.add(places[0])
    assert len(found) == 18  # every place, mirrored and not


def test_a_strong_view_of_a_part_has_its_size():
    images = torch.zeros(4, 3, 16, 16, dtype=torch.uint8)
    assert strong_augmentation((3, 16, 16), crop=12)(images).shape == (4, 3, 12, 12)
