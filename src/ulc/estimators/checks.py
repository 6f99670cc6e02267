"""Checks of the input of `fit` and `predict`."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from ulc.data.arrays import as_images, refuse_not_finite, tensor_to_array
from ulc.errors import InputError
from ulc.typing import Floats, Integers

RandomState = int | np.random.RandomState | np.random.Generator | None


@dataclass(frozen=True)
class LabelledRows:
    """The checked input of `fit`.

    classes: (K,) labels in order; inputs: (N, …); given: (N,) positions of the labels in `classes`
    weights: (N,) weights of the rows; verified: (N,) mask of labels known to be right
    """

    classes: NDArray[Any]
    inputs: NDArray[Any]
    given: Integers
    weights: Floats
    verified: NDArray[np.bool_]

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes as strings."""
        return tuple(map(str, self.classes))

    def select(self, positions: Integers) -> "LabelledRows":
        """The rows at `positions`."""
        return LabelledRows(
            self.classes,
            self.inputs[positions],
            self.given[positions],
            self.weights[positions],
            self.verified[positions],
        )


def check_rows(
    estimator: BaseEstimator, inputs: NDArray[Any], y: Any, sample_weight: Any, verified: Any
) -> LabelledRows:
    """Check labels, weights and mask of checked inputs, and return them all as one value."""
    y = tensor_to_array(y)
    check_array(y, ensure_2d=False, dtype=None, input_name="y", estimator=estimator)
    y = column_or_1d(y, warn=True)
    check_consistent_length(inputs, y)
    classes, given = number_classes(y)
    check_classification_targets(y)
    weights = check_weights(tensor_to_array(sample_weight), len(given))
    if len(np.unique(given[weights > 0])) < 2:
        raise InputError("y holds 1 class; give rows of at least two classes")
    mask = check_mask(tensor_to_array(verified), len(given))
    return LabelledRows(classes, inputs, given, weights, mask)


def check_inputs(estimator: BaseEstimator, inputs: Any, *, reset: bool) -> NDArray[Any]:
    """Check X, and return it as vectors (N, D) or images (N, C, H, W).

    reset: whether to set the estimator's number and names of features; False: compare with them
    """
    inputs = tensor_to_array(inputs)
    if getattr(inputs, "ndim", 2) > 2:
        images = as_images(np.asarray(inputs))
        if reset:
            estimator.n_features_in_ = math.prod(images.shape[1:])
            vars(estimator).pop("feature_names_in_", None)
        return images
    vectors: NDArray[Any] = validate_data(estimator, inputs, reset=reset, ensure_all_finite=False)
    refuse_not_finite(vectors)
    return vectors


def number_classes(labels: NDArray[Any]) -> tuple[NDArray[Any], Integers]:
    """The sorted classes, and the (N,) positions of the labels among them."""
    try:
        classes, given = np.unique(labels, return_inverse=True)
    except TypeError:
        raise InputError(
            "y mixes labels of different kinds, or lacks some; give every row a number, or every "
            "row a string"
        ) from None
    return classes, given


def check_weights(sample_weight: Any, count: int) -> Floats:
    """(N,) weights of the rows; None: all weights are 1."""
    if sample_weight is None:
        return np.ones(count)
    weights = np.asarray(sample_weight, np.float64)
    if weights.shape != (count,) or not (np.isfinite(weights) & (weights >= 0)).all():
        raise InputError(
            f"sample_weight has shape {weights.shape}; give a finite number of at least 0 for each "
            f"of the {count} rows"
        )
    if not weights.any():
        raise InputError("sample_weight is zero for all rows; give some rows a weight above 0")
    return weights


def check_mask(verified: Any, count: int) -> NDArray[np.bool_]:
    """(N,) mask of verified labels; None: no label is verified."""
    if verified is None:
        return np.zeros(count, bool)
    mask = np.asarray(verified)
    if mask.shape != (count,) or mask.dtype != bool:
        raise InputError(
            f"verified has shape {mask.shape}, type {mask.dtype}; give a boolean for each of the "
            f"{count} rows"
        )
    return mask


def draw_seed(random_state: RandomState) -> int:
    """The seed of a fit, from a number or drawn from the user's generator; None: a new seed.

    Global random states are not used.
    """
    if isinstance(random_state, int | np.integer):
        if random_state < 0:
            raise InputError(f"random_state is {random_state}; give a number of at least 0")
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return int(np.random.default_rng(random_state).integers(2**31 - 1))
