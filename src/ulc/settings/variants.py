"""Variants of ULC and ULC+ by name; each differs in one option."""

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
    "ulc-guarded": ("ulc", {"class_guard": "anchored"}),
    "ulc_plus-without-crossing": ("ulc_plus", {"cross_fitted": False}),
    "ulc_plus-without-anchor": ("ulc_plus", {"anchored": False}),
    "ulc_plus-without-row-noise": ("ulc_plus", {"row_noise": False}),
    "ulc_plus-without-weights": ("ulc_plus", {"weighted": False}),
    "ulc_plus-without-balance": ("ulc_plus", {"balanced": False}),
    "ulc_plus-without-mixup": ("ulc_plus", {"mixup_alpha": 0.0}),
}

EVERY = (*ALGORITHMS, "ulc-fixmatch")  # all methods that the paper compares, and ULC+


def find_method(name: str) -> tuple[str, Mapping[str, Any]]:
    """The algorithm of an algorithm or variant, and the options that make it one."""
    algorithm, own = VARIANTS.get(name, (name, {}))
    try:
        find_algorithm(algorithm)
    except InputError as error:
        raise InputError(f"{error}; variants: {', '.join(VARIANTS)}") from None
    return algorithm, own


def variant(
    base: RunSpec,
    name: str,
    *,
    epochs: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> RunSpec:
    """The run `base` with the algorithm or variant `name` and its preset.

    Epochs and options of `base` override the preset; the arguments override both.
    """
    algorithm, own = find_method(name)
    wanted = merge(base.options, options or {})
    clash = next((key for key in own if key in wanted), None)
    if clash is not None:
        raise InputError(
            f"the variant '{name}' sets {clash} = {own[clash]!r}; drop {clash} from the options or "
            f"use the algorithm '{algorithm}'"
        )
    return with_preset(
        base.model_copy(update={"algorithm": algorithm, "options": merge(wanted, own)}),
        epochs=epochs,
    )
