"""Networks that a validation set chooses, each by itself."""

import numpy as np
import torch

from ulc.algorithms import ALGORITHMS
from ulc.data.truth import TestSet
from ulc.testing import Case, toy_data
from ulc.training.best_networks import BestNetworks
from ulc.training.loop import Epoch


def always(network, label):
    """Let a network predict one class for every input."""
    with torch.no_grad():
        network.head.weight.zero_()
        network.head.bias.copy_(torch.eye(len(network.head.bias))[label])


def observed(labels_by_epoch, best=None, first=0):
    """Train nothing: in each epoch both networks predict the class that the test says."""
    data = toy_data("vector")
    algorithm = Case(ALGORITHMS["dividemix"], "vector").build(data)
    validation = TestSet(data.stored[:4], np.array([0, 0, 0, 1]))
    observer = BestNetworks(validation, data.preprocessing, best)
    records = []
    for number, labels in enumerate(labels_by_epoch, first):
        for network, label in zip(algorithm.networks(), labels, strict=True):
            always(network, label)
        records.append({"epoch": number})
        observer.on_epoch(Epoch(algorithm, records, trained_at=0.0, is_last=False))
    return algorithm, observer, records


def predicted(algorithm):
    return [int(network.head.bias.argmax()) for network in algorithm.networks()]


def test_each_network_gets_the_weights_of_its_own_best_epoch():
    algorithm, observer, records = observed([(1, 2), (0, 1), (2, 0), (2, 2)])
    assert [record["validation"]["accuracy"] for record in records] == [
        [0.25, 0.0], [0.75, 0.25], [0.0, 0.75], [0.0, 0.0],
    ]  # fmt: skip
    assert predicted(algorithm) == [2, 2]
    observer.on_end(algorithm)
    assert predicted(algorithm) == [0, 0]
    assert observer.chosen == {"epochs": [1, 2], "validation_accuracy": [0.75, 0.75]}


def test_the_first_of_equally_good_epochs_counts():
    _, observer, _ = observed([(0, 0), (0, 0)])
    assert observer.chosen["epochs"] == [0, 0]


def test_a_resumed_training_goes_on_from_what_was_kept():
    _, before, _ = observed([(0, 2)])
    algorithm, observer, _ = observed([(1, 1)], best=before.best, first=1)
    observer.on_end(algorithm)
    assert predicted(algorithm) == [0, 1]
    assert observer.chosen["epochs"] == [0, 1]


def test_without_an_epoch_nothing_is_chosen():
    algorithm, observer, _ = observed([])
    for network in algorithm.networks():
        always(network, 1)
    observer.on_end(algorithm)
    assert predicted(algorithm) == [1, 1]
    assert observer.chosen == {"epochs": [], "validation_accuracy": []}
