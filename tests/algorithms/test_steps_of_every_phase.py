"""Every phase of every algorithm takes steps with the networks for images, at paper settings.

Epochs are cut to five, and the stages of the presets with them; images have 8 × 8 pixels.
"""

import numpy as np
import pytest
import torch

from ulc.algorithms import ALGORITHMS, configure, find_algorithm
from ulc.config import DataSpec, NetworkSpec, NoiseSpec, RunSpec, merge
from ulc.data.augment import strong_augmentation, weak_augmentation
from ulc.data.preprocessing import Preprocessing
from ulc.data.sources.source import Source
from ulc.data.training import TensorData
from ulc.networks import network_maker
from ulc.networks.preact_resnet import PreActResNet18
from ulc.networks.resnet50 import ResNet50
from ulc.settings.variants import VARIANTS, variant

EPOCHS = 5
STAGES = {  # options that count the epochs of the phases before the last one
    "ce": (),
    "coteaching_plus": ("agree_epochs",),
    "pencil": ("backbone_epochs", "correcting_epochs"),
    "meta_learning": ("pretrain_epochs", "delay_epochs"),
    "m_correction": ("warmup_epochs", "dynamic_epochs", "cooling_epochs"),
    "dividemix": ("warmup_epochs",),
    "elr_plus": (),
    "ulc": ("warmup_epochs",),
    "ulc-fixmatch": ("warmup_epochs",),
    "ulc_plus": ("cross_epochs",),  # the warm-up is a part of them
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 4)
    inputs = rng.integers(0, 120, (12, 3, 8, 8), np.uint8) + 60 * labels[:, None, None, None]
    source = Source("stub", inputs.astype(np.uint8), labels, class_names=("a", "b", "c"))
    preprocessing = Preprocessing.fit(source)
    return TensorData(
        stored=preprocessing.stored(source.inputs),
        given=torch.from_numpy(np.where(np.arange(12) % 5, labels, (labels + 1) % 3)),
        num_classes=3,
        seed=0,
        preprocessing=preprocessing,
        augment=weak_augmentation(preprocessing.shape),
        strong=strong_augmentation(preprocessing.shape),
    )


COLUMNS = {  # columns of the paper's tables whose presets differ from those at 50 % on CIFAR-10
    "cifar10-asymmetric": ("cifar10", "asymmetric", 0.4),
    "cifar10-90": ("cifar10", "symmetric", 0.9),
    "cifar100-50": ("cifar100", "symmetric", 0.5),
    "cifar100-80": ("cifar100", "symmetric", 0.8),
}


def build(method, network, data, column=("cifar10", "symmetric", 0.5), epochs=EPOCHS):
    source, kind, rate = column
    base = RunSpec(data=DataSpec(source=source), noise=NoiseSpec(kind=kind, rate=rate))
    spec = variant(base, method, epochs=epochs)
    cheap = {"batch_size": 6, "warmup_batch_size": 6, "tasks": 2}
    small = {key: value for key, value in cheap.items() if key in fields(method)}
    options = merge(spec.options, small)
    shape = data.preprocessing.shape
    width = 2 if network == "resnet50" else None
    name = NetworkSpec(name=network or spec.network.name, width=width)
    new_network = network_maker(name, shape, 3, torch.device("cpu"))
    algorithm = find_algorithm(spec.algorithm)
    return algorithm.build(configure(spec.algorithm, options), data, new_network), options


def fields(method):
    algorithm, _ = VARIANTS.get(method, (method, {}))
    return find_algorithm(algorithm).config_class.model_fields


def test_every_algorithm_is_here():
    assert set(ALGORITHMS) <= set(STAGES)


@pytest.mark.slow
@pytest.mark.parametrize("network", [None, "narrow_resnet"], ids=["of the preset", "narrow_resnet"])
@pytest.mark.parametrize("method", STAGES)
def test_every_phase_takes_steps(method, network, data):
    algorithm, options = build(method, network, data)
    if network is None:
        assert isinstance(algorithm.networks()[0].backbone, PreActResNet18)
    check_phases(algorithm, options, method)


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("method", STAGES)
def test_every_phase_takes_steps_at_the_presets_of_other_columns(method, column, data):
    check_phases(*build(method, "small_cnn", data, COLUMNS[column]), method)


@pytest.mark.parametrize("method", STAGES)
def test_every_phase_takes_steps_at_the_presets_of_clothing1m_with_resnet50(method, data):
    """Meta-Learning has no epochs before its meta loss there."""
    algorithm, options = build(method, "resnet50", data, ("clothing1m", "none", 0.0), epochs=6)
    assert isinstance(algorithm.networks()[0].backbone, ResNet50)
    check_phases(algorithm, options, method, epochs=6, without=("delay_epochs",))


def check_phases(algorithm, options, method, epochs=EPOCHS, without=()):
    """Every phase has epochs, and every epoch changes weights.

    without: phases that these settings do not have
    """
    stages = [stage for stage in STAGES[method] if stage not in without]
    assert all(options[stage] >= 1 for stage in stages)
    assert sum(options[stage] for stage in stages) < epochs
    assert options.get("warmup_epochs", 0) < options.get("cross_epochs", epochs)
    records = []
    for epoch in range(epochs):
        before = [each.clone() for each in algorithm.networks()[0].parameters()]
        records.append(algorithm.run_epoch(epoch))
        after = algorithm.networks()[0].parameters()
        assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True)), epoch
    for record in records:
        assert all(np.isfinite(value) for value in record.values()), record
    assert algorithm.judge().clean_probability.shape == (12,)
