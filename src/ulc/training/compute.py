"""How a training computes: precision, accumulated gradients, compiled networks."""

import torch

from ulc.algorithms.base import Algorithm
from ulc.blocks.learner import Learner
from ulc.config import ComputeSpec
from ulc.networks.classifier import Classifier, Precision
from ulc.networks.gradient_scale import GradientScale


def apply_compute(algorithm: Algorithm, compute: ComputeSpec | None) -> None:
    """Set precision, accumulation and compilation of all networks; None: nothing is changed."""
    if compute is None:
        return
    device = algorithm.data.given.device
    precision = choose_precision(device) if compute.precision == "auto" else compute.precision
    for part in algorithm.modules():
        if isinstance(part, Learner):
            part.accumulate = compute.accumulate
            if precision == "float16":
                part.network.gradient_scale = GradientScale(device)
        if isinstance(part, Classifier):
            part.precision = precision
            if compute.compiled:
                part.backbone.compile()


def choose_precision(device: torch.device) -> Precision:
    """bfloat16 on a GPU of CUDA that computes with it, float16 on an older one, else float32."""
    if device.type != "cuda":
        return "float32"
    with torch.cuda.device(device):
        new = torch.cuda.is_bf16_supported(including_emulation=False)
    return "bfloat16" if new else "float16"
