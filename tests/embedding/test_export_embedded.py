"""One ONNX graph takes photographs to the probabilities of `ulc predict`."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_sample_images

SHAPES = [(90, 120), (120, 70), (64, 64), (200, 60), (50, 40), (61, 180)]


def crop_photographs(folder, count):
    """Write parts of two real photographs, in many sizes; the class is the photograph."""
    rng = np.random.default_rng(0)
    for number in range(count):
        photo = load_sample_images().images[number % 2]
        height, width = SHAPES[number % len(SHAPES)]
        top, left = (
            rng.integers(whole - part)
            for whole, part in zip(photo.shape, (height, width), strict=False)
        )
        path = Path(folder, ("palace", "flower")[number % 2], f"{number:02}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(photo[top : top + height, left : left + width]).save(path)


def train(ulc, backbone):
    assert ulc("embed", "photos", "--backbone", backbone, "--out", "f.npz", "-q")[0] == 0
    code, printed = ulc(
        "train", "f.npz", "-a", "ce", "--epochs", 2, "--set", "batch_size=8", "--json", "-q"
    )
    assert code == 0
    return json.loads(printed.out)[0]["run"]


@pytest.mark.slow
def test_the_graph_predicts_photographs_of_any_size_as_the_command_does(ulc):
    import onnxruntime

    crop_photographs("photos", 24)
    run = train(ulc, "toy_backbones:Traceable")
    code, printed = ulc("export", run, "--onnx", "m.onnx", "--prior", "balanced", "--trust")
    assert (code, printed.err) == (0, "")
    assert "m.onnx: takes photographs" in printed.out
    session = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
    options = ("--prior", "balanced", "--probabilities", "--trust", "--out", "p.csv", "-q")
    assert ulc("predict", run, "photos", *options)[0] == 0
    table = pd.read_csv("p.csv").set_index("id")
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["image_size"]) == [64, 64]
    wanted = table[[f"probability_{name}" for name in json.loads(about["class_names"])]]
    assert wanted.to_numpy().std() > 0.01
    for path, probability in wanted.iterrows():
        image = np.asarray(Image.open(path))
        (found,) = session.run(None, {"inputs": np.stack([image, image[::-1]])})
        np.testing.assert_allclose(found[0], probability, atol=1e-3)


def test_a_backbone_of_ones_own_is_loaded_only_with_trust(ulc):
    crop_photographs("photos", 12)
    run = train(ulc, "toy_backbones:Traceable")
    code, printed = ulc("export", run, "--onnx", "m.onnx")
    assert code == 2
    assert "--trust" in printed.err
