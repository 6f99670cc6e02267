"""A fitted estimator as one file: tensors, and a header in JSON; no pickle."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from ulc.config import Spec, checked
from ulc.errors import InputError
from ulc.estimators.network import is_importable, network_name
from ulc.importing import Trust, check_trust
from ulc.labels.judgement import Judgement, ScoreKind
from ulc.networks import NewBackbone
from ulc.storage.tensor_file import TensorFileKind, read_tensors, write_tensors
from ulc.training.model import Model, ModelSpec

if TYPE_CHECKING:
    from ulc.estimators.classifier import NoisyLabelClassifier

    E = TypeVar("E", bound=NoisyLabelClassifier)

SAVED = TensorFileKind("estimator", "give the path of a saved estimator", "save it again")


class SavedEstimator(Spec):
    """The header of the file: everything but tensors.

    nameless: whether the network cannot be imported by its name
    """

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
    score_kind: ScoreKind
    records: list[dict[str, float]]
    validation_scores: list[float]


def save_estimator(estimator: "NoisyLabelClassifier", path: Path) -> None:
    """Write a fitted estimator."""
    tensors = {
        f"networks.{name}": value for name, value in estimator.model_.networks.state_dict().items()
    } | {
        f"judgement.{name}": torch.from_numpy(values)
        for name, values in estimator.judgement_.arrays().items()
    }
    content = {name: value.detach().cpu().clone() for name, value in tensors.items()}
    write_tensors(path, json.dumps(describe_estimator(estimator).model_dump(mode="json")), content)


def describe_estimator(estimator: "NoisyLabelClassifier") -> SavedEstimator:
    """The header of the file."""
    params = {**estimator.get_params(deep=False), "algorithm": estimator.algorithm}
    seed = params["random_state"]
    params["random_state"] = int(seed) if isinstance(seed, int | np.integer) else None
    params["network"] = network_name(estimator.network)
    index, names = estimator.index_, getattr(estimator, "feature_names_in_", None)
    content = {
        "params": to_json_values(params, "the arguments"),
        "model": estimator.model_.spec,
        "nameless": not is_importable(estimator.network),
        "classes": to_json_values(estimator.classes_.tolist(), "the labels"),
        "classes_dtype": estimator.classes_.dtype.str,
        "index": None if index is None else to_json_values(list(index), "the index"),
        "n_features_in": estimator.n_features_in_,
        "feature_names": None if names is None else names.tolist(),
        "n_iter": estimator.n_iter_,
        "best_epoch": estimator.best_epoch_,
        "seed": estimator.seed_,
        "passes": estimator.passes_,
        "threshold": estimator.threshold_,
        "score_kind": estimator.judgement_.score_kind,
        "records": estimator.records_,
        "validation_scores": estimator.validation_scores_,
    }
    return checked(SavedEstimator, content, where="the estimator")


def to_json_values(content: Any, what: str) -> Any:
    """The content converted to JSON and back; raise an InputError if that fails.

    what: name of the content, for the message
    """
    try:
        return json.loads(json.dumps(content, default=to_python))
    except TypeError as error:
        raise InputError(
            f"{what} cannot be saved ({error}); use numbers and strings, or pickle"
        ) from None


def to_python(value: Any) -> Any:
    """NumPy numbers and arrays as Python numbers and lists; raise a TypeError for other types."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no JSON")


def load_estimator(cls: "type[E]", path: Path, network: NewBackbone | None, trust: Trust) -> "E":
    """Read what `save_estimator` wrote.

    network: the user's own network, if it cannot be imported by its name
    trust: whether an algorithm or a network outside the package may be imported
    """
    header, tensors = read_tensors(path, SAVED)
    saved = checked(SavedEstimator, header, where=str(path))
    check_trust(str(saved.params.get("algorithm")), "algorithm", str(path), trust)
    if network is None and saved.nameless:
        raise InputError(
            f"{path}: its network '{saved.model.network.name}' cannot be imported; "
            "give it as network="
        )
    if network is None:
        check_trust(saved.model.network.name, "network", str(path), trust)
    model = Model.untrained(saved.model, network)
    try:
        model.load_weights(tensors_under(tensors, "networks."))
        columns = tensors_under(tensors, "judgement.")
        estimator = new_estimator(cls, saved, network)
        arrays = {name: each.numpy() for name, each in columns.items()}
        estimator.judgement_ = Judgement(**arrays, score_kind=saved.score_kind)
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise SAVED.unreadable(path, error) from None
    estimator.model_ = model
    estimator.classes_ = np.array(saved.classes, np.dtype(saved.classes_dtype))
    estimator.index_ = None if saved.index is None else to_index(saved.index)
    estimator.n_features_in_ = saved.n_features_in
    if saved.feature_names is not None:
        estimator.feature_names_in_ = np.array(saved.feature_names, object)
    estimator.n_iter_, estimator.best_epoch_ = saved.n_iter, saved.best_epoch
    estimator.seed_, estimator.passes_ = saved.seed, saved.passes
    estimator.threshold_, estimator.records_ = saved.threshold, saved.records
    estimator.validation_scores_ = saved.validation_scores
    return estimator


def new_estimator(cls: "type[E]", saved: SavedEstimator, network: NewBackbone | None) -> "E":
    """An unfitted estimator with the saved parameters."""
    params = dict(saved.params)
    if network is not None:
        params["network"] = network
    if "algorithm" not in cls._get_param_names() and params.pop("algorithm") != "ulc":
        raise InputError(
            f"the file holds the algorithm '{saved.params['algorithm']}'; "
            "load it with NoisyLabelClassifier.load"
        )
    return cls(**params)


def to_index(values: list[Any]) -> Any:
    """The values as a pandas index."""
    from pandas import Index

    return Index(values)


def tensors_under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix`, by the rest of their names."""
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
