"""RandAugment: Pillow's operations, drawn for each image separately."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps

from ulc.data import randaugment
from ulc.data.randaugment import cutout, rand_augment

LEVELS = torch.arange(1, 10) / 10
BY_NAME = {operation.__name__: operation for operation in randaugment.OPERATIONS}


def enhanced(kind):
    return lambda image, level: kind(image).enhance(0.05 + 0.9 * level)


PILLOWS = {
    "brightness": enhanced(ImageEnhance.Brightness),
    "colour": enhanced(ImageEnhance.Color),
    "contrast": enhanced(ImageEnhance.Contrast),
    "sharpness": enhanced(ImageEnhance.Sharpness),
    "auto_contrast": lambda image, level: ImageOps.autocontrast(image),
    "equalize": lambda image, level: ImageOps.equalize(image),
    "posterize": lambda image, level: ImageOps.posterize(image, int(4 * level) + 4),
    "solarize": lambda image, level: ImageOps.solarize(image, 256 - int(256 * level)),
}
EXACT = {"equalize", "posterize", "solarize"}


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture
def level_has_the_sign(monkeypatch):
    """A negative level is the other direction; nothing is drawn."""
    monkeypatch.setattr(randaugment, "draw_sign", lambda level: level)


def uniform(rng):
    return rng.integers(0, 256, (9, 12, 17, 3))


def narrow(rng):
    """Around a tone, so that there is something to stretch."""
    return rng.normal(110, 25, (9, 24, 20, 3)).clip(0, 255)


def few_tones(rng):
    return rng.choice([3, 70, 71, 200], (9, 20, 33, 3))


def one_tone(rng):
    return np.full((9, 20, 20, 3), 77)


def planes(pixels):
    """(B, H, W, C) to what the operations take."""
    return torch.from_numpy(np.array(pixels)).movedim(-1, 1).contiguous().float()


def by_pillow(name, pixels, levels):
    done = [
        PILLOWS[name](Image.fromarray(each), float(level))
        for each, level in zip(pixels, levels, strict=True)
    ]
    return planes(np.stack([np.asarray(image) for image in done]))


@pytest.mark.parametrize("make", [uniform, narrow, few_tones, one_tone])
@pytest.mark.parametrize("name", PILLOWS)
def test_tones_change_as_in_pillow(name, make):
    """Tables give Pillow's own values. Where there are fractions, Pillow cuts them off and rounds
    the grey or smoothed image on the way: at most one grey level from the rounded exact value."""
    for seed in range(3):
        pixels = make(np.random.default_rng(seed)).astype(np.uint8)
        ours = BY_NAME[name](planes(pixels), LEVELS).clamp(0, 255).round()
        away = (ours - by_pillow(name, pixels, LEVELS)).abs().max()
        assert away <= (0 if name in EXACT else 1)


@pytest.mark.parametrize("name", ["brightness", "colour", "contrast", "sharpness"])
def test_a_higher_level_keeps_more_of_the_image(name):
    images = planes(uniform(np.random.default_rng(0))[:1]).expand(9, -1, -1, -1)
    away = (BY_NAME[name](images, LEVELS) - images).abs().mean((1, 2, 3))
    assert (away.diff() < 0).all()


def test_one_channel_is_its_own_grey():
    """Colour leaves it; contrast of 10 and 30 goes to 20 ± 10·(0.05 + 0.9·0.5) = 15 and 25."""
    images = torch.tensor([10.0, 30.0]).view(1, 1, 1, 2)
    level = torch.tensor([0.5])
    assert torch.equal(BY_NAME["colour"](images, level), images)
    found = BY_NAME["contrast"](images, level).flatten()
    torch.testing.assert_close(found, torch.tensor([15.0, 25.0]))


def spot(count, height, width, row, column):
    images = torch.zeros(count, 2, height, width)
    images[:, :, row, column] = 255
    return images


@pytest.mark.usefixtures("level_has_the_sign")
def test_translation_moves_each_image_by_its_own_level():
    """0.3·level·20 columns: level k/6 is k columns, to the left where it is positive; as many
    columns on the other side are black. 0.3·level·10 rows: level k/3 is k rows."""
    steps = torch.tensor([-5, -2, 0, 1, 4])
    pixels = torch.randint(1, 256, (5, 2, 10, 20)).float()
    across = randaugment.translate_x(pixels, steps / 6)
    for k, before, after in zip(steps.tolist(), pixels, across, strict=True):
        kept = slice(max(k, 0), 20 + min(k, 0))
        filled = slice(max(-k, 0), 20 - max(k, 0))
        expected = torch.zeros_like(before)
        expected[:, :, filled] = before[:, :, kept]
        assert torch.equal(after, expected)
    down = randaugment.translate_y(spot(3, 10, 20, 5, 7), torch.tensor([2, 0, -1]) / 3)
    assert down[:, 0].nonzero().tolist() == [[0, 3, 7], [1, 5, 7], [2, 6, 7]]


@pytest.mark.usefixtures("level_has_the_sign")
def test_three_thirds_of_a_right_angle_are_a_quarter_turn():
    """Level 3 is 90 degrees: clockwise, and back where it is negative."""
    images = torch.randint(1, 256, (2, 3, 9, 9)).float()
    turned = randaugment.rotate(images, torch.tensor([3.0, -3.0]))
    assert torch.equal(turned[0], images[0].rot90(-1, (1, 2)))
    assert torch.equal(turned[1], images[1].rot90(1, (1, 2)))


@pytest.mark.usefixtures("level_has_the_sign")
@pytest.mark.parametrize("size", [(24, 24), (14, 30), (31, 16)], ids=str)
def test_rotation_is_pillows_also_where_the_image_is_not_square(size):
    """Except single pixels that lie halfway between two."""
    levels = torch.cat([LEVELS, -LEVELS])
    pixels = np.random.default_rng(0).integers(1, 256, (18, *size, 3)).astype(np.uint8)
    ours = randaugment.rotate(planes(pixels), levels)
    theirs = [
        np.asarray(Image.fromarray(each).rotate(-30 * float(level)))
        for each, level in zip(pixels, levels, strict=True)
    ]
    assert (ours == planes(np.stack(theirs))).float().mean() > 0.998


def test_rotation_keeps_the_centre():
    images = spot(40, 7, 11, 3, 5)
    assert torch.equal(randaugment.rotate(images, torch.rand(40))[:, :, 3, 5], images[:, :, 3, 5])


@pytest.mark.usefixtures("level_has_the_sign")
def test_shear_pushes_a_line_by_its_distance_from_the_middle():
    """0.3·⅔ = 0.2 a line: of eleven lines, distances 0 … 2 stay, 3 … 5 move by one."""
    moves = [-1, -1, -1, 0, 0, 0, 0, 0, 1, 1, 1]
    images = torch.randint(1, 256, (1, 1, 11, 16)).float()
    expected = torch.zeros_like(images)
    for line, move in enumerate(moves):
        kept = images[0, 0, line, max(move, 0) : 16 + min(move, 0)]
        expected[0, 0, line, max(-move, 0) : 16 - max(move, 0)] = kept
    level = torch.tensor([2 / 3])
    assert torch.equal(randaugment.shear_x(images, level), expected)
    assert torch.equal(randaugment.shear_y(images.mT, level), expected.mT)
    back = randaugment.shear_x(images.flip(2), -level).flip(2)
    assert torch.equal(back, expected)


@pytest.mark.parametrize("name", ["translate_x", "translate_y", "rotate", "shear_x", "shear_y"])
def test_each_image_has_its_own_sign(name):
    """One level for all: two outcomes, each for about half of 400 (σ = 10)."""
    images = torch.randint(1, 256, (1, 1, 20, 20)).float().expand(400, -1, -1, -1)
    moved = BY_NAME[name](images, torch.full((400,), 0.5))
    _, counts = moved.unique(dim=0, return_counts=True)
    assert len(counts) == 2
    assert abs(int(counts[0]) - 200) < 40


@pytest.mark.usefixtures("level_has_the_sign")
@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("shape", [(1, 4, 4), (3, 9, 6), (4, 1, 2)], ids=str)
def test_an_image_changes_as_if_it_were_alone(name, shape):
    images = torch.randint(256, (9, *shape)).float()
    before = images.clone()
    together = BY_NAME[name](images, LEVELS)
    assert torch.equal(images, before)
    assert together.shape == images.shape
    assert together.min() >= -1e-3
    assert together.max() <= 255 + 1e-3
    alone = [
        BY_NAME[name](image[None], level[None]) for image, level in zip(images, LEVELS, strict=True)
    ]
    torch.testing.assert_close(together, torch.cat(alone))


class TestRandAugment:
    @settings(max_examples=40, deadline=None)
    @given(
        channels=st.sampled_from([1, 3, 4]),
        height=st.integers(1, 9),
        width=st.integers(1, 9),
        seed=st.integers(0, 2**32),
    )
    def test_an_image_stays_one_and_the_stored_one_stays(self, channels, height, width, seed):
        torch.manual_seed(seed)
        images = torch.randint(256, (20, channels, height, width), dtype=torch.uint8)
        before = images.clone()
        changed = rand_augment(images)
        assert changed.shape == images.shape
        assert changed.dtype == torch.uint8
        assert torch.equal(images, before)

    def test_floats_in_store_stay_as_they_are(self):
        images = torch.randint(256, (40, 3, 8, 8)).float()
        before = images.clone()
        rand_augment(images)
        assert torch.equal(images, before)

    def test_it_does_not_matter_how_images_lie_in_memory(self):
        images = torch.randint(256, (40, 3, 4, 6), dtype=torch.uint8)
        torch.manual_seed(2)
        expected = rand_augment(images)
        torch.manual_seed(2)
        other_layout = images.contiguous(memory_format=torch.channels_last)
        assert torch.equal(rand_augment(other_layout), expected)

    def test_equal_images_come_out_different_and_a_seed_repeats_it(self):
        images = torch.randint(256, (1, 3, 4, 4), dtype=torch.uint8).repeat(60, 1, 1, 1)
        torch.manual_seed(5)
        first, second = rand_augment(images), rand_augment(images)
        torch.manual_seed(5)
        assert torch.equal(rand_augment(images), first)
        assert not torch.equal(first, second)
        assert len(first.unique(dim=0)) > 30

    @pytest.mark.parametrize("rounds", [0, 1, 2, 5])
    def test_every_round_changes_every_image_once(self, rounds, monkeypatch):
        """Three operations, each of which makes an image brighter by one."""
        monkeypatch.setattr(randaugment, "OPERATIONS", (lambda images, level: images + 1,) * 3)
        images = torch.randint(200, (30, 1, 2, 2), dtype=torch.uint8)
        assert torch.equal(rand_augment(images, rounds), images + rounds)

    def test_operations_and_levels_are_drawn_evenly_and_apart(self, monkeypatch):
        """Operation i at level l/10 writes 10·i + l. 14·9 outcomes in 12,600 draws: 100 each,
        σ = 10."""
        monkeypatch.setattr(
            randaugment,
            "OPERATIONS",
            tuple(
                lambda images, level, i=i: 0 * images + 10 * (i + level).view(-1, 1, 1, 1)
                for i in range(14)
            ),
        )
        written = rand_augment(torch.zeros(12600, 1, 1, 1, dtype=torch.uint8), rounds=1)
        counts = torch.bincount(written.flatten().long(), minlength=140).view(14, 10)
        assert (counts[:, 0] == 0).all()
        assert (counts[:, 1:] - 100).abs().max() < 50

    def test_what_leaves_the_range_is_cut_and_fractions_are_rounded(self, monkeypatch):
        images = torch.tensor([0, 100, 255], dtype=torch.uint8).view(3, 1, 1, 1)
        for step, expected in [(0.7, [1, 101, 255]), (-300.0, [0, 0, 0]), (300.0, [255] * 3)]:
            monkeypatch.setattr(
                randaugment, "OPERATIONS", (lambda images, level, step=step: images + step,)
            )
            assert rand_augment(images, rounds=1).flatten().tolist() == expected

    def test_there_are_fourteen_operations(self):
        assert len(BY_NAME) == len(randaugment.OPERATIONS) == 14


class TestCutout:
    def test_the_square_around_its_centre_is_grey(self, monkeypatch):
        """8 × 12: four rows, from two above the centre to one below it, and six columns, from
        three to the left to two to the right. A quarter of the image, less at its edge."""
        centres = {8: [4, 0, 7, 2], 12: [6, 5, 11, 3]}
        monkeypatch.setattr(
            randaugment,
            "draw_centres",
            lambda count, size, images: torch.tensor(centres[size])[:, None],
        )
        images = torch.randint(128, 256, (4, 3, 8, 12), dtype=torch.uint8)
        before = images.clone()
        seen = cutout(images)
        boxes = [(2, 6, 3, 9), (0, 2, 2, 8), (5, 8, 8, 12), (0, 4, 0, 6)]
        expected = images.clone()
        for image, (top, bottom, left, right) in zip(expected, boxes, strict=True):
            image[:, top:bottom, left:right] = 127
        assert torch.equal(seen, expected)
        assert torch.equal(images, before)
        assert (seen == 127).float().mean((1, 2, 3)).tolist() == [0.25, 0.125, 0.125, 0.25]

    @pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
    def test_every_image_has_its_own_place_and_every_place_is_taken(self, dtype):
        """64 centres in 1,500 draws: missing one has probability 64·(63/64)¹⁵⁰⁰ < 10⁻⁸."""
        seen = cutout(torch.zeros(1500, 1, 8, 8, dtype=dtype))
        assert seen.dtype == dtype
        assert set(seen.unique().tolist()) == {0, 127}
        assert len(seen.unique(dim=0)) == 64

    def test_a_seed_repeats_it(self):
        images = torch.zeros(20, 1, 6, 6, dtype=torch.uint8)
        torch.manual_seed(1)
        first = cutout(images)
        torch.manual_seed(1)
        assert torch.equal(cutout(images), first)
