"""Scores for labels of rows that a finished training did not learn from."""

from dataclasses import replace

import numpy as np

from ulc.errors import InputError
from ulc.labels.judgement import Judgement
from ulc.typing import Floats, Integers

NEAREST = 5  # training labels that a new label is compared with


def judge_unseen(
    judgement: Judgement,
    prediction: Floats,
    given: Integers,
    *,
    epistemic: Floats | None = None,
    aleatoric: Floats | None = None,
) -> Judgement:
    """The judgement of (M,) labels of new rows, for which the model predicts (M, K) `prediction`.

    A label's score is the mean clean probability of the five training labels of the same class
    that are nearest in loss. Beyond the largest training loss it decays as exp(−excess). In a
    class without training labels it is the predicted probability of the label.

    judgement: of the training labels
    epistemic, aleatoric: (M,) uncertainties of the new rows; None: not estimated (NaN)
    """
    check_labels(judgement, prediction, given)
    new = replace(Judgement.of(prediction, given), score_kind=judgement.score_kind)
    if epistemic is not None:
        new = replace(new, epistemic=epistemic)
    if aleatoric is not None:
        new = replace(new, aleatoric=aleatoric)
    training_loss, loss = judgement.loss, new.loss
    clean = new.clean_probability.astype(np.float32)
    for label in np.intersect1d(given, judgement.given):
        training, asked = judgement.given == label, given == label
        clean[asked] = score_by_loss(
            training_loss[training], judgement.clean_probability[training], loss[asked]
        )
    if judgement.posterior is not None:
        return new.with_posterior(spread_rest(clean, prediction, given))
    return replace(new, clean_probability=clean)


def spread_rest(clean: Floats, prediction: Floats, given: Integers) -> Floats:
    """(M, K) posterior: `clean` for the given class.

    The rest, 1 − clean, is divided over the other classes in proportion to the prediction.
    """
    rows = np.arange(len(given))
    rest = np.maximum(prediction, 1e-12, dtype=np.float32)
    rest[rows, given] = 0
    posterior: Floats = rest * ((1 - clean) / np.maximum(rest.sum(1), 1e-12))[:, None]
    posterior[rows, given] = clean
    return posterior


def score_by_loss(training_loss: Floats, training_clean: Floats, loss: Floats) -> Floats:
    """(M,) mean clean probability of the training labels of one class that are nearest in loss.

    Beyond the largest training loss it is multiplied by exp(−excess). Training labels of the same
    loss count with their mean, so that their order does not matter.

    training_loss, training_clean: of the training labels; loss: (M,) losses of the new labels
    """
    values, place, count = np.unique(training_loss, return_inverse=True, return_counts=True)
    clean = np.repeat(np.bincount(place, weights=training_clean) / count, count)
    ranked, few = np.repeat(values, count), min(NEAREST, len(training_loss))
    means = np.lib.stride_tricks.sliding_window_view(clean, few).mean(1)
    # The nearest labels are a window in the sorted losses. The window moves up by one when the loss
    # is past the middle between the lowest loss in the window and the first loss above the window.
    window = np.searchsorted((ranked[:-few] + ranked[few:]) / 2, loss)
    return means[window] * np.exp(np.minimum(ranked[-1] - loss, 0))


def check_labels(judgement: Judgement, prediction: Floats, given: Integers) -> None:
    """Raise an InputError unless each prediction has a label that is a class of the model."""
    classes = judgement.prediction.shape[1]
    if prediction.shape != (len(given), classes):
        raise InputError(
            f"predictions have shape {prediction.shape}; give {classes} probabilities for each of "
            f"the {len(given)} labels"
        )
    outside = (given < 0) | (given >= classes)
    if outside.any():
        row = int(outside.argmax())
        raise InputError(
            f"row {row} has label {given[row]}, which the model does not know; "
            f"give labels from 0 to {classes - 1}"
        )
