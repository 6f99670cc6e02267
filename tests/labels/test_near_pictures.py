"""Almost equal pictures are found by a perceptual hash, and only they."""

import io

import numpy as np
import pytest
from PIL import Image, ImageEnhance
from sklearn.datasets import load_sample_images

from ulc.labels import near_pictures
from ulc.labels.near_pictures import (
    as_grey,
    close_pairs,
    correlation,
    find_near_pictures,
    hash_pictures,
    near_picture_entry,
)


def as_array(image):
    return np.asarray(image.resize((64, 64))).transpose(2, 0, 1)


def as_jpeg(image):
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=60)
    return Image.open(buffer)


@pytest.fixture(scope="module")
def photographs():
    """Six different parts of real photographs."""
    both = [Image.fromarray(each) for each in load_sample_images().images]
    boxes = [(0, 150, 300, 400), (330, 120, 600, 420), (150, 60, 450, 360)]
    return [photo.crop(box) for photo in both for box in boxes]


def test_the_hash_tells_which_cells_are_darker_than_their_right_neighbours():
    """A ramp to the right is all ones, one to the left all zeros; grey and colour are the same."""
    ramp = np.broadcast_to(np.arange(0, 180, 20, dtype=np.uint8), (1, 1, 8, 9))
    images = np.concatenate([ramp, ramp[..., ::-1]])
    for each in (images, np.repeat(images, 3, axis=1)):
        assert hash_pictures(each, np.arange(2)).tolist() == [2**64 - 1, 0]


def test_every_pair_of_close_hashes_is_found_once():
    rng = np.random.default_rng(0)
    hashes = rng.integers(0, 2**63, 600, dtype=np.uint64)
    for place in range(0, 500, 5):  # neighbours that differ in 0 to 9 bits
        bits = rng.permutation(64)[: place // 50].astype(np.uint64)
        hashes[place + 1] = hashes[place] ^ (np.uint64(1) << bits).sum(dtype=np.uint64)
    found = [tuple(sorted(pair)) for pairs in close_pairs(hashes) for pair in pairs.tolist()]
    apart = np.bitwise_count(hashes[:, None] ^ hashes)
    wanted = list(zip(*map(np.ndarray.tolist, np.nonzero(np.triu(apart <= 4, 1))), strict=True))
    assert sorted(found) == sorted(wanted)
    assert len(wanted) >= 50


def test_blocks_change_nothing(monkeypatch):
    hashes = np.repeat(np.arange(1, 40, dtype=np.uint64), 3)
    whole = np.concatenate(list(close_pairs(hashes)))
    monkeypatch.setattr(near_pictures, "TABLE", 50)
    parts = np.concatenate(list(close_pairs(hashes)))
    assert set(map(tuple, whole.tolist())) == set(map(tuple, parts.tolist()))
    assert len(whole) == len(parts)


def test_another_format_size_or_brightness_is_the_same_picture(photographs):
    first, second = photographs[:2]
    images = [
        *photographs,
        as_jpeg(first),
        first.resize((120, 100)),
        ImageEnhance.Brightness(second).enhance(0.8),
    ]
    found = find_near_pictures(np.stack([as_array(each) for each in images]))
    assert [found.groups.group(number).tolist() for number in (0, 1)] == [[0, 6, 7], [1, 8]]
    assert len(found.groups.starts) == 2
    assert (found.checked, found.complete) == (9, True)


def test_exact_copies_count_once_and_pictures_of_one_colour_not_at_all(photographs):
    image = as_array(photographs[0])
    images = np.stack([image, image, *(np.full_like(image, level) for level in (0, 90, 91))])
    found = find_near_pictures(images)
    assert len(found.groups.rows) == 0
    assert found.checked == 1


def test_close_hashes_of_different_colours_are_no_pair(photographs):
    image = as_array(photographs[0])
    turned = image[[2, 0, 1]]
    assert correlation(np.stack([image, turned]), np.array([[0, 1]]))[0] < 0.9
    flat = np.stack([image, np.zeros_like(image)])
    assert correlation(flat, np.array([[0, 1], [0, 0]])).tolist() == [0, pytest.approx(1)]


def test_groups_with_different_labels_come_first_and_in_them_the_rarest_label(photographs):
    first, second = photographs[0], photographs[3]
    changed = [ImageEnhance.Brightness(second).enhance(level) for level in (0.8, 0.9)]
    images = np.stack([as_array(each) for each in (first, as_jpeg(first), second, *changed)])
    given = np.array([0, 0, 1, 0, 1])
    entry = near_picture_entry(find_near_pictures(images), given, ("cat", "dog"), list("abcde"))
    assert entry["listed"] == [
        {"size": 3, "ids": ["d", "c", "e"], "labels": ["cat", "dog", "dog"]},
        {"size": 2, "ids": ["a", "b"], "labels": ["cat", "cat"]},
    ]
    counts = {name: entry[name] for name in ("groups", "rows", "conflicts", "rows_in_conflict")}
    assert counts == {"groups": 2, "rows": 5, "conflicts": 1, "rows_in_conflict": 3}


@pytest.mark.parametrize("limit", ["MOST_COMPARED", "MOST_CONFIRMED"])
def test_too_many_close_hashes_are_said(monkeypatch, photographs, limit):
    monkeypatch.setattr(near_pictures, limit, 0)
    images = np.stack([as_array(each) for each in (photographs[0], as_jpeg(photographs[0]))])
    found = find_near_pictures(images)
    assert not found.complete
    assert len(found.groups.rows) == 0


def test_hashes_are_compared_up_to_the_bound_and_not_beyond(monkeypatch):
    """Four equal hashes are 16 pairs in each of five bands."""
    hashes = np.full(4, 7, np.uint64)
    for bound, complete in ((80, True), (79, False)):
        monkeypatch.setattr(near_pictures, "MOST_COMPARED", bound)
        assert all(pairs is not None for pairs in close_pairs(hashes)) == complete


def test_pairs_are_connected_to_groups_in_the_order_of_their_first_rows():
    found = near_pictures.connect(np.array([[5, 7], [1, 2], [2, 9]]), 10)
    assert [found.group(number).tolist() for number in range(2)] == [[1, 2, 9], [5, 7]]
    assert len(near_pictures.connect(np.empty((0, 2), np.int64), 10).starts) == 0


def test_the_correlation_of_pictures_does_not_depend_on_their_contrast():
    """Of pale pictures too; one of a single colour resembles none."""
    pale = np.zeros((1, 16, 16), np.uint8)
    pale[0, 3, 3] = 1
    images = np.stack([pale, 100 * pale, np.roll(pale, 1), 0 * pale])
    pairs = np.array([[0, 1], [0, 2], [0, 3], [1, 1]])
    found = near_pictures.correlation(images, pairs)
    assert found == pytest.approx([1, -1 / 255, 0, 1], abs=1e-4)


def test_hashes_that_differ_beside_the_edges_of_bands_are_found():
    """Each pair differs in the lowest or highest bit of every band but one."""
    edges = [64 * band // 5 for band in range(6)]
    first = np.random.default_rng(0).integers(0, 2**63, dtype=np.uint64)
    for ends in ([edges[band] for band in range(5)], [edge - 1 for edge in edges[1:]]):
        for free in range(5):
            bits = [end for band, end in enumerate(ends) if band != free]
            hashes = np.array([first, first ^ np.uint64(sum(1 << bit for bit in bits))])
            assert [pairs.tolist() for pairs in close_pairs(hashes) if len(pairs)] == [[[0, 1]]]


def test_pairs_are_confirmed_up_to_the_bound_and_not_beyond(monkeypatch, photographs):
    brighter = [ImageEnhance.Brightness(photo).enhance(0.8) for photo in photographs[:2]]
    images = np.stack([as_array(each) for each in [*photographs[:2], *brighter]])
    groups = find_near_pictures(images).groups
    assert len(groups.starts) == 2
    for bound, complete in ((2, True), (1, False)):
        monkeypatch.setattr(near_pictures, "MOST_CONFIRMED", bound)
        assert find_near_pictures(images).complete is complete


def test_the_eye_sees_green_as_brighter_than_red_and_red_as_brighter_than_blue():
    red, green, blue = np.eye(3, dtype=np.uint8)[..., None, None] * np.uint8(255)
    shades = [as_grey(image).getpixel((0, 0)) for image in (green, red, blue)]
    assert shades[0] > shades[1] > shades[2] > 0


def test_at_most_a_hundred_groups_of_twenty_rows_are_written_and_all_are_counted():
    """101 pairs, and one group of 21 in which all labels are equal."""
    rows, starts = np.arange(2 * 101 + 21), np.r_[0, 21 + 2 * np.arange(101)]
    found = near_pictures.NearPictures(near_pictures.Copies(rows, starts), 300, complete=True)
    entry = near_picture_entry(found, np.zeros(len(rows), int), ("cat",), None)
    assert (entry["groups"], entry["rows"], entry["conflicts"]) == (102, 223, 0)
    assert len(entry["listed"]) == 100
    assert entry["listed"][0] == {"size": 21, "ids": list(range(20)), "labels": ["cat"] * 20}
    assert entry["listed"][1]["ids"] == [21, 22]
