"""All algorithms by name: built in, from installed packages, or the user's own."""

import inspect
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import entry_points
from typing import Any

from ulc.algorithms.base import Algorithm
from ulc.algorithms.coteaching_plus import CoTeachingPlus
from ulc.algorithms.cross_entropy import CrossEntropy
from ulc.algorithms.dividemix import DivideMix
from ulc.algorithms.elr_plus import ElrPlus
from ulc.algorithms.m_correction import MCorrection
from ulc.algorithms.meta_learning import MetaLearning
from ulc.algorithms.pencil import Pencil
from ulc.algorithms.ulc import ULC
from ulc.algorithms.ulc_plus import ULCPlus
from ulc.config import Spec, configured
from ulc.errors import InputError
from ulc.importing import imported

ENTRY_POINTS = "ulc.algorithms"
ALGORITHMS: dict[str, type[Algorithm]] = {
    "ce": CrossEntropy,
    "coteaching_plus": CoTeachingPlus,
    "pencil": Pencil,
    "meta_learning": MetaLearning,
    "m_correction": MCorrection,
    "dividemix": DivideMix,
    "elr_plus": ElrPlus,
    "ulc": ULC,
    "ulc_plus": ULCPlus,
}


def find_algorithm(name: str) -> type[Algorithm]:
    """The algorithm of this name: built in, of an installed package, or the user's module:Class."""
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    if ":" in name:
        return checked_class(imported(name, "algorithm"), name)
    others = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    if name not in others:
        known = ", ".join([*ALGORITHMS, *others])
        raise InputError(f"unknown algorithm '{name}'; known: {known}, or your own module:Class")
    return checked_class(imported(others[name].value, "algorithm"), name)


def checked_class(found: Any, name: str) -> type[Algorithm]:
    """The class `found` under this name; raise an InputError unless it is a complete algorithm."""
    if isinstance(found, type) and issubclass(found, Algorithm) and found is not Algorithm:
        config_class = getattr(found, "config_class", None)
        if not (isinstance(config_class, type) and issubclass(config_class, Spec)):
            raise InputError(f"'{name}' has no config_class; set it to a class derived from Spec")
        if inspect.isabstract(found):
            raise InputError(f"'{name}' has no train_epoch; define this method in it")
        return found
    raise InputError(
        f"'{name}' is no algorithm; name a class derived from ulc.algorithms.base.Algorithm"
    )


def known_algorithms() -> dict[str, type[Algorithm]]:
    """The built-in algorithms and those of installed packages that can be imported."""
    found = dict(ALGORITHMS)
    for entry in entry_points(group=ENTRY_POINTS):
        with suppress(InputError):
            found.setdefault(entry.name, find_algorithm(entry.name))
    return found


def configure(name: str, options: Mapping[str, Any]) -> Spec:
    """The validated config of the algorithm with these options."""
    return configured(find_algorithm(name).config_class, options, where=f"options of {name}")
