"""Algorithms, and variants of ULC that are one option away from it, by name."""

from collections.abc import Mapping
from typing import Any

from ulc.algorithms import ALGORITHMS, find_algorithm
from ulc.config import RunSpec, merge
from ulc.errors import InputError
from ulc.settings.presets import with_preset

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ulc-without-csm": ("ulc", {"per_class": False}),
    "ulc-without-eum": ("ulc", {"doubt_weight": 0.0}),
    "ulc-without-aul": ("ulc", {"logit_noise": "off"}),
    "ulc-fixmatch": ("ulc", {"semi_supervised": "fixmatch"}),
    "ulc-beta": ("ulc", {"mixture": "beta"}),
}

EVERY = (*ALGORITHMS, "ulc-fixmatch")  # all that the paper compares, each once


def variant(
    base: RunSpec,
    name: str,
    *,
    epochs: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> RunSpec:
    """The run `base` with the algorithm or variant `name` and its preset."""
    algorithm, own = VARIANTS.get(name, (name, {}))
    try:
        find_algorithm(algorithm)
    except InputError as error:
        raise InputError(f"{error}; variants: {', '.join(VARIANTS)}") from None
    return with_preset(
        base.model_copy(update={"algorithm": algorithm}),
        epochs=epochs,
        options=merge(own, options or {}),
    )
