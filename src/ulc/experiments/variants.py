"""Algorithms and ablations by the names of the paper's tables."""

from typing import Any

from ulc.algorithms import ALGORITHMS
from ulc.config import RunSpec
from ulc.errors import InputError
from ulc.experiments.presets import with_preset

ABLATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "ulc-without-csm": ("ulc", {"per_class": False}),
    "ulc-without-eum": ("ulc", {"doubt_weight": 0.0}),
    "ulc-without-aul": ("ulc", {"logit_noise": "off"}),
}


def variant(base: RunSpec, name: str, *, epochs: int | None = None) -> RunSpec:
    """The run `base` with the algorithm or ablation `name` and its preset."""
    if name not in ABLATIONS and name not in ALGORITHMS:
        known = ", ".join([*ALGORITHMS, *ABLATIONS])
        raise InputError(f"unknown algorithm or ablation '{name}'; known: {known}")
    algorithm, options = ABLATIONS.get(name, (name, {}))
    return with_preset(
        base.model_copy(update={"algorithm": algorithm}), epochs=epochs, options=options
    )
