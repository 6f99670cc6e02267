"""The real CIFAR-10 and the paper's network: a few steps on a CPU, no claim about accuracy."""

import numpy as np
import torch

from ulc.algorithms import configure, find_algorithm
from ulc.config import NetworkSpec
from ulc.data.augment import strong_augmentation, weak_augmentation
from ulc.data.noise import symmetric
from ulc.data.preprocessing import Preprocessing
from ulc.data.sources.cifar import load_cifar10
from ulc.data.training import TensorData
from ulc.networks import network_maker


def test_warm_up_and_ulc_steps_run_and_the_loss_falls(cifar10):
    """PreAct ResNet-18, 40 images, 30 % wrong: 20 warm-up steps a network, then 3 epochs of ULC."""
    source = load_cifar10(cifar10)
    assert source.inputs.shape == (50_000, 3, 32, 32)
    assert (np.bincount(source.labels) == 5_000).all()
    given = symmetric(source.labels[:40], 10, 0.3, np.random.default_rng(0))
    preprocessing = Preprocessing.fit(source)
    data = TensorData(
        stored=preprocessing.stored(source.inputs[:40]),
        given=torch.from_numpy(given),
        num_classes=10,
        seed=0,
        preprocessing=preprocessing,
        augment=weak_augmentation(preprocessing.shape),
        strong=strong_augmentation(preprocessing.shape),
    )
    config = configure(
        "ulc",
        {"warmup_epochs": 4, "batch_size": 8, "warmup_batch_size": 8, "sgd": {"lr": 0.002}},
    )
    new_network = network_maker(
        NetworkSpec(name="preact_resnet18"), preprocessing.shape, 10, torch.device("cpu")
    )
    ulc = find_algorithm("ulc").build(config, data, new_network)
    warm_up = [ulc.run_epoch(epoch)["loss"] for epoch in range(4)]  # 5 steps each, two networks
    assert warm_up[-1] < warm_up[0]
    later = [ulc.run_epoch(epoch) for epoch in range(4, 7)]
    assert all(np.isfinite(list(record.values())).all() for record in later)
    assert later[-1]["trusted_loss"] < later[0]["trusted_loss"]
    assert ulc.judge().clean_probability.shape == (40,)
