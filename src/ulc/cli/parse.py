"""Specs from the text of command-line options."""

import tomllib
from pathlib import Path
from typing import Any

from ulc.config import (
    ComputeSpec,
    DataSpec,
    ImbalanceSpec,
    NetworkSpec,
    NoiseSpec,
    checked,
)
from ulc.data.sources.naming import data_spec
from ulc.errors import InputError


def data(
    name: str,
    *,
    label: str | None = None,
    image: str | None = None,
    text: str | None = None,
    text_model: str | None = None,
    id_column: str | None = None,
    sep: str | None = None,
    encoding: str | None = None,
    true_label: str | None = None,
    verified: str | None = None,
    features: str | None = None,
    size: int | None = None,
    skip_broken: bool = False,
    lazy: bool | None = None,
    test: str | None = None,
) -> DataSpec:
    """The spec of the data that a path or `SOURCE[:PATH]` names, with options for reading them."""
    options = {
        "label": label,
        "image": image,
        "text": text,
        "text_model": text_model,
        "id": id_column,
        "sep": sep,
        "encoding": encoding,
        "true": true_label,
        "verified": verified,
        "features": names(features, "--features"),
        "size": size,
        "skip_broken": skip_broken or None,
        "lazy": lazy,
        "test": test,
    }
    return data_spec(name, options)


def imbalance(text: str) -> ImbalanceSpec:
    """The spec of imbalance from `none`, `half:10` or `long_tail:100`."""
    kind, _, ratio = text.partition(":")
    content = {"kind": kind} | ({"ratio": ratio} if ratio else {})
    return checked(ImbalanceSpec, content, where="--imbalance")


def noise(text: str) -> NoiseSpec:
    """The spec of noise from `none`, `KIND:RATE` or `file:PATH[#KEY]`."""
    kind, _, rest = text.partition(":")
    content: dict[str, Any] = {"kind": kind}
    if kind == "file":
        path, _, key = rest.partition("#")
        content |= {"file": str(Path(path).absolute()) if path else None, "key": key or None}
    elif rest:
        content["rate"] = rest
    return checked(NoiseSpec, content, where="--noise")


def network(name: str, settings: Any, weights: str | None = None) -> NetworkSpec:
    """The spec of a network from `--network NAME` and the settings of `--set network.KEY=VALUE`.

    A network of the user's own gets the settings as constructor arguments.

    weights: `--weights`, "imagenet" or a file
    """
    if not isinstance(settings, dict) or ("name" in settings and ":" not in name):
        raise InputError("--set network: name the network with --network, and set network.KEY")
    content = {"options": settings} if ":" in name else settings
    if weights is not None:
        content = content | {"weights": weights if weights == "imagenet" else absolute(weights)}
    return checked(NetworkSpec, {**content, "name": name}, where="--set network")


def absolute(path: str) -> str:
    """The absolute path, so that a run can be resumed from another folder."""
    return str(Path(path).absolute())


def compute(settings: Any) -> ComputeSpec | None:
    """How a training computes, from the settings compute.KEY; None: none is given."""
    if settings is None:
        return None
    return checked(ComputeSpec, settings, where="--set compute")


def settings(texts: list[str]) -> dict[str, Any]:
    """Options from `key=value` or `section.key=value`, with values as in TOML."""
    content: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"--set {text}: give it as key=value, such as sgd.lr=0.05")
        section = content
        *outer, name = key.split(".")
        for part in outer:
            section = section.setdefault(part, {})
            if not isinstance(section, dict):
                raise InputError(f"--set {text}: '{part}' is set already; drop one of the two")
        section[name] = toml_value(value)
    return content


def toml_value(text: str) -> Any:
    """The value of TOML text; text that is not TOML stays a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def whole_numbers(text: str, option: str) -> list[int]:
    """Whole numbers from text such as `0,1,2`; option: its name, for the message."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"{option} {text}: give whole numbers separated by commas, such as 0,1,2"
        ) from None


def real_numbers(text: str, option: str) -> list[float]:
    """Numbers from text such as `0,0.5,25`; option: its name, for the message."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"{option} {text}: give numbers separated by commas, such as 0,25,50"
        ) from None


def names(text: str | None, option: str) -> list[str] | None:
    """Names from text such as `A,B,C`; None for None. option: its name, for the message."""
    if text is None:
        return None
    listed = [name.strip() for name in text.split(",")]
    if not all(listed):
        raise InputError(f"{option} {text}: give names separated by commas, such as A,B,C")
    return listed
