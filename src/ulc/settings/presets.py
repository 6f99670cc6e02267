"""Per-dataset settings, read from presets.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ulc.algorithms import ALGORITHMS, find_algorithm
from ulc.config import RunSpec, merge
from ulc.errors import InputError


@dataclass(frozen=True)
class Preset:
    """How long to train, and the algorithm's options."""

    epochs: int
    options: dict[str, Any]


def with_preset(
    spec: RunSpec, *, epochs: int | None = None, options: Mapping[str, Any] | None = None
) -> RunSpec:
    """The spec with its data set's settings; what the user says goes before them."""
    preset = find_preset(spec)
    wanted = epochs or preset.epochs
    scaled = scale_epochs(preset.options, wanted / preset.epochs)
    merged = merge(scaled, options or {})
    return spec.model_copy(update={"epochs": wanted, "options": merged})


def find_preset(spec: RunSpec) -> Preset:
    """The settings for the spec's source, algorithm and (nearest) noise rate."""
    presets = read_presets()
    if spec.data.source not in presets:
        raise InputError(f"unknown data source '{spec.data.source}'; known: {', '.join(presets)}")
    section = presets[spec.data.source]
    if "vectors" in section:  # a user's own data takes the settings of data of its kind
        section = presets[section["images" if spec.data.image else "vectors"]]
    options = dict(section.get(spec.algorithm, {}))
    epochs = options.pop("epochs", section["epochs"])
    rows = [row for row in section.get("noise", ()) if spec.noise.kind in row["kinds"]]
    # An algorithm of the user's own may call something else by the same name.
    if rows and spec.algorithm in ALGORITHMS:
        nearest = min(rows, key=lambda row: abs(row["rate"] - spec.noise.rate))
        known = find_algorithm(spec.algorithm).config_class.model_fields
        options |= {key: value for key, value in nearest["options"].items() if key in known}
    return Preset(epochs, options)


def scale_epochs(options: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Everything that counts epochs or steps, made longer or shorter with the run."""

    def scaled(name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return scale_epochs(value, factor)
        if name == "milestones":
            return [max(1, round(factor * each)) for each in value]
        return (
            max(1, round(factor * value))
            if name.endswith(("_epochs", "_steps")) and value
            else value
        )

    return {name: scaled(name, value) for name, value in options.items()}


@cache
def read_presets() -> dict[str, Any]:
    """The file's content."""
    return tomllib.loads(files("ulc.settings").joinpath("presets.toml").read_text())
