"""Out-of-fold predictions by cross-validation, and the label noise that they imply."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ulc.auditing.trainings import HeldOutRun
from ulc.auditing.workspace import Workspace
from ulc.config import RunSpec
from ulc.data.prepare import Prepared
from ulc.errors import InputError
from ulc.labels.confusion import ConfusionModel
from ulc.labels.duplicates import Copies, find_copies
from ulc.storage.run_folder import Records, RunFolder
from ulc.training.inference import predict_stored
from ulc.training.loop import ProgressReporter, TrainingProgress, train
from ulc.training.run import build_algorithm
from ulc.typing import Floats, Integers

FOLDS = 5
FILE = "out_of_fold.npz"
# a confusion model is fitted to at most max(2,000, 500,000 / K) rows
MOST_PROBABILITIES, FEWEST_ROWS = 500_000, 2_000


@dataclass(frozen=True)
class OutOfFold:
    """Predictions for all N rows, each by a plain model that did not learn from the row.

    probability: (N, K)
    confusion: confusion model fitted to the given labels beside these predictions
    plain_noise_rate: expected share of wrong labels by these predictions alone; chooses λ_u
    """

    probability: Floats
    confusion: ConfusionModel
    plain_noise_rate: float


def predict_out_of_fold(workspace: Workspace, plain: HeldOutRun, prepared: Prepared) -> OutOfFold:
    """For each fold, train on the other folds and predict it; fit a confusion model to the result.

    Predictions of an audit that was stopped are read from its folder.
    """
    given = prepared.all_rows.given.cpu().numpy()
    if workspace.folder.has(FILE):
        probability = read_probability(workspace.folder, prepared)
    else:
        spec = plain.folder.spec
        epochs = likeliest_epoch(plain.folder.records) + 1
        spec = spec.model_copy(update={"held_out": 0.0, "epochs": epochs})
        with workspace.progress.training("out of fold", FOLDS * epochs) as progress:
            probability = cross_validate(spec, prepared, workspace.device, progress)
        digest = np.array(prepared.identity.content)
        workspace.folder.write_arrays(FILE, {"probability": probability, "data": digest})
    confusion = fit_confusion(probability, given)
    return OutOfFold(probability, confusion, confusion.noise_rate(probability, given))


def read_probability(folder: RunFolder, prepared: Prepared) -> Floats:
    """The (N, K) predictions that the folder holds; raise if they are of other data."""
    content = folder.read_arrays(FILE)
    if "probability" not in content or str(content.get("data")) != prepared.identity.content:
        raise InputError(f"{folder.path}: the data have changed since; audit anew with --fresh")
    probability: Floats = content["probability"]
    return probability


def likeliest_epoch(records: Records) -> int:
    """The epoch with the highest likelihood of the held-out labels under symmetric noise.

    Agreement hardly falls while a plain model learns wrong labels; this likelihood does.
    """
    best = max(records, key=lambda record: record["held_out"]["likelihood"])
    epoch: int = best["epoch"]
    return epoch


def cross_validate(
    spec: RunSpec,
    prepared: Prepared,
    device: torch.device,
    progress: TrainingProgress,
    folds: int = FOLDS,
) -> Floats:
    """(N, K) class probabilities of each row by a model that learned from the other folds.

    A row whose class has no row in another fold gets probability 1 for its label, because the
    model of its fold does not know the class.
    """
    data = prepared.all_rows
    given = data.given.cpu().numpy()
    fold = assign_folds(given, folds, np.random.default_rng(spec.seed))
    fold = keep_copies_together(fold, find_copies(data.stored.cpu().numpy()))
    probability = np.zeros((len(given), data.num_classes), np.float32)
    for each in range(folds):
        held_out = np.flatnonzero(fold == each)
        if len(held_out) == 0:
            continue
        algorithm = build_algorithm(spec, prepared.hold_out(held_out), device)
        train(algorithm, range(spec.epochs), [ProgressReporter(progress, each * spec.epochs)])
        probability[held_out] = predict_stored(algorithm, data.stored[held_out], data.preprocessing)
        del algorithm  # frees the fold's rows before the next fold copies its own
    alone = find_classes_of_one_fold(given, fold)
    probability[alone] = np.eye(data.num_classes, dtype=np.float32)[given[alone]]
    return probability


def find_classes_of_one_fold(given: Integers, fold: Integers) -> NDArray[np.bool_]:
    """(N,) rows whose given class has no row in another fold: lone rows, and copies of one row."""
    first, last = np.full(given.max() + 1, fold.max()), np.zeros(given.max() + 1, np.int64)
    np.minimum.at(first, given, fold)
    np.maximum.at(last, given, fold)
    return (first == last)[given]


def assign_folds(given: Integers, folds: int, rng: np.random.Generator) -> Integers:
    """(N,) the fold of each row, stratified by given class."""
    order = rng.permutation(len(given))
    order = order[np.argsort(given[order], kind="stable")]
    fold = np.empty(len(given), np.int64)
    fold[order] = np.arange(len(given)) % folds
    return fold


def keep_copies_together(fold: Integers, copies: Copies) -> Integers:
    """The same folds, with all copies of a row in one fold, so that no model has seen a copy."""
    together = fold.copy()
    together[copies.rows] = np.repeat(fold[copies.rows[copies.starts]], copies.sizes)
    return together


def fit_confusion(probability: Floats, given: Integers) -> ConfusionModel:
    """A confusion model fitted to the rows, or to a random sample where there are many."""
    most = max(FEWEST_ROWS, MOST_PROBABILITIES // probability.shape[1])
    if len(given) <= most:
        return ConfusionModel.fit(probability, given)
    rows = np.random.default_rng(0).choice(len(given), most, replace=False)
    return ConfusionModel.fit(probability[rows], given[rows])
