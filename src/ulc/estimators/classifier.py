"""Classifiers with the interface of scikit-learn."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ulc.blocks.averages import Record
from ulc.errors import InputError
from ulc.estimators.checks import LabelledRows, RandomState, check_inputs, check_rows, draw_seed
from ulc.estimators.fitting import EarlyStopping, FitSettings, fit_rows
from ulc.estimators.network import Network
from ulc.estimators.params import flatten_options, set_option
from ulc.estimators.saved import load_estimator, save_estimator
from ulc.labels.judgement import Judgement
from ulc.labels.prior import Prior, with_prior
from ulc.labels.table import label_frame
from ulc.networks import NewBackbone
from ulc.training.model import Model, Uncertainty
from ulc.typing import Floats

if TYPE_CHECKING:
    from pandas import DataFrame

EXPECTED_FAILED_CHECKS = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a row of weight 2 is drawn twice as often, which equals two rows only in expectation"
    ),
}  # for scikit-learn's check_estimator


class NoisyLabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learn from labels of which some are wrong, with any algorithm of this package.

    algorithm: a name that `ulc algorithms` lists, or your own module:Class
    options: options of the algorithm, e.g. {"batch_size": 32, "sgd": {"lr": 0.05}}; in a grid
        also `options__batch_size` and `options__sgd__lr`
    network: auto (an MLP for vectors, a small CNN for images), a name of this package, your own
        module:Class, or a class or function that makes a Module from batch to features (B, D)
    width: width of the first layer; None: the network's default
    epochs: number of epochs; None: enough for 600 steps, at least those of the preset (24
        for vectors, 36 for images), at most 100
    prior: class frequencies that `predict` assumes: training, balanced or a number per class
    warm_start: whether `fit` continues with the current weights and number of epochs
    early_stopping: whether to hold out `validation_fraction` of the rows, and to stop after
        `patience` epochs without a new best share of held-out labels that are predicted; the last
        epoch within a standard error of the best is kept, after warm-up and without a sign of
        collapse
    random_state: seed or generator; None: a new seed for each fit. NumPy's global generator is
        not used
    device: auto (the GPU where there is one), cpu, cuda, …

    If `options` does not set them: a batch holds a tenth of the rows, at least 16 and at most the
    batch size of the preset; for fewer than 5,000 vectors `doubtful_weight` is 1.

    Vectors are scaled by one number for all columns, which suits embeddings. Put a StandardScaler
    before the classifier if columns have different units.
    """

    model_: Model
    judgement_: Judgement
    classes_: NDArray[Any]
    n_iter_: int
    best_epoch_: int
    threshold_: float
    passes_: int
    seed_: int
    records_: list[Record]
    validation_scores_: list[float]
    index_: Any
    n_features_in_: int

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
        verified: (N,) mask of labels known to be right; they are never called an issue, and ULC,
            ULC+ and DivideMix trust them in training
        """
        if y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        warm = bool(self.warm_start) and hasattr(self, "model_")
        inputs = check_inputs(self, X, reset=not warm)
        rows = check_rows(self, inputs, y, sample_weight, verified)
        if warm:
            self._refuse_other_task(rows)
        wanted = self._fit_settings()
        if warm:
            fitted = fit_rows(rows, wanted, self.model_, self.n_iter_)
        else:
            fitted = fit_rows(rows, wanted)
        self.model_, self.judgement_ = fitted.model, fitted.judgement
        self.n_iter_, self.best_epoch_ = fitted.n_iter, fitted.best_epoch
        self.passes_, self.threshold_ = fitted.passes, fitted.threshold
        self.records_, self.validation_scores_ = fitted.records, fitted.validation_scores
        self.seed_, self.classes_ = wanted.seed, rows.classes
        self.index_ = X.index if hasattr(X, "iloc") else None
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """(N,) predicted labels, under the estimator's prior."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def predict_proba(self, X: Any, prior: Prior | None = None) -> Floats:
        """(N, K) probabilities of `classes_`, under a class prior; None: the estimator's prior."""
        check_is_fitted(self)
        inputs = check_inputs(self, X, reset=False)
        probability = self.model_.predict_proba(inputs).astype(np.float64)
        probability /= probability.sum(1, keepdims=True)
        learned = np.asarray(self.model_.spec.class_prior)
        return with_prior(probability, learned, self.prior if prior is None else prior)

    def predict_uncertainty(self, X: Any) -> Uncertainty:
        """How unsure the model is of each row.

        ULC: entropy of the mean over `passes` dropout passes, mean of both networks, as in
        training, and the learned logit noise. Algorithms without dropout: entropy of the
        prediction itself. Entropies are divided by log K.
        """
        check_is_fitted(self)
        inputs = check_inputs(self, X, reset=False)
        return self.model_.uncertainty(inputs, passes=self.passes_, seed=self.seed_)

    def find_label_issues(self) -> "DataFrame":
        """The model's judgement of each label: a frame with a row for each row of X.

        Its index is that of X, if X was a frame; `id` is the position. The label of a row that was
        not learned from (held out, or of weight 0) is compared with the learned labels of its
        class: its score is the mean score of the five with the nearest losses.
        """
        check_is_fitted(self)
        return label_frame(self.judgement_, self.classes_, self.threshold_, self.index_)

    def correct_labels(self) -> NDArray[Any]:
        """(N,) the likeliest class of each corrected label; for most rows the given label."""
        check_is_fitted(self)
        return self.classes_[self.judgement_.suggested]

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to one file: safetensors with a header in JSON, no pickle."""
        check_is_fitted(self)
        save_estimator(self, Path(path))

    @classmethod
    def load(
        cls, path: str | Path, *, network: NewBackbone | None = None, trust: bool = False
    ) -> Self:
        """Read what `save` wrote.

        network: your own network; None: it is imported by its name, if `trust` allows it
        trust: whether an algorithm or network that the file names as `module:Class` may be imported
        """
        return load_estimator(cls, Path(path), network, trust)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name; `deep`: also each option as `options__name`."""
        params: dict[str, Any] = super().get_params(deep=deep)
        if deep and isinstance(self.options, Mapping):
            params |= flatten_options("options", self.options)
        return params

    def set_params(self, **params: Any) -> Self:
        """Set arguments; `options__name` sets one option and leaves the others."""
        inner = {name: params.pop(name) for name in list(params) if name.startswith("options__")}
        super().set_params(**params)
        for name, value in inner.items():
            _, *path = name.split("__")
            self.options = set_option(self.options or {}, path, value)
        return self

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if "model_" in state and next(self.model_.networks.parameters()).device.type != "cpu":
            # The pickle can then be read on a machine without a GPU.
            state["model_"] = copy.deepcopy(self.model_)
            state["model_"].networks.cpu()
        return state

    def _fit_settings(self) -> FitSettings:
        seed = draw_seed(self.random_state)
        stopping = None
        if self.early_stopping:
            stopping = EarlyStopping(self.validation_fraction, self.patience)
        return FitSettings(
            algorithm=self.algorithm,
            options=self.options,
            network=self.network,
            width=self.width,
            epochs=self.epochs,
            early_stopping=stopping,
            seed=seed,
            device=self.device,
        )

    def _refuse_other_task(self, rows: LabelledRows) -> None:
        same = np.array_equal(rows.classes, self.classes_)
        if not same or rows.inputs.shape[1:] != self.model_.spec.preprocessing.shape:
            raise InputError(
                "warm_start needs the classes and the shape of X of the first fit; "
                "set warm_start=False to train anew"
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
