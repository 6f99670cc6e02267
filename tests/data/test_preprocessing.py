"""Normalisation of inputs, by hand."""

import re

import numpy as np
import pytest
import torch

from ulc.data.preprocessing import Preprocessing
from ulc.data.sources.source import Source
from ulc.errors import InputError
from ulc.validating import checked


def source(inputs, **more):
    labels = np.arange(len(inputs)) % 2
    return Source("toy", inputs, labels, ("a", "b"), **more)


def two_images(first, second):
    """Two images of two channels, each channel of one brightness an image."""
    values = np.array([first, second], np.uint8)[:, :, None, None]
    return np.broadcast_to(values, (2, 2, 3, 5)).copy()


def test_images_are_centred_and_scaled_by_channel():
    """Brightness 0 and 255 has mean and deviation 0.5, and 51 and 153 has 0.4 and 0.2."""
    images = two_images([0, 51], [255, 153])
    found = Preprocessing.fit(source(images))
    assert found.kind == "image"
    assert found.shape == (2, 3, 5)
    assert found.mean == pytest.approx((0.5, 0.4), abs=1e-6)
    assert found.std == pytest.approx((0.5, 0.2), abs=1e-6)
    ready = found.ready(found.stored(images))
    assert ready.dtype == torch.float32
    expected = torch.tensor([-1.0, 1.0]).view(2, 1, 1, 1).expand(2, 2, 3, 5)
    assert torch.allclose(ready, expected, atol=1e-5)


def test_statistics_that_the_literature_fixes_are_taken():
    """(255 / 255 − 0.4) / 0.3 = 2 and (0 − 0.5) / 0.25 = −2."""
    images = two_images([255, 0], [255, 0])
    found = Preprocessing.fit(source(images, mean=(0.4, 0.5), std=(0.3, 0.25)))
    ready = found.ready(found.stored(images))
    assert torch.allclose(ready[:, 0], torch.tensor(2.0), atol=1e-5)
    assert torch.allclose(ready[:, 1], torch.tensor(-2.0), atol=1e-5)


def test_images_are_stored_as_bytes():
    images = two_images([0, 51], [255, 153])
    stored = Preprocessing.fit(source(images)).stored(images)
    assert stored.dtype == torch.uint8
    assert np.array_equal(stored.numpy(), images)


def test_a_constant_channel_is_centred_and_not_blown_up():
    images = two_images([0, 51], [255, 51])
    found = Preprocessing.fit(source(images))
    assert found.std[1] == 1
    assert torch.allclose(found.ready(found.stored(images))[:, 1], torch.tensor(0.0), atol=1e-5)


def test_vectors_are_centred_by_column_and_scaled_alike():
    """Centred, the columns are ∓1 and ∓7: deviation √((1 + 49) / 2) = 5 over all."""
    vectors = np.array([[1, 10], [3, 24]], np.float32)
    found = Preprocessing.fit(source(vectors))
    assert found.mean == (2, 17)
    assert found.std == pytest.approx((5,))
    stored = found.stored(vectors)
    assert stored.dtype == torch.float32
    assert torch.allclose(stored, torch.tensor([[-0.2, -1.4], [0.2, 1.4]]))
    assert found.ready(stored) is stored


def test_constant_vectors_become_zero():
    vectors = np.full((4, 3), 7, np.float32)
    found = Preprocessing.fit(source(vectors))
    assert torch.equal(found.stored(vectors), torch.zeros(4, 3))


def test_large_offsets_cost_no_precision():
    """Columns of 10⁶ + 1 ± 1 have that mean and deviation, though they sum to 3·10⁹."""
    vectors = np.array([[1e6, 1e6], [1e6 + 2, 1e6 + 2]] * 1500, np.float32)
    found = Preprocessing.fit(source(vectors))
    assert found.mean == (1e6 + 1, 1e6 + 1)
    assert found.std == pytest.approx((1,))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (np.zeros((2, 3), np.float32), r"shape \(3,\), but the model learned \(2,\); change them"),
        (np.zeros(2, np.float32), r"shape \(2,\); give vectors"),
        (np.zeros((2, 2, 2, 2), np.uint8), r"the model learned \(2,\)"),
        (np.array([[0, np.nan]]), "row 0, column 1 is nan"),
        (np.array([["a", "b"]]), "vectors of type <U1; give them as numbers"),
    ],
)
def test_inputs_of_another_kind_are_refused(inputs, message):
    found = Preprocessing.fit(source(np.array([[1, 10], [3, 24]], np.float32)))
    with pytest.raises(InputError, match=message):
        found.stored(inputs)


def test_images_of_another_size_or_type_are_refused():
    found = Preprocessing.fit(source(two_images([0, 51], [255, 153])))
    with pytest.raises(InputError, match=r"shape \(2, 4, 5\), but the model learned \(2, 3, 5\)"):
        found.stored(np.zeros((1, 2, 4, 5), np.uint8))
    with pytest.raises(InputError, match="images of type float64; give them as uint8"):
        found.stored(np.zeros((1, 2, 3, 5)))


PICTURES = {"kind": "image", "shape": (1, 4, 6), "mean": (0.5,), "std": (0.2,)}
VECTORS = {"kind": "vector", "shape": (2,), "mean": (0.0, 1.0), "std": (2.0,)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (PICTURES | {"shape": (1, 4)}, "shape (1, 4) is not that of images"),
        (PICTURES | {"shape": ()}, "shape () is not that of images"),
        (PICTURES | {"shape": (1, 0, 6)}, "shape (1, 0, 6) is not that of images"),
        (VECTORS | {"shape": (2, 1)}, "shape (2, 1) is not that of vectors"),
        (PICTURES | {"mean": (0.5, 0.5)}, "mean and std do not fit the shape"),
        (VECTORS | {"std": (0.0,)}, "mean and std do not fit the shape"),
        (PICTURES | {"crop": 5}, "crop 5 does not fit the shape (1, 4, 6)"),
        (VECTORS | {"crop": 1}, "crop 1 does not fit the shape (2,)"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(content, message):
    for fitting in (PICTURES, PICTURES | {"crop": 4}, VECTORS):
        checked(Preprocessing, fitting, where="model.json")
    with pytest.raises(InputError, match="^model.json: .*" + re.escape(message)):
        checked(Preprocessing, content, where="model.json")
