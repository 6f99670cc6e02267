"""Find wrong labels from the outputs of any model."""

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ulc.blocks.loss_mixture import GaussianLossMixture
from ulc.data.arrays import tensor_to_array
from ulc.errors import InputError
from ulc.estimators.checks import RandomState
from ulc.estimators.classifier import ULCClassifier
from ulc.labels.confusion import ConfusionModel
from ulc.labels.judgement import Judgement
from ulc.labels.table import label_frame
from ulc.typing import Floats, Integers

if TYPE_CHECKING:
    from pandas import DataFrame

THRESHOLD = 0.5
# On the rows that it was trained on, a network that overfits predicts even the wrong labels.
OVERFITTED = 0.9  # probability of a label that was probably learned
NEARLY_ALL = 0.995  # share of such labels that leads to a warning
ENOUGH = 100  # rows; with fewer there is no warning


def find_label_issues(  # noqa: PLR0913 (one of three outputs, and options)
    labels: Any,
    pred_probs: Any = None,
    *,
    losses: Any = None,
    features: Any = None,
    classes: Any = None,
    random_state: RandomState = None,
) -> "DataFrame":
    """Judge (N,) labels by exactly one of three outputs; return a frame in the order of labels.

    The first two arguments are those of cleanlab's function of this name.

    pred_probs: (N, K) class probabilities, out of sample; column k belongs to `classes[k]`
    losses: (N,) cross entropy of each given label, out of sample
    features: (N, D) embeddings, or images; a ULCClassifier is trained on them
    classes: the K labels in the order of the columns; None: integers below K are numbers of
        columns, other labels are sorted
    random_state: seed or generator, for `features`; None: a new seed

    Probabilities: a `ConfusionModel` gives the posterior of the true class, and a label is an issue
    if another class is likelier. Losses: a mixture of two Gaussians for each class gives the
    probability that a label is right, and a label is an issue if that is below one half; a class
    whose losses one Gaussian explains as well is clean. Losses suggest no other class.
    """
    outputs = {"losses": losses, "pred_probs": pred_probs, "features": features}
    given = [name for name, value in outputs.items() if value is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        raise InputError(f"give one of losses, pred_probs and features; found {found}")
    if features is not None:
        return ULCClassifier(random_state=random_state).fit(features, labels).find_label_issues()
    index = getattr(labels, "index", None) if hasattr(labels, "iloc") else None
    labels = check_given_labels(labels)
    if losses is not None:
        return from_losses(labels, check_finite(losses, "losses"), index)
    return from_probabilities(labels, check_finite(pred_probs, "pred_probs"), classes, index)


def from_losses(labels: NDArray[Any], losses: Floats, index: Any) -> "DataFrame":
    """The table of labels judged by (N,) losses; its predicted and suggested labels are empty.

    index: of the frame; None: positions
    """
    if losses.shape != labels.shape:
        raise InputError(
            f"losses have shape {losses.shape}, labels {labels.shape}; give one loss for each label"
        )
    warn_if_overfitted(np.exp(-losses))
    classes, given = np.unique(labels, return_inverse=True)
    nothing = np.full(len(given), np.nan, np.float32)
    clean = clean_probability(losses, given, len(classes))
    one_hot = np.eye(len(classes), dtype=np.float32)[given]
    frame = label_frame(
        Judgement(given, clean, one_hot, nothing, nothing, score_kind="mixture"),
        classes,
        THRESHOLD,
        index,
    )
    frame["is_label_issue"] = clean < THRESHOLD
    frame["predicted_label"] = frame["suggested_label"] = None
    frame["loss"] = losses
    return frame


def from_probabilities(
    labels: NDArray[Any], probability: Floats, classes: Any, index: Any
) -> "DataFrame":
    """The table of labels judged by (N, K) predicted probabilities.

    index: of the frame; None: positions
    """
    check_probabilities(probability, len(labels))
    names, given = number_labels(labels, probability.shape[1], classes)
    chosen = probability[np.arange(len(given)), given]
    warn_if_overfitted(chosen)
    posterior = ConfusionModel.fit(probability, given).posterior(probability, given)
    log_probability = np.log(np.maximum(probability, 1e-30))
    entropy = -(probability * log_probability).sum(1) / math.log(len(names))
    nothing = np.full(len(given), np.nan, np.float32)
    judgement = Judgement(given, chosen, probability, entropy.clip(0, 1), nothing)
    return label_frame(judgement.with_posterior(posterior), names, THRESHOLD, index)


def clean_probability(losses: Floats, given: Integers, classes: int) -> Floats:
    """(N,) probability that each label is right, by a loss mixture for each class."""
    model = GaussianLossMixture(per_class=True, one_component_guard=True)
    judged = model.fit_predict(torch.from_numpy(losses), torch.from_numpy(given), classes)
    return judged.clean_probability.numpy()


def check_given_labels(labels: Any) -> NDArray[Any]:
    """Labels of any kind as an (N,) array; raise an InputError if the shape is another."""
    try:
        array = np.asarray(tensor_to_array(labels))
    except ValueError:  # lists of different lengths
        raise InputError("labels are lists; give one label for each row") from None
    if array.ndim == 2 and array.dtype.kind == "f":
        raise InputError(
            f"labels have shape {array.shape}, as probabilities have; give the labels first, then "
            "pred_probs"
        )
    if array.ndim != 1 or len(array) == 0:
        raise InputError(f"labels have shape {array.shape}; give one label for each row")
    missing = [row for row, each in enumerate(array.tolist()) if each is None or each != each]
    if missing:
        raise InputError(f"labels: row {missing[0]} has no label; leave such rows out")
    return array


def check_finite(values: Any, what: str) -> Floats:
    """The values as an array; raise an InputError if one is not finite.

    what: name of the values, for the message
    """
    try:
        array = np.asarray(tensor_to_array(values), np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"{what} hold values that are no numbers; give an array of numbers"
        ) from None
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise InputError(f"{what} hold a missing or infinite value in row {row}; fill or remove it")
    return array


def check_probabilities(probability: Floats, count: int) -> None:
    """Raise an InputError unless each label has a distribution over two or more classes."""
    if probability.ndim == 1:
        raise InputError(
            f"pred_probs have shape {probability.shape}; give a probability for each class, "
            "(N, K), or losses as losses="
        )
    if probability.ndim != 2 or probability.shape[0] != count or probability.shape[1] < 2:
        raise InputError(
            f"pred_probs have shape {probability.shape}; give {count} rows with a probability for "
            "each class"
        )
    sums = probability.sum(1)
    wrong = (probability < 0).any(1) | (np.abs(sums - 1) > 1e-3)
    if wrong.any():
        row = int(wrong.argmax())
        what = (
            "has a negative value" if (probability[row] < 0).any() else f"sums to {sums[row]:.4g}"
        )
        raise InputError(
            f"pred_probs: row {row} is no distribution, it {what}; "
            "give probabilities that sum to 1, not logits"
        )


def number_labels(labels: NDArray[Any], count: int, classes: Any) -> tuple[NDArray[Any], Integers]:
    """The K classes, and the (N,) columns of the labels.

    count: number K of columns; classes: as in `find_label_issues`
    """
    whole = labels.dtype.kind in "iu" and labels.min() >= 0 and labels.max() < count
    if classes is None and whole:
        return np.arange(count), labels.astype(np.int64)
    names = np.unique(labels) if classes is None else np.asarray(tensor_to_array(classes))
    if classes is None and len(names) != count and labels.dtype.kind in "iu":
        outside = labels[(labels < 0) | (labels >= count)][0]
        raise InputError(
            f"label {outside} is outside the columns 0 to {count - 1} of pred_probs; correct it, "
            "or give classes= in the order of the columns"
        )
    if len(names) != count:
        raise InputError(
            f"pred_probs have {count} columns for {len(names)} classes; "
            "give classes= in the order of the columns"
        )
    places = {name: place for place, name in enumerate(names.tolist())}
    unknown = [label for label in labels.tolist() if label not in places]
    if unknown:
        raise InputError(
            f"label {unknown[0]!r} is not among the classes {names.tolist()}; correct it, or give "
            "classes= with all labels"
        )
    return names, np.array([places[label] for label in labels.tolist()], np.int64)


def warn_if_overfitted(chosen: Floats) -> None:
    """Warn if (N,) probabilities of the given labels look like those of training rows."""
    if len(chosen) >= ENOUGH and (chosen > OVERFITTED).mean() >= NEARLY_ALL:
        warnings.warn(
            "nearly every given label has a probability near 1, as if the model had been trained "
            "on these rows; give out-of-sample outputs (for example by cross_val_predict)",
            UserWarning,
            stacklevel=4,
        )
