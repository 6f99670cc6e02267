"""Predictions and judgements of an algorithm that is being trained."""

from collections.abc import Callable

import torch
from torch import Tensor

from ulc.algorithms.base import Algorithm, array
from ulc.blocks.learner import evaluating
from ulc.data.lazy.training import LazyInputs
from ulc.data.preprocessing import Preprocessing
from ulc.data.rows import rows_at_once
from ulc.labels.judgement import Judgement
from ulc.networks.classifier import Classifier
from ulc.training.device import memory_explained
from ulc.training.divergence import check_predictions
from ulc.typing import Floats

BATCH = 1024


def predict_stored(
    algorithm: Algorithm, stored: Tensor | LazyInputs, preprocessing: Preprocessing
) -> Floats:
    """(N, K) class probabilities for (N, …) stored inputs, under the training data's prior."""
    return check_predictions(in_batches(algorithm.predict_proba, algorithm, stored, preprocessing))


def predict_by_network(
    algorithm: Algorithm, stored: Tensor | LazyInputs, preprocessing: Preprocessing
) -> list[Floats]:
    """For each network of the algorithm, its (N, K) logits for (N, …) stored inputs."""

    def logits_of(network: Classifier) -> Callable[[Tensor], Tensor]:
        return lambda inputs: network(inputs).logits

    return [
        in_batches(logits_of(network), algorithm, stored, preprocessing)
        for network in algorithm.networks()
    ]


@memory_explained()
@torch.no_grad()
def in_batches(
    predict: Callable[[Tensor], Tensor],
    algorithm: Algorithm,
    stored: Tensor | LazyInputs,
    preprocessing: Preprocessing,
) -> Floats:
    """Apply `predict` to all stored inputs, batch by batch, in evaluation mode."""
    with evaluating(algorithm):
        size = rows_at_once(preprocessing.shape, BATCH)
        parts = [predict(preprocessing.ready(part)) for part in stored.split(size)]
    return array(torch.cat(parts))


@memory_explained()
def judge_labels(algorithm: Algorithm) -> Judgement:
    """The algorithm's judgement of its training labels; raise if predictions are not finite."""
    judgement = algorithm.judge()
    check_predictions(judgement.prediction)
    return judgement
