"""How a training computes: precision, accumulated gradients, compiled networks."""

from ulc.algorithms.base import Algorithm
from ulc.blocks.learner import Learner
from ulc.config import ComputeSpec
from ulc.networks.classifier import Classifier


def apply_compute(algorithm: Algorithm, compute: ComputeSpec | None) -> None:
    """Set precision, accumulation and compilation of all networks; None: nothing is changed."""
    if compute is None:
        return
    for part in algorithm.modules():
        if isinstance(part, Learner):
            part.accumulate = compute.accumulate
        if isinstance(part, Classifier):
            part.precision = compute.precision
            if compute.compiled:
                part.backbone.compile()
