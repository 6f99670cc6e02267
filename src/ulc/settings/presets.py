"""Presets: settings for each data set and algorithm, read from presets.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ulc.algorithms import ALGORITHMS, find_algorithm
from ulc.config import SGD, NoiseSpec, RunSpec, merge
from ulc.errors import InputError


@dataclass(frozen=True)
class Preset:
    """Settings of an algorithm for a data set.

    tuned: whether the settings were chosen for this algorithm; False: they suit any algorithm
    network: name of the network; "auto": by the kind of data
    weights: its initial weights; None: random
    """

    epochs: int
    options: dict[str, Any]
    tuned: bool = True
    network: str = "auto"
    weights: str | None = None


def with_preset(
    spec: RunSpec, *, epochs: int | None = None, options: Mapping[str, Any] | None = None
) -> RunSpec:
    """The spec with the preset of its data set and algorithm.

    Epochs, options and network that the spec sets override the preset; the arguments override both.
    Options of the preset that count epochs or steps are scaled to the number of epochs.
    """
    preset = find_preset(spec)
    if epochs is None:
        epochs = spec.epochs if "epochs" in spec.model_fields_set else preset.epochs
    scaled = scale_epochs(preset.options, epochs / preset.epochs)
    merged = merge(merge(scaled, spec.options), options or {})
    changes: dict[str, Any] = {"epochs": epochs, "options": merged}
    if spec.network.name == "auto":
        weights = spec.network.weights or preset.weights
        network = {"name": preset.network, "weights": weights}
        changes["network"] = spec.network.model_copy(update=network)
    return spec.model_copy(update=changes)


def find_preset(spec: RunSpec) -> Preset:
    """The preset for the spec's data source, algorithm and (nearest) noise rate."""
    presets = read_presets()
    if spec.data.source not in presets:
        raise InputError(f"unknown data source '{spec.data.source}'; known: {', '.join(presets)}")
    section = presets[spec.data.source]
    if "vectors" in section:  # the user's own data: the section for data of this kind
        section = presets[section["images" if spec.data.image else "vectors"]]
    network = {"network": section.get("network", "auto"), "weights": section.get("weights")}
    if spec.algorithm not in ALGORITHMS:
        options = neutral_options(spec.algorithm, section)
        return Preset(section["epochs"], options, tuned=False, **network)
    options = merge(recipe_options(spec.algorithm, section), section.get(spec.algorithm, {}))
    epochs = options.pop("epochs", section["epochs"])
    options |= noise_options(section, spec.algorithm, spec.noise)
    return Preset(epochs, options, **network)


def noise_options(section: Mapping[str, Any], algorithm: str, noise: NoiseSpec) -> dict[str, Any]:
    """The options of an algorithm for a kind of noise and the nearest rate.

    There are none for a user's own algorithm, and for a kind that the presets do not name.

    section: presets of the data set
    """
    rows = [row for row in section.get("noise", ()) if noise.kind in row["kinds"]]
    if algorithm not in ALGORITHMS or not rows:
        return {}
    nearest = min(rows, key=lambda row: abs(row["rate"] - noise.rate))
    return known_options(algorithm, nearest["options"])


def known_options(algorithm: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options that an algorithm has."""
    fields = find_algorithm(algorithm).config_class.model_fields
    return {name: value for name, value in options.items() if name in fields}


def recipe_options(algorithm: str, section: Mapping[str, Any]) -> dict[str, Any]:
    """The data set's recipe (schedule, weight average) for the optimisers of an algorithm.

    section: presets of the data set
    """
    return known_options(algorithm, section.get("recipe", {}))


def neutral_options(algorithm: str, section: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe and SGD options of cross entropy, for the user's own algorithm with `sgd`.

    Values that differ from the defaults of `SGD` stay, because the author has set them. Other
    options of cross entropy are not used: the algorithm may mean something else by their names.

    section: presets of the data set
    """
    config_class = find_algorithm(algorithm).config_class
    field = config_class.model_fields.get("sgd")
    if field is None or field.annotation is not SGD:
        return {}
    default, own = SGD(), field.get_default(call_default_factory=True)
    if not isinstance(own, SGD):
        return {}
    schedule = merge(section.get("recipe", {}).get("sgd", {}), section["ce"].get("sgd", {}))
    unchanged = {
        name: value
        for name, value in schedule.items()
        if getattr(own, name) == getattr(default, name)
    }
    return {"sgd": unchanged} if unchanged else {}


def scale_epochs(options: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """The options with all counts of epochs and steps multiplied by the factor, at least 1.

    `average_epochs` stays: weights are averaged over as many epochs in a longer training.
    """

    def scaled(name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return scale_epochs(value, factor)
        if name == "milestones":
            return [max(1, round(factor * each)) for each in value]
        return (
            max(1, round(factor * value))
            if name.endswith(("_epochs", "_steps")) and value and name != "average_epochs"
            else value
        )

    return {name: scaled(name, value) for name, value in options.items()}


@cache
def read_presets() -> dict[str, Any]:
    """The content of presets.toml."""
    return tomllib.loads(files("ulc.settings").joinpath("presets.toml").read_text())
