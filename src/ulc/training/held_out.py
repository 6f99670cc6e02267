"""Rows that an algorithm does not learn from, and how it does on their given labels."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ulc.algorithms.base import Algorithm, array
from ulc.blocks.learner import evaluating
from ulc.data.preprocessing import Preprocessing
from ulc.typing import Floats


@dataclass(frozen=True)
class HeldOut:
    """(V, …) stored rows that are not learned from, with their given labels and weights."""

    stored: Tensor
    given: Tensor
    preprocessing: Preprocessing
    weights: Tensor | None = None

    def predicted(self, algorithm: Algorithm) -> Floats:
        """(V, K) class probabilities, as trained."""
        return self.ask(algorithm, algorithm.predict_proba)

    def by_network(self, algorithm: Algorithm) -> list[Floats]:
        """(V, K) logits of each network that predicts."""
        return [
            self.ask(algorithm, lambda inputs, network=network: network(inputs).logits)  # type: ignore[misc]
            for network in algorithm.networks()
        ]

    @torch.no_grad()
    def ask(
        self, algorithm: Algorithm, answer: Callable[[Tensor], Tensor], size: int = 1024
    ) -> Floats:
        """(V, …) the answers for all rows, in evaluation mode."""
        with evaluating(algorithm):
            parts = [answer(self.preprocessing.ready(part)) for part in self.stored.split(size)]
        return array(torch.cat(parts))

    def agreement(self, algorithm: Algorithm) -> float:
        """Weighted share of the rows whose given label is predicted."""
        predicted = torch.from_numpy(self.predicted(algorithm).argmax(1))
        hit = (predicted.to(self.given.device) == self.given).float()
        weights = torch.ones_like(hit) if self.weights is None else self.weights
        return float((hit * weights).sum() / weights.sum())
