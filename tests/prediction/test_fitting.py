"""Images are fitted to a size as Pillow does it, to the bit."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from ulc.prediction.fitting import fit_images

SIZES = [(64, 64), (64, 100), (100, 64), (5, 300), (300, 5), (128, 128), (37, 41), (20, 20), (1, 9)]


@pytest.mark.parametrize("size", [(64, 64), (20, 33), (33, 20)])
def test_the_pixels_are_those_of_pillow(size):
    rng = np.random.default_rng(0)
    for height, width in SIZES:
        images = rng.integers(0, 256, (2, height, width, 3)).astype(np.uint8)
        found = fit_images(torch.from_numpy(images), size).permute(0, 2, 3, 1)
        whole = [Image.fromarray(each) for each in images]
        wanted = [ImageOps.fit(each, size[::-1], Image.Resampling.BICUBIC) for each in whole]
        np.testing.assert_array_equal(found, [np.asarray(each) for each in wanted])


def test_an_image_of_the_size_is_not_changed():
    images = np.random.default_rng(0).integers(0, 256, (2, 12, 17, 3)).astype(np.uint8)
    found = fit_images(torch.from_numpy(images), (12, 17))
    np.testing.assert_array_equal(found.permute(0, 2, 3, 1), images)
