"""Losses of all training examples, in data set order."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ulc.blocks.learner import Learner, evaluating
from ulc.data.training import TrainingData


@torch.no_grad()
def example_losses(learner: Learner, data: TrainingData, among: Tensor | None = None) -> Tensor:
    """(N,) cross entropy of each given label, without augmentation, in evaluation mode.

    among: (N,) positions of the examples; None: all examples
    """
    network = learner.predictor
    with evaluating(network):
        return torch.cat(
            [
                F.cross_entropy(network(batch.inputs).logits, batch.given, reduction="none")
                for batch in data.in_order(among=among)
            ]
        )
