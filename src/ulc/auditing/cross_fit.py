"""What a model says of rows that it did not learn from, for every row."""

from dataclasses import replace

import numpy as np
import torch

from ulc.config import RunSpec
from ulc.data.prepare import Prepared
from ulc.labels.duplicates import Copies, find_copies
from ulc.training.held_out import HeldOut
from ulc.training.in_memory import train
from ulc.training.loop import TrainingProgress, step_reporter
from ulc.training.run import build
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
    data = prepared.training
    given = data.given.cpu().numpy()
    fold = folds_of(given, folds, np.random.default_rng(spec.seed))
    fold = with_copies(fold, find_copies(data.stored.cpu().numpy()))
    probability = np.zeros((len(given), data.num_classes), np.float32)
    for each in range(min(folds, len(given))):
        rest, asked = np.flatnonzero(fold != each), np.flatnonzero(fold == each)
        if len(asked) == 0:
            continue
        part = replace(
            data,
            stored=data.stored[rest],
            given=data.given[rest],
            verified=None if data.verified is None else data.verified[rest],
        )
        algorithm = build(spec, replace(prepared, training=part), device)
        algorithm.on_step = step_reporter(each * spec.epochs, progress)
        records = train(algorithm, range(spec.epochs))
        progress.on_epoch({"epoch": (each + 1) * spec.epochs - 1, "train": records[-1]})
        held_out = HeldOut(data.stored[asked], data.given[asked], data.preprocessing)
        probability[asked] = held_out.predicted(algorithm)
        del part, algorithm  # before the next fold's are made
    alone = np.bincount(given, minlength=data.num_classes)[given] == 1
    probability[alone] = np.eye(data.num_classes, dtype=np.float32)[given[alone]]
    return probability
