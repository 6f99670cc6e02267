"""A model with damaged or impossible weights does not predict."""

from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from ulc import NoisyLabelClassifier
from ulc.config import DataSpec, RunSpec
from ulc.errors import InputError
from ulc.training.model import Model
from ulc.training.run import run


@pytest.fixture
def folder():
    rng = np.random.default_rng(0)
    labels = np.arange(24) % 2
    np.savez("data.npz", X=rng.normal(size=(24, 3)) + 3 * labels[:, None], y=labels)
    source = DataSpec(source="npz", path="data.npz")
    return run(RunSpec(data=source, algorithm="ce", epochs=1), Path("runs"))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_weight_that_is_not_finite_is_refused(folder, value):
    """Even with a right checksum."""
    weights = safetensors.torch.load(folder.read("model.safetensors"))
    name = next(name for name, each in weights.items() if each.is_floating_point())
    weights[name].view(-1)[0] = value
    folder.write("model.safetensors", safetensors.torch.save(weights))
    with pytest.raises(InputError, match=rf"{name} holds NaN or infinity"):
        Model.load(folder)


def test_a_prediction_that_is_not_finite_is_refused(folder):
    """Row 0 is the mean of the data, so that only row 1 is multiplied to infinity."""
    model = Model.load(folder)
    mean = np.asarray(model.spec.preprocessing.mean, np.float32)
    with torch.no_grad():
        for parameter in model.networks.parameters():
            parameter.mul_(1e30 if parameter.ndim > 1 else 0)
    model.predict_proba(mean[None])
    with pytest.raises(InputError, match="NaN or infinity for row 1"):
        model.predict_proba(np.stack([mean, mean + 1e9]))


def flip_bits(path, count, seed=0):
    """Yield after each flip of a random bit of the file; it is flipped back afterwards."""
    rng, content = np.random.default_rng(seed), path.read_bytes()
    for _ in range(count):
        flipped = bytearray(content)
        flipped[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        path.write_bytes(flipped)
        yield
    path.write_bytes(content)


def test_a_flip_in_an_exported_model_is_noticed_or_changes_nothing(folder):
    path, inputs = Path("model.safetensors"), np.eye(3, dtype=np.float32)
    model = Model.load(folder)
    model.save_file(path)
    expected = model.predict_proba(inputs)
    noticed = 0
    for _ in flip_bits(path, 100):
        try:
            found = Model.load_file(path)
        except InputError:
            noticed += 1
        else:
            np.testing.assert_array_equal(found.predict_proba(inputs), expected)
            assert found.spec == model.spec
    assert noticed > 50


def test_a_flip_in_a_saved_estimator_is_noticed_or_changes_nothing():
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    inputs = rng.normal(size=(40, 3)) + 3 * labels[:, None]
    fitted = NoisyLabelClassifier("ce", epochs=1, random_state=0).fit(inputs, labels)
    path = Path("estimator.safetensors")
    fitted.save(path)
    expected = fitted.predict_proba(inputs)
    noticed = 0
    for _ in flip_bits(path, 100):
        try:
            found = NoisyLabelClassifier.load(path)
        except InputError:
            noticed += 1
        else:
            np.testing.assert_array_equal(found.predict_proba(inputs), expected)
    assert noticed > 50
