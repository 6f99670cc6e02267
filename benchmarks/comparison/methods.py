"""The compared methods; each takes a cut and returns its measures."""

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.comparison.scoring import Flags, score_finding, score_model
from benchmarks.comparison.settings import CLASSES, Cut
from ulc.config import RunSpec
from ulc.errors import InputError
from ulc.storage.run_folder import RunFolder
from ulc.typing import Floats, Integers

Measured = dict[str, Any]
# scikit-learn has no types.
Classifier = Any
FOLDS = 5  # cleanlab's default


@dataclass(frozen=True)
class Clock:
    """A stopwatch that starts when it is made."""

    wall: float = field(default_factory=time.perf_counter)
    processor: float = field(default_factory=time.process_time)

    def read(self) -> dict[str, float]:
        """Return processor seconds of this process, and wall-clock seconds."""
        return {
            "seconds": time.process_time() - self.processor,
            "wall_seconds": time.perf_counter() - self.wall,
        }


def audit(cut: Cut, seed: int, work: Path) -> Measured:
    """Run `ulc audit`; score its labels.csv and its model."""
    from ulc.api import audit as run_audit

    data = write_data(cut, work)
    clock = Clock()
    folder = run_audit(data, out=work / "audit", seed=seed).folder
    taken = clock.read()
    facts = folder.read_json("audit.json")
    return {
        "finding": score_finding(cut, *read_labels_table(folder, cut.ids)),
        "model": score_folder(cut, folder),
        "handed_over": facts["handed_over"],
        "noise_rate": facts["noise_rate"],
        **taken,
    }


def plain(cut: Cut, seed: int, work: Path) -> Measured:
    """Train with cross entropy on all rows, to the last epoch."""
    return train_with(cut, seed, work, "ce", stopped=False)


def plain_stopped(cut: Cut, seed: int, work: Path) -> Measured:
    """Train with cross entropy and early stopping on held-out given labels, as audits do."""
    return train_with(cut, seed, work, "ce", stopped=True)


def plain_corrected(cut: Cut, seed: int, work: Path) -> Measured:
    """Train with cross entropy on the labels that an audit believes.

    Each row has the likeliest class of its posterior; a row without a class of at least one half is
    left out.
    """
    from ulc.api import audit as run_audit

    folder = run_audit(write_data(cut, work), out=work / "audit", seed=seed).folder
    posterior = folder.judgement.corrected
    sure = posterior.max(1) >= 0.5
    believed = posterior.argmax(1)[sure]
    (work / "corrected").mkdir()
    kept = replace(
        cut, inputs=cut.inputs[sure], given=believed, ids=cut.ids[sure], true=cut.true[sure]
    )
    return train_with(kept, seed, work / "corrected", "ce", stopped=False)


def ulc(cut: Cut, seed: int, work: Path) -> Measured:
    """Train with ULC on all rows, to the last epoch."""
    return train_with(cut, seed, work, "ulc", stopped=False)


def train_with(cut: Cut, seed: int, work: Path, algorithm: str, *, stopped: bool) -> Measured:
    """Train for as long as audits do, and score the model.

    stopped: whether rows are held out, and the epoch is kept that they choose
    """
    from ulc.api import train

    spec = training_spec(write_data(cut, work), seed, algorithm, stopped=stopped)
    clock = Clock()
    run = train(spec, work)
    taken = clock.read()
    return {"model": score_folder(cut, run.folder), "epochs": spec.epochs, **taken}


def training_spec(data: Path, seed: int, algorithm: str, *, stopped: bool) -> RunSpec:
    """Return the spec of a training as long as that of ULC+ in the audit.

    The settings of `ulc train` have another length. A longer training memorises more wrong labels,
    so the difference would not be the audit's. With early stopping, it is as long as the audit's
    own plain training.
    """
    import torch

    from ulc.auditing import audit_spec, choices
    from ulc.data.held_out import count_held_out
    from ulc.data.sources import load_source
    from ulc.settings.automatic import Size, settings

    wanted = audit_spec(data, seed=seed)
    source = load_source(wanted.data)
    share, _ = choices.choose_held_out(wanted, source.labels)
    network, _ = choices.choose_network(wanted, source, torch.device("cpu"))
    rows = len(source.labels) - count_held_out(source.labels, share)
    size = Size(source.inputs.shape[1:], rows, len(source.class_names))
    epochs, _ = choices.choose_epochs(wanted, size)
    if stopped:
        epochs = choices.plain_epochs(epochs)
    spec = settings(algorithm, size, epochs, None)
    held_out = share if stopped else 0.0
    common = {"data": wanted.data, "network": network, "seed": seed, "held_out": held_out}
    return spec.model_copy(update=common)


def cleanlab_lr(cut: Cut, seed: int, work: Path) -> Measured:  # noqa: ARG001 (nothing is written)
    """Run cleanlab's defaults with logistic regression."""
    from sklearn.linear_model import LogisticRegression

    return cleanlab(cut, seed, lambda: LogisticRegression(max_iter=1000))


def cleanlab_mlp(cut: Cut, seed: int, work: Path) -> Measured:  # noqa: ARG001 (nothing is written)
    """Run cleanlab's defaults with a network of the size of ours.

    Early stopping on a tenth of the rows: without it the network memorises wrong labels.
    """
    from sklearn.neural_network import MLPClassifier

    return cleanlab(
        cut,
        seed,
        lambda: MLPClassifier(hidden_layer_sizes=(512,), early_stopping=True, random_state=seed),
    )


METHODS: dict[str, Callable[[Cut, int, Path], Measured]] = {
    "audit": audit,
    "plain": plain,
    "plain-stopped": plain_stopped,
    "plain-corrected": plain_corrected,
    "ulc": ulc,
    "cleanlab-lr": cleanlab_lr,
    "cleanlab-mlp": cleanlab_mlp,
}
NEEDS = {
    "audit": "ulc.auditing",
    "plain": "ulc.auditing",
    "plain-stopped": "ulc.auditing",
    "plain-corrected": "ulc.auditing",
    "ulc": "ulc.auditing",
    "cleanlab-lr": "cleanlab",
    "cleanlab-mlp": "cleanlab",
}


def check_installed(method: str) -> None:
    """Raise if a method's package is not installed."""
    module = NEEDS.get(method)
    if module and importlib.util.find_spec(module) is None:
        remedy = (
            "update ulc"
            if module.startswith("ulc.")
            else "pip install -c constraints.txt '.[compare]'"
        )
        raise InputError(
            f"the method '{method}' needs {module}, which is not installed; {remedy} or leave it "
            "out with --methods"
        )


def cleanlab(cut: Cut, seed: int, new_classifier: Callable[[], Classifier]) -> Measured:
    """Run CleanLearning: cross-validate, flag, and fit again without the flagged rows.

    All settings are cleanlab's defaults, except the seed and one process.
    """
    from cleanlab.classification import CleanLearning

    clock = Clock()
    learning = CleanLearning(
        new_classifier(), seed=seed, cv_n_folds=FOLDS, find_label_issues_kwargs={"n_jobs": 1}
    )
    learning.fit(cut.inputs, cut.given)
    taken = clock.read()
    issues = learning.get_label_issues()
    # Pruned rows have weight 0; the weights of the others keep the class totals.
    weights = issues["sample_weight"].to_numpy()
    unpruned = new_classifier().fit(cut.inputs, cut.given)
    return {
        "finding": score_finding(
            cut, issues["label_quality"].to_numpy(), issues["is_label_issue"].to_numpy()
        ),
        "model": score_model(
            cut, probabilities(learning.clf, cut.test_inputs), frequencies(cut.given, weights)
        ),
        "unpruned": score_model(
            cut,
            probabilities(unpruned, cut.test_inputs),
            frequencies(cut.given, np.ones(len(cut.given))),
        ),
        **taken,
    }


def probabilities(classifier: Classifier, inputs: Floats) -> Floats:
    """Return (N, K) probabilities; a class without rows after pruning has probability 0."""
    known = classifier.predict_proba(inputs)
    every = np.zeros((len(inputs), len(CLASSES)))
    every[:, classifier.classes_] = known
    return every


def frequencies(labels: Integers, weights: Floats) -> Floats:
    """Return (K,) weighted class frequencies."""
    counts = np.bincount(labels, weights=weights, minlength=len(CLASSES))
    return counts / counts.sum()


def write_data(cut: Cut, work: Path) -> Path:
    """Write the data file of a user: no true labels, no test set."""
    path = work / "data.npz"
    np.savez(
        path, X=cut.inputs, y=cut.given, ids=cut.ids.astype(str), class_names=np.array(CLASSES)
    )
    return path


def read_labels_table(folder: RunFolder, ids: Integers) -> tuple[Floats, Flags]:
    """Read scores and flags of labels.csv in the order of `ids`."""
    import pandas as pd

    table = pd.read_csv(folder.path / "labels.csv", dtype={"id": str}).set_index("id")
    if len(table) != len(ids):
        raise ValueError(f"{folder.path}: labels.csv has {len(table)} rows for {len(ids)}")
    ordered = table.loc[ids.astype(str).tolist()]
    return ordered["label_score"].to_numpy(float), ordered["is_label_issue"].to_numpy(bool)


def score_folder(cut: Cut, folder: RunFolder) -> Measured:
    """Score the model of a run folder."""
    from ulc.training.model import Model

    model = Model.load(folder)
    probability = model.predict_proba(cut.test_inputs)
    return score_model(cut, probability, np.asarray(model.spec.class_prior))
