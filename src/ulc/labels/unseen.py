"""What a finished training says of labels that it did not learn from."""

import numpy as np

from ulc.errors import InputError
from ulc.labels.judgement import Judgement
from ulc.labels.table import losses
from ulc.typing import Floats, Integers

NEAREST = 5  # training labels that a new one is compared with


def judge_unseen(
    judgement: Judgement,
    prediction: Floats,
    given: Integers,
    *,
    epistemic: Floats | None = None,
    aleatoric: Floats | None = None,
) -> Judgement:
    """The opinion on (M,) new labels of which the model predicts (M, K) `prediction`, as trained.

    A label is believed as far as the training labels of its class with the nearest losses were:
    the mean of the five nearest, or of all where a class has fewer. Where the loss is beyond all of
    them, as a network that learns by heart leaves it, belief falls on with the probability that is
    predicted. A class that no training label has is believed as far as it is predicted.

    It needs nothing of the algorithm but its judgement.
    """
    check_labels(judgement, prediction, given)
    nothing = np.full(len(given), np.nan, np.float32)
    new = Judgement(
        given,
        prediction[np.arange(len(given)), given],
        prediction,
        nothing if epistemic is None else epistemic,
        nothing if aleatoric is None else aleatoric,
    )
    known, asked = losses(judgement), losses(new)
    clean = new.clean_probability.astype(np.float32)
    for label in np.intersect1d(given, judgement.given):
        ours, theirs = judgement.given == label, given == label
        clean[theirs] = believed(known[ours], judgement.clean_probability[ours], asked[theirs])
    return Judgement(new.given, clean, prediction, new.epistemic, new.aleatoric)


def believed(known: Floats, clean: Floats, asked: Floats) -> Floats:
    """(M,) mean clean probability of the training labels whose losses are nearest.

    Labels of the same loss count with their mean, so that their order does not matter.
    """
    values, place, count = np.unique(known, return_inverse=True, return_counts=True)
    shared = np.repeat(np.bincount(place, weights=clean) / count, count)
    ranked, few = np.repeat(values, count), min(NEAREST, len(known))
    means = np.lib.stride_tricks.sliding_window_view(shared, few).mean(1)
    # The nearest few are neighbours in rank. They move up by one where the next above is nearer
    # than the lowest of them, which is past the middle between the two.
    first = np.searchsorted((ranked[:-few] + ranked[few:]) / 2, asked)
    return means[first] * np.exp(np.minimum(ranked[-1] - asked, 0))


def check_labels(judgement: Judgement, prediction: Floats, given: Integers) -> None:
    """Raise unless the new labels are classes of the model, one for each prediction."""
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
