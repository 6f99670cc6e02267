"""Every algorithm by name: a literal, no registration magic."""

from collections.abc import Mapping
from typing import Any

from ulc.algorithms.base import Algorithm
from ulc.algorithms.cross_entropy import CrossEntropy
from ulc.algorithms.dividemix import DivideMix
from ulc.algorithms.ulc import ULC
from ulc.config import Spec, checked
from ulc.errors import InputError

ALGORITHMS: dict[str, type[Algorithm]] = {
    "ce": CrossEntropy,
    "dividemix": DivideMix,
    "ulc": ULC,
}


def find_algorithm(name: str) -> type[Algorithm]:
    """The algorithm of that name."""
    if name not in ALGORITHMS:
        raise InputError(f"unknown algorithm '{name}'; known: {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]


def configure(name: str, options: Mapping[str, Any]) -> Spec:
    """The algorithm's config with these options, checked."""
    return checked(find_algorithm(name).config_class, options, where=f"options of {name}")
