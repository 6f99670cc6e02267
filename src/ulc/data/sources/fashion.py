"""Part of Fashion-MNIST inside the package: 800 training and 200 test images per class."""

import io
import lzma
from importlib.resources import files

import numpy as np

from ulc.data.sources.source import Source

CLASSES = (
    "T-shirt", "trouser", "pullover", "dress", "coat",
    "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip


def load() -> Source:
    """Read the images and labels from the package."""
    packed = files("ulc.data.sources").joinpath("fashion.npz.xz").read_bytes()
    with np.load(io.BytesIO(lzma.decompress(packed)), allow_pickle=False) as content:
        arrays = {name: content[name] for name in content.files}
    labels = arrays["y"].astype(np.int64)
    return Source(
        name="fashion",
        inputs=arrays["X"][:, None],
        labels=labels,
        true=labels,
        class_names=CLASSES,
        test_inputs=arrays["X_test"][:, None],
        test_labels=arrays["y_test"].astype(np.int64),
        shift=1,  # the garments are centred and fill the picture
    )
