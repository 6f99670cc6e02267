"""What a model says of rows that it did not learn from, for every row."""

import numpy as np
import torch

from ulc.config import RunSpec
from ulc.data.prepare import Prepared
from ulc.labels.duplicates import Copies, find_copies
from ulc.training.inference import predict_stored
from ulc.training.loop import ProgressReporter, TrainingProgress, train
from ulc.training.run import build_algorithm
from ulc.typing import Floats, Integers

FOLDS = 5


def folds_of(given: Integers, folds: int, rng: np.random.Generator) -> Integers:
    """(N,) the fold of each row; the rows of a class are spread evenly, the lone ones too."""
    order = rng.permutation(len(given))
    order = order[np.argsort(given[order], kind="stable")]
    fold = np.empty(len(given), np.int64)
    fold[order] = np.arange(len(given)) % folds
    return fold


def with_copies(fold: Integers, copies: Copies) -> Integers:
    """The same folds, but rows that are copies share one: none may vouch for its own label."""
    together = fold.copy()
    together[copies.rows] = np.repeat(fold[copies.rows[copies.starts]], copies.sizes)
    return together


def out_of_fold(
    spec: RunSpec,
    prepared: Prepared,
    device: torch.device,
    progress: TrainingProgress,
    folds: int = FOLDS,
) -> Floats:
    """(N, K) each row's class probabilities by a model that learned from the other folds.

    The only row of a class is believed: without it, nothing is known of its class.
    """
    data = prepared.all_rows
    given = data.given.cpu().numpy()
    fold = folds_of(given, folds, np.random.default_rng(spec.seed))
    fold = with_copies(fold, find_copies(data.stored.cpu().numpy()))
    probability = np.zeros((len(given), data.num_classes), np.float32)
    for each in range(min(folds, len(given))):
        asked = np.flatnonzero(fold == each)
        if len(asked) == 0:
            continue
        algorithm = build_algorithm(spec, prepared.hold_out(asked), device)
        train(algorithm, range(spec.epochs), [ProgressReporter(progress, each * spec.epochs)])
        probability[asked] = predict_stored(algorithm, data.stored[asked], data.preprocessing)
        del algorithm  # and the fold's rows, before those of the next fold are made
    alone = np.bincount(given, minlength=data.num_classes)[given] == 1
    probability[alone] = np.eye(data.num_classes, dtype=np.float32)[given[alone]]
    return probability
