"""Estimators in the manner of scikit-learn."""

import copy
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import safetensors
import safetensors.torch
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)
from torch import nn

from ulc.algorithms import configure, find_algorithm
from ulc.algorithms.base import Algorithm
from ulc.config import NetworkSpec, checked
from ulc.data.arrays import as_images, refuse_not_finite, tensor_to_array
from ulc.data.augment import strong_augmentation, weak_augmentation
from ulc.data.held_out import HeldOutRows, draw_held_out
from ulc.data.preprocessing import Preprocessing
from ulc.data.sources.source import Source
from ulc.data.training import TensorData
from ulc.errors import InputError
from ulc.estimators.saved import (
    SAVED,
    Network,
    Saved,
    as_index,
    importable,
    network_name,
    part_of,
    plain,
    read_saved,
)
from ulc.labels.judgement import Judgement
from ulc.labels.prior import Prior, with_prior
from ulc.labels.table import label_frame
from ulc.networks import NewBackbone, network_maker
from ulc.networks.classifier import Classifier
from ulc.settings.automatic import settings
from ulc.storage.files import write_whole
from ulc.training.best_epoch import BestEpoch
from ulc.training.collapse import CollapseMonitor
from ulc.training.device import choose_device
from ulc.training.held_out import judge_held_out
from ulc.training.inference import judge_labels
from ulc.training.loop import train
from ulc.training.model import Model, Uncertainty
from ulc.typing import Floats, Integers

if TYPE_CHECKING:
    from pandas import DataFrame

RandomState = int | np.random.RandomState | np.random.Generator | None

EXPECTED_FAILED_CHECKS = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a row of weight 2 is drawn twice as often, which equals two rows only in expectation"
    ),
}  # for scikit-learn's check_estimator


@dataclass(frozen=True)
class Rows:
    """A training set as `fit` got it, checked, with its labels as numbers of `classes`."""

    classes: NDArray[Any]
    inputs: NDArray[Any]
    given: Integers
    weights: Floats
    verified: NDArray[np.bool_]

    def at(self, positions: Integers) -> "Rows":
        """Some of them."""
        return Rows(
            self.classes,
            self.inputs[positions],
            self.given[positions],
            self.weights[positions],
            self.verified[positions],
        )


class NoisyLabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learn from labels of which some are wrong, with any algorithm of this package.

    algorithm: a name that `ulc algorithms` lists, or your own module:Class
    options: of the algorithm, e.g. {"batch_size": 32, "sgd": {"lr": 0.05}}; in a grid also
        `options__batch_size` and `options__sgd__lr`
    network: auto (an MLP for vectors, a small CNN for images), a name of ours, your own
        module:Class, or a class or function that makes a Module from batch to features (B, D)
    width: of the first layer; None: the network's default
    epochs: None: as many as give 600 steps, but no fewer than the preset's (24 for vectors, 36 for
        images) and no more than 100. Batches, where `options` does not name their size, hold a
        tenth of a small set, at least 16 rows and at most what the algorithm's preset says; below
        5,000 vectors `doubtful_weight` is 1 where `options` does not name it.
    prior: class frequencies that `predict` assumes: training, balanced or a number per class
    warm_start: `fit` goes on from the current weights and the number of epochs already trained
    early_stopping: hold out `validation_fraction` of the rows and keep the epoch, after warm-up,
        that agrees best with their given labels; stop after `patience` epochs without a better one
    random_state: None draws a new seed each time and leaves NumPy's global generator alone
    device: auto (the GPU where there is one), cpu, cuda, …

    Vectors are scaled by one number for all columns, as embeddings need it; put a StandardScaler
    before the classifier where columns have units of their own.
    """

    model_: Model
    judgement_: Judgement
    classes_: NDArray[Any]
    n_iter_: int

    def __init__(  # noqa: PLR0913 (an estimator's settings are its arguments)
        self,
        algorithm: str = "ulc",
        *,
        options: Mapping[str, Any] | None = None,
        network: Network = "auto",
        width: int | None = None,
        epochs: int | None = None,
        prior: Prior = "training",
        warm_start: bool = False,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 10,
        random_state: RandomState = None,
        device: str = "auto",
    ) -> None:
        self.algorithm = algorithm
        self.options = options
        self.network = network
        self.width = width
        self.epochs = epochs
        self.prior = prior
        self.warm_start = warm_start
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any, sample_weight: Any = None, verified: Any = None) -> Self:
        """Learn from vectors (N, D) or uint8 images, and (N,) labels of any kind.

        sample_weight: (N,) how often a row is drawn, relative to the others; rows of weight 0 are
            not learned from
        verified: (N,) mask of labels known to be right; they are never called an issue, and ULC
            and DivideMix trust them in training
        """
        going_on = bool(self.warm_start) and hasattr(self, "model_")
        rows = self._rows(X, y, sample_weight, verified, going_on=going_on)
        seed = new_seed(self.random_state)
        learned, held_out = self._divided(rows, seed)
        self._train(rows, learned, held_out, seed, going_on=going_on)
        self.index_ = X.index if hasattr(X, "iloc") else None
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """(N,) labels, under the estimator's prior."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def predict_proba(self, X: Any, prior: Prior | None = None) -> Floats:
        """(N, K) probabilities of `classes_`, under a prior; None: the estimator's."""
        check_is_fitted(self)
        return self._probability(self._inputs(X, reset=False), prior)

    def predict_uncertainty(self, X: Any) -> Uncertainty:
        """How unsure the model is of each row.

        ULC: entropy of the mean over `passes` dropout passes, mean of both networks, as in
        training, and the learned logit noise. Algorithms without dropout: the entropy of the
        prediction itself. Both over log K.
        """
        check_is_fitted(self)
        return self._uncertainty(self._inputs(X, reset=False))

    def find_label_issues(self) -> "DataFrame":
        """What the model thinks of each label it was given: a frame with a row for each row of X.

        Its index is that of X, if it was a frame; `id` is the position. Rows that were not learned
        from (held out, or of weight 0) are believed as far as the model predicts their label.
        """
        check_is_fitted(self)
        return label_frame(self.judgement_, self.classes_, self.threshold_, self.index_)

    def correct_labels(self) -> NDArray[Any]:
        """(N,) the given labels, with another where the corrected label favours another class."""
        check_is_fitted(self)
        return self.classes_[self.judgement_.suggested]

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to one file: safetensors with a header in JSON, no pickle."""
        check_is_fitted(self)
        weights = self.model_.networks.state_dict()
        judgement = {name: torch.from_numpy(v) for name, v in self.judgement_.arrays().items()}
        tensors = {f"networks.{name}": value for name, value in weights.items()}
        tensors |= {f"judgement.{name}": value for name, value in judgement.items()}
        content = {name: value.detach().cpu().clone() for name, value in tensors.items()}
        header = {"ulc": json.dumps(self._saved().model_dump(mode="json"))}
        write_whole(Path(path), safetensors.torch.save(content, header))

    @classmethod
    def load(cls, path: str | Path, *, network: NewBackbone | None = None) -> Self:
        """Read what `save` wrote.

        A network of your own is imported by its name, or given here where it has none.
        """
        saved, tensors = read_saved(Path(path))
        if network is None and saved.nameless:
            raise InputError(
                f"{path}: its network '{saved.model.network.name}' cannot be imported; "
                "give it as network="
            )
        model = Model.untrained(saved.model, network)
        try:
            model.networks.load_state_dict(part_of(tensors, "networks."))
            columns = part_of(tensors, "judgement.")
            judgement = Judgement(**{name: value.numpy() for name, value in columns.items()})
            return cls._restored(saved, model, judgement, network)
        except (KeyError, RuntimeError, TypeError) as error:
            raise SAVED.unreadable(Path(path), error) from None

    @classmethod
    def _restored(
        cls, saved: "Saved", model: Model, judgement: Judgement, network: NewBackbone | None
    ) -> Self:
        params = dict(saved.params)
        if network is not None:
            params["network"] = network
        known = cls._get_param_names()
        if "algorithm" not in known and params.pop("algorithm") != "ulc":
            raise InputError(
                f"the file holds the algorithm '{saved.params['algorithm']}'; "
                "load it with NoisyLabelClassifier.load"
            )
        estimator = cls(**params)
        estimator.model_, estimator.judgement_ = model, judgement
        estimator.classes_ = np.array(saved.classes, np.dtype(saved.classes_dtype))
        estimator.index_ = None if saved.index is None else as_index(saved.index)
        estimator.n_features_in_ = saved.n_features_in
        if saved.feature_names is not None:
            estimator.feature_names_in_ = np.array(saved.feature_names, object)
        estimator.n_iter_, estimator.best_epoch_ = saved.n_iter, saved.best_epoch
        estimator.seed_, estimator.passes_ = saved.seed, saved.passes
        estimator.threshold_, estimator.records_ = saved.threshold, saved.records
        estimator.validation_scores_ = saved.validation_scores
        return estimator

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments; `deep`: also each option as `options__name`."""
        params: dict[str, Any] = super().get_params(deep=deep)
        if deep and isinstance(self.options, Mapping):
            params |= flattened("options", self.options)
        return params

    def set_params(self, **params: Any) -> Self:
        """Set arguments; `options__name` sets one option and leaves the others."""
        inner = {name: params.pop(name) for name in list(params) if name.startswith("options__")}
        super().set_params(**params)
        for name, value in inner.items():
            _, *path = name.split("__")
            self.options = with_option(self.options or {}, path, value)
        return self

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if "model_" in state and next(self.model_.networks.parameters()).device.type != "cpu":
            # A pickle is to be read on a machine without a GPU, too.
            state["model_"] = copy.deepcopy(self.model_)
            state["model_"].networks.cpu()
        return state

    def _inputs(self, X: Any, *, reset: bool) -> NDArray[Any]:
        """X as vectors or as images (N, C, H, W)."""
        X = tensor_to_array(X)
        if getattr(X, "ndim", 2) > 2:
            images = as_images(np.asarray(X))
            if reset:
                self.n_features_in_ = math.prod(images.shape[1:])
                self.__dict__.pop("feature_names_in_", None)
            return images
        vectors: NDArray[Any] = validate_data(self, X, reset=reset, ensure_all_finite=False)
        refuse_not_finite(vectors)
        return vectors

    def _rows(self, X: Any, y: Any, sample_weight: Any, verified: Any, *, going_on: bool) -> Rows:
        """The training set, checked."""
        if y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        inputs = self._inputs(X, reset=not going_on)
        y = tensor_to_array(y)
        check_array(y, ensure_2d=False, dtype=None, input_name="y", estimator=self)
        y = column_or_1d(y, warn=True)
        check_consistent_length(inputs, y)
        classes, given = numbered(y)
        check_classification_targets(y)
        weights = checked_weights(tensor_to_array(sample_weight), len(given))
        if len(np.unique(given[weights > 0])) < 2:
            raise InputError("y holds 1 class; give rows of at least two classes")
        if going_on:
            self._refuse_other_task(classes, inputs.shape[1:])
        mask = checked_mask(tensor_to_array(verified), len(given))
        return Rows(classes, inputs, given, weights, mask)

    def _refuse_other_task(self, classes: NDArray[Any], shape: tuple[int, ...]) -> None:
        same = np.array_equal(classes, self.classes_)
        if not same or shape != self.model_.spec.preprocessing.shape:
            raise InputError(
                "warm_start goes on with the classes and the shape of X it began with; "
                "set warm_start=False to begin anew"
            )

    def _divided(self, rows: Rows, seed: int) -> tuple[Integers, Integers]:
        """Positions to learn from and, with early stopping, positions to hold out."""
        kept = np.flatnonzero(rows.weights > 0)
        if not self.early_stopping:
            return kept, kept[:0]
        if not 0 < self.validation_fraction < 1:
            raise InputError(
                f"validation_fraction is {self.validation_fraction}; give a share between 0 and 1"
            )
        if self.patience < 1:
            raise InputError(f"patience is {self.patience}; give a number of epochs above 0")
        rng = np.random.default_rng(seed)
        held_out = kept[draw_held_out(rows.given[kept], self.validation_fraction, rng)]
        if len(held_out) == 0:
            raise InputError("every class has one row; set early_stopping=False to hold out none")
        return np.setdiff1d(kept, held_out), held_out

    def _train(
        self, rows: Rows, learned: Integers, held_out: Integers, seed: int, *, going_on: bool
    ) -> None:
        """Train in memory; what is learned is kept only if all goes well."""
        shape, classes = rows.inputs.shape[1:], rows.classes
        spec = settings(self.algorithm, shape, len(learned), self.epochs, self.options)
        config = configure(self.algorithm, spec.options)
        device = choose_device(self.device)
        part = rows.at(learned)
        preprocessing = self.model_.spec.preprocessing if going_on else measured(part)
        data = training_data(part, preprocessing, seed, device)
        new_network = network_maker(self._backbone(), shape, len(classes), device)
        algorithm = find_algorithm(self.algorithm).build(config, data, new_network)
        start = 0
        if going_on:
            load_weights(algorithm, self.model_.members)
            start = self.n_iter_
        best = None
        if len(held_out):
            monitor = CollapseMonitor(
                rows_apart(rows, held_out, preprocessing, device),
                tuple(map(str, classes)),
                first=min(getattr(config, "warmup_epochs", 0), start + spec.epochs - 1),
            )
            best = BestEpoch(monitor, patience=self.patience)
        observers = [] if best is None else [best]
        records = train(algorithm, range(start, start + spec.epochs), observers)
        self.records_ = [record["train"] for record in records]
        self.n_iter_ = start + len(records)
        kept = None if best is None else best.best
        self.best_epoch_ = self.n_iter_ - 1 if kept is None else kept.epoch
        self.validation_scores_ = [
            record["held_out"]["agreement"] for record in records if best is not None
        ]
        self.passes_ = getattr(config, "passes", 1)
        self.threshold_ = algorithm.threshold
        self.seed_, self.classes_ = seed, classes
        judgement = judge_labels(algorithm)
        self.model_ = self._model(algorithm, judgement.with_verified(part.verified), preprocessing)
        self.judgement_ = self._judgement(rows, learned, judgement).with_verified(rows.verified)

    def _backbone(self) -> NetworkSpec | NewBackbone:
        if isinstance(self.network, str):
            return checked(
                NetworkSpec, {"name": self.network, "width": self.width}, where="network"
            )
        if isinstance(self.network, nn.Module) or not callable(self.network):
            raise InputError(
                f"network is a {type(self.network).__name__}; give a name, a Module class, or a "
                "function that makes a new Module"
            )
        return self.network

    def _model(
        self, algorithm: Algorithm, judgement: Judgement, preprocessing: Preprocessing
    ) -> Model:
        for parameter in nn.ModuleList(algorithm.networks()).parameters():
            parameter.grad = None
        return Model.of_algorithm(
            algorithm,
            NetworkSpec(name=network_name(self.network), width=self.width),
            preprocessing,
            tuple(map(str, self.classes_)),
            judgement.class_prior,
        )

    def _judgement(self, rows: Rows, learned: Integers, judgement: Judgement) -> Judgement:
        """The judgement of all rows: those that were learned from, and the others."""
        rest = np.setdiff1d(np.arange(len(rows.given)), learned)
        if len(rest) == 0:
            return judgement
        apart = rows_apart(rows, rest, self.model_.spec.preprocessing, torch.device("cpu"))
        others = judge_held_out(judgement, self.model_, apart, passes=self.passes_, seed=self.seed_)
        return judgement.beside(others, learned, rest)

    def _probability(self, inputs: NDArray[Any], prior: Prior | None) -> Floats:
        probability = self.model_.predict_proba(inputs).astype(np.float64)
        probability /= probability.sum(1, keepdims=True)
        learned = np.asarray(self.model_.spec.class_prior)
        return with_prior(probability, learned, self.prior if prior is None else prior)

    def _uncertainty(self, inputs: NDArray[Any]) -> Uncertainty:
        return self.model_.uncertainty(inputs, passes=self.passes_, seed=self.seed_)

    def _saved(self) -> Saved:
        params = {**self.get_params(deep=False), "algorithm": self.algorithm}
        seed = params["random_state"]
        params["random_state"] = int(seed) if isinstance(seed, int | np.integer) else None
        params["network"] = network_name(self.network)
        names = getattr(self, "feature_names_in_", None)
        return checked(
            Saved,
            {
                "params": plain(params, "the arguments"),
                "model": self.model_.spec,
                "nameless": not importable(self.network),
                "classes": plain(self.classes_.tolist(), "the labels"),
                "classes_dtype": self.classes_.dtype.str,
                "index": None if self.index_ is None else plain(list(self.index_), "the index"),
                "n_features_in": self.n_features_in_,
                "feature_names": None if names is None else names.tolist(),
                "n_iter": self.n_iter_,
                "best_epoch": self.best_epoch_,
                "seed": self.seed_,
                "passes": self.passes_,
                "threshold": self.threshold_,
                "records": self.records_,
                "validation_scores": self.validation_scores_,
            },
            where="the estimator",
        )


class ULCClassifier(NoisyLabelClassifier):
    """Uncertainty-aware Label Correction; the arguments are those of NoisyLabelClassifier."""

    def __init__(  # noqa: PLR0913 (scikit-learn reads the arguments from the signature)
        self,
        *,
        options: Mapping[str, Any] | None = None,
        network: Network = "auto",
        width: int | None = None,
        epochs: int | None = None,
        prior: Prior = "training",
        warm_start: bool = False,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 10,
        random_state: RandomState = None,
        device: str = "auto",
    ) -> None:
        super().__init__(
            "ulc",
            options=options,
            network=network,
            width=width,
            epochs=epochs,
            prior=prior,
            warm_start=warm_start,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            patience=patience,
            random_state=random_state,
            device=device,
        )


def measured(rows: Rows) -> Preprocessing:
    """Shift and scale as these rows have them."""
    names = tuple(map(str, rows.classes))
    source = Source(name="X", inputs=rows.inputs, labels=rows.given, class_names=names)
    return Preprocessing.fit(source)


def training_data(
    rows: Rows, preprocessing: Preprocessing, seed: int, device: torch.device
) -> TensorData:
    """The rows as an algorithm sees them."""
    uneven = bool((rows.weights != rows.weights[0]).any())
    return TensorData(
        stored=preprocessing.stored(rows.inputs).to(device),
        given=torch.from_numpy(rows.given.astype(np.int64)).to(device),
        num_classes=len(rows.classes),
        seed=seed,
        preprocessing=preprocessing,
        augment=weak_augmentation(preprocessing.shape),
        strong=strong_augmentation(preprocessing.shape),
        weights=torch.from_numpy(rows.weights).to(device) if uneven else None,
        verified=torch.from_numpy(rows.verified).to(device) if rows.verified.any() else None,
    )


def rows_apart(
    rows: Rows, positions: Integers, preprocessing: Preprocessing, device: torch.device
) -> HeldOutRows:
    """Rows that are not learned from."""
    part = rows.at(positions)
    return HeldOutRows(
        positions=positions,
        stored=preprocessing.stored(part.inputs).to(device),
        given=torch.from_numpy(part.given).to(device),
        preprocessing=preprocessing,
        weights=torch.from_numpy(part.weights).to(device),
    )


def load_weights(algorithm: Algorithm, networks: Sequence[Classifier]) -> None:
    """Give every network of the algorithm the weights of the networks that predicted before."""
    for group in (algorithm.networks(), [each.network for each in algorithm.learners()]):
        for place, network in enumerate(group):
            try:
                network.load_state_dict(networks[place % len(networks)].state_dict())
            except RuntimeError:
                raise InputError(
                    "warm_start goes on with the network it began with; set warm_start=False to "
                    "begin anew with another"
                ) from None


def new_seed(random_state: RandomState) -> int:
    """A seed for this fit; only a generator that the user handed over moves on."""
    if isinstance(random_state, int | np.integer):
        if random_state < 0:
            raise InputError(f"random_state is {random_state}; give a number from 0 on")
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return int(np.random.default_rng(random_state).integers(2**31 - 1))


def numbered(labels: NDArray[Any]) -> tuple[NDArray[Any], Integers]:
    """The classes in order, and the number of each label among them."""
    try:
        classes, given = np.unique(labels, return_inverse=True)
    except TypeError:
        raise InputError(
            "y mixes labels of different kinds, or lacks some; give every row a number, or every "
            "row a string"
        ) from None
    return classes, given


def checked_weights(sample_weight: Any, count: int) -> Floats:
    """(N,) weights; None: all alike."""
    if sample_weight is None:
        return np.ones(count)
    weights = np.asarray(sample_weight, np.float64)
    if weights.shape != (count,) or not (np.isfinite(weights) & (weights >= 0)).all():
        raise InputError(
            f"sample_weight has shape {weights.shape}; give a number from 0 on for each of the "
            f"{count} rows"
        )
    if not weights.any():
        raise InputError("sample_weight is zero for all rows; give some rows a weight above 0")
    return weights


def checked_mask(verified: Any, count: int) -> NDArray[np.bool_]:
    """(N,) mask; None: nothing is verified."""
    if verified is None:
        return np.zeros(count, bool)
    mask = np.asarray(verified)
    if mask.shape != (count,) or mask.dtype != bool:
        raise InputError(
            f"verified has shape {mask.shape}, type {mask.dtype}; give a boolean for each of the "
            f"{count} rows"
        )
    return mask


def flattened(prefix: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by their full names, those of sections too."""
    flat: dict[str, Any] = {}
    for name, value in options.items():
        full = f"{prefix}__{name}"
        flat |= flattened(full, value) if isinstance(value, Mapping) else {full: value}
    return flat


def with_option(options: Mapping[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    """A copy of the options in which one, maybe inside a section, is set."""
    name, *rest = path
    return {**options, name: with_option(options.get(name, {}), rest, value) if rest else value}
