"""A fitted estimator as one file: tensors, and a header in JSON; no pickle."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor

from ulc.config import Spec, checked
from ulc.errors import InputError
from ulc.networks import NewBackbone
from ulc.storage.tensor_file import TensorFileKind, read_tensors
from ulc.training.model import ModelSpec

Network = str | NewBackbone
SAVED = TensorFileKind("estimator", "give the path of a saved estimator", "save it again")


class Saved(Spec):
    """What a saved estimator holds beside its tensors."""

    format: Literal[1] = 1
    params: dict[str, Any]
    model: ModelSpec
    nameless: bool
    classes: list[Any]
    classes_dtype: str
    index: list[Any] | None
    n_features_in: int
    feature_names: list[str] | None
    n_iter: int
    best_epoch: int
    seed: int
    passes: int
    threshold: float
    records: list[dict[str, float]]
    validation_scores: list[float]


def network_name(network: Network) -> str:
    """The name it was given by, or where it could be imported from."""
    if isinstance(network, str):
        return network
    module = getattr(network, "__module__", "?")
    return f"{module}:{getattr(network, '__qualname__', type(network).__name__)}"


def importable(network: Network) -> bool:
    """Whether the name is enough to find it again."""
    if isinstance(network, str):
        return True
    name = network_name(network)
    return not (name.startswith("__main__:") or "." in name.partition(":")[2] or "<" in name)


def plain(content: Any, what: str) -> Any:
    """The content as JSON gives it back."""
    try:
        return json.loads(json.dumps(content, default=as_plain))
    except TypeError as error:
        raise InputError(
            f"{what} cannot be saved ({error}); use numbers and strings, or pickle"
        ) from None


def as_plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no JSON")


def as_index(values: list[Any]) -> Any:
    """A pandas index."""
    from pandas import Index

    return Index(values)


def read_saved(path: Path) -> tuple[Saved, dict[str, Tensor]]:
    """The header and the tensors of a file that `save` wrote."""
    header, tensors = read_tensors(path, SAVED)
    return checked(Saved, header, where=str(path)), tensors


def part_of(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin so, without that beginning."""
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
