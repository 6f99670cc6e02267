"""The findings of a finished run as arrays, from which the page is made."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ulc.config import checked
from ulc.errors import InputError
from ulc.labels.confusion import ConfusionModel
from ulc.labels.health import collapsed, count_pairs, count_predicted, joint_mass, noise_matrix
from ulc.labels.judgement import Judgement, ScoreKind
from ulc.storage.run_folder import RunFolder
from ulc.typing import Floats, Integers

BLOCK = 65_536  # rows at a time, so that (N, K) arrays are not copied as a whole


@dataclass(frozen=True)
class Evidence:
    """The factors of each label's posterior under a confusion model.

    confusion: the confusion model
    given, suggested: (N,) the model's expected probability of the given and the suggested class
    label_given, label_suggested: (N,) P(given label | true class, x), for the same two classes
    posterior: (N,) posterior of the suggested class; the score is the posterior of the given class
    """

    confusion: ConfusionModel
    given: Floats
    suggested: Floats
    label_given: Floats
    label_suggested: Floats
    posterior: Floats

    @cached_property
    def transition(self) -> Floats:
        """(K, K) P(given | true); row: true class, column: given class."""
        return np.array(self.confusion.transition)


@dataclass(frozen=True)
class Findings:
    """Every label of a run, in data set order.

    given, suggested: (N,) classes; issue: (N,) mask of the labels that look wrong
    score: (N,) probability that the given label is right; loss: (N,) loss of the given label
    epistemic, aleatoric: (N,) uncertainties; NaN: not estimated
    moved: (K, K) labels counted by corrected class (row) and given class (column)
    predicted: (K,) how many examples the model predicts as each class
    small: (K,) mask of the classes with few examples
    threshold: a label with a lower score is doubted
    score_kind: the rule behind the scores
    evidence: the factors of the scores; None: the scores are no posterior
    """

    class_names: tuple[str, ...]
    given: Integers
    suggested: Integers
    issue: NDArray[np.bool_]
    score: Floats
    loss: Floats
    epistemic: Floats
    aleatoric: Floats
    moved: Floats
    predicted: Integers
    small: NDArray[np.bool_]
    threshold: float
    score_kind: ScoreKind
    evidence: Evidence | None = None

    @classmethod
    def of(cls, folder: RunFolder) -> "Findings":
        """Read a run's judgement, and check that its files fit together."""
        facts = folder.read_json("data.json")
        judgement = folder.judgement
        names = tuple(facts["class_names"])
        small = np.isin(np.arange(len(names)), facts.get("small_classes", []))
        # a run of ULC+ has a posterior, too, but no file of its confusion model
        has_model = judgement.posterior is not None and (
            folder.has("audit.json") or folder.has("confusion.json")
        )
        confusion = read_confusion(folder, len(names)) if has_model else None
        return cls.from_judgement(judgement, names, small, folder.threshold, confusion)

    @classmethod
    def from_judgement(
        cls,
        judgement: Judgement,
        class_names: tuple[str, ...],
        small: NDArray[np.bool_],
        threshold: float,
        confusion: ConfusionModel | None = None,
    ) -> "Findings":
        """Findings of a judgement, computed block by block.

        small: (K,) mask of the small classes
        confusion: the model behind the judgement's posterior; None: it has no posterior
        """
        rows, classes = judgement.prediction.shape
        suggested = np.empty(rows, np.int64)
        issue = np.empty(rows, bool)
        loss = np.empty(rows, np.float32)
        factors = np.empty((5, rows if confusion else 0), np.float32)
        moved = np.zeros((classes, classes))
        predicted = np.zeros(classes, np.int64)
        for block in blocks(rows):
            part = judgement.select(block)
            suggested[block] = part.suggested
            issue[block] = part.issues(threshold)
            loss[block] = part.loss
            moved += joint_mass(part)
            predicted += count_predicted(part)
            if confusion is not None and part.posterior is not None:
                factors[:, block] = posterior_factors(part, part.posterior, confusion)
        return cls(
            class_names=class_names,
            given=judgement.given,
            suggested=suggested,
            issue=issue,
            score=judgement.clean_probability,
            loss=loss,
            epistemic=judgement.epistemic,
            aleatoric=judgement.aleatoric,
            moved=moved,
            predicted=predicted,
            small=small,
            threshold=threshold,
            score_kind=judgement.score_kind,
            evidence=None if confusion is None else Evidence(confusion, *factors),
        )

    def __len__(self) -> int:
        return len(self.given)

    @property
    def classes(self) -> int:
        """Number K of classes."""
        return len(self.class_names)

    @cached_property
    def suspects(self) -> Integers:
        """Positions of the labels that look wrong, most suspicious first, as in labels.csv."""
        order = np.lexsort((self.score, ~self.issue))
        return order[: int(self.issue.sum())]

    @cached_property
    def sizes(self) -> Integers:
        """(K,) number of labels of each given class."""
        return np.bincount(self.given, minlength=self.classes)

    @cached_property
    def pairs(self) -> Integers:
        """(K, K) labels that look wrong, by given class (row) and suggested class (column)."""
        return count_pairs(self.given[self.issue], self.suggested[self.issue], self.classes)

    @property
    def collapsed(self) -> NDArray[np.bool_]:
        """(K,) mask of the classes with enough labels that the model hardly ever predicts."""
        return collapsed(self.sizes, self.predicted)

    @cached_property
    def noise_matrix(self) -> Floats:
        """(K, K) estimated P(given | true), with the corrected labels as the true ones."""
        return noise_matrix(self.moved)

    @cached_property
    def wrong_share(self) -> "WrongShare":
        """Estimates of the share of wrong labels."""
        return WrongShare(
            flagged=float(self.issue.mean()),
            expected=float(1 - self.score.mean(dtype=np.float64)),
            moved=float(1 - np.trace(self.moved) / len(self)),
        )


@dataclass(frozen=True)
class WrongShare:
    """Three estimates of the share of wrong labels.

    flagged: share of the labels that look wrong
    expected: mean probability of being wrong, over all labels
    moved: share of the mass of the corrected labels that is not on the given class
    """

    flagged: float
    expected: float
    moved: float

    @property
    def low(self) -> float:
        """The lowest of the three estimates."""
        return min(self.flagged, self.expected, self.moved)

    @property
    def high(self) -> float:
        """The highest of the three estimates."""
        return max(self.flagged, self.expected, self.moved)


def blocks(rows: int) -> Iterator[slice]:
    """Slices of at most `BLOCK` rows."""
    for start in range(0, rows, BLOCK):
        yield slice(start, start + BLOCK)


def posterior_factors(
    judgement: Judgement, posterior: Floats, confusion: ConfusionModel
) -> tuple[Floats, ...]:
    """The five arrays of `Evidence`, in its order."""
    rows, suggested = np.arange(len(judgement.given)), judgement.suggested
    expected = confusion.expected(judgement.prediction)
    likelihood = confusion.likelihood(expected, judgement.given)
    return (
        expected[rows, judgement.given],
        expected[rows, suggested],
        likelihood[rows, judgement.given],
        likelihood[rows, suggested],
        posterior[rows, suggested],
    )


def read_confusion(folder: RunFolder, classes: int) -> ConfusionModel:
    """The confusion model with which an audit judged the labels."""
    name = "confusion.json"
    model = checked(ConfusionModel, folder.read_json(name), where=str(folder.path / name))
    if np.shape(model.transition) != (classes, classes):
        raise folder.damaged(name, ValueError(f"its transition is not {classes} × {classes}"))
    return model


def open_run(path: Path) -> RunFolder:
    """The folder of a run or an audit; raise an InputError if the audit is unfinished."""
    if (path / "audit.toml").is_file() and not (path / "done").is_file():
        raise InputError(
            f"{path}: the audit is unfinished; go on with `ulc resume {path}`, then make the report"
        )
    return RunFolder.open(path)


def check_finished(folder: RunFolder) -> None:
    """Raise an InputError unless the run is finished."""
    if folder.done:
        return
    epochs = folder.spec.epochs
    trained = len(folder.records) if folder.has("records.jsonl") else 0
    raise InputError(
        f"{folder.path}: the run is unfinished ({trained} of {epochs} epochs); "
        f"go on with `ulc resume {folder.path}`, then make the report"
    )
