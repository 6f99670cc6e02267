"""Keep the best weights of each network by a validation set."""

import copy
from typing import Any

from ulc.algorithms.base import Algorithm
from ulc.data.preprocessing import Preprocessing
from ulc.data.truth import TestSet
from ulc.training.best_epoch import Snapshot
from ulc.training.inference import predict_by_network
from ulc.training.loop import Epoch, Observer


class BestNetworks(Observer):
    """Keeps each network as it was after the epoch with its best accuracy on the validation set.

    At the end each network gets its best weights, so networks of different epochs may predict
    together. The first of equally good epochs counts.

    best: what a resumed training has kept so far: for each network its epoch, accuracy and weights;
        None: nothing is kept yet
    """

    def __init__(
        self, validation: TestSet, preprocessing: Preprocessing, best: Snapshot | None = None
    ) -> None:
        self.validation = validation
        self.preprocessing = preprocessing
        self.best = best

    def on_epoch(self, epoch: Epoch) -> None:
        """Record the accuracy of each network; keep those that are better than before."""
        algorithm, number = epoch.algorithm, epoch.record["epoch"]
        logits = predict_by_network(algorithm, self.validation.stored, self.preprocessing)
        accuracies = [float((each.argmax(1) == self.validation.labels).mean()) for each in logits]
        epoch.record["validation"] = {"accuracy": accuracies}
        kept = [] if self.best is None else self.best.state["networks"]
        networks: list[dict[str, Any]] = []
        for place, (network, accuracy) in enumerate(
            zip(algorithm.networks(), accuracies, strict=True)
        ):
            if kept and kept[place]["accuracy"] >= accuracy:
                networks.append(kept[place])
            else:
                weights = copy.deepcopy(network.state_dict())
                networks.append({"epoch": number, "accuracy": accuracy, "weights": weights})
        self.best = Snapshot(number, {"networks": networks})

    def on_end(self, algorithm: Algorithm) -> None:
        """Give each network its best weights."""
        if self.best is not None:
            for network, kept in zip(
                algorithm.networks(), self.best.state["networks"], strict=True
            ):
                network.load_state_dict(kept["weights"])

    @property
    def chosen(self) -> dict[str, list[Any]]:
        """For each network, the epoch of its best weights and their validation accuracy."""
        networks = [] if self.best is None else self.best.state["networks"]
        return {
            "epochs": [each["epoch"] for each in networks],
            "validation_accuracy": [each["accuracy"] for each in networks],
        }
