"""What a finished run found, as arrays: all that the page says about labels comes from here."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.errors import InputError
from ulc.labels.health import joint_mass, noise_matrix
from ulc.labels.judgement import Judgement
from ulc.labels.table import issues, losses
from ulc.storage.run_folder import RunFolder
from ulc.typing import Floats, Integers

VANISHED = 0.05  # a class that is predicted less often than this share of its labels
ENOUGH = 10  # labels, below which nothing is said about a class
BLOCK = 65_536  # rows at once: (N, K) is never held a second time


@dataclass(frozen=True)
class Findings:
    """Every label of a run, in data set order.

    given, suggested: (N,) classes; issue: (N,) labels that look wrong
    score: (N,) probability that the given label is right; loss: (N,) of the given label
    epistemic, aleatoric: (N,) uncertainties, NaN where the method measures none
    moved: (K, K) how many labels the corrected labels count in class i that were given as j
    predicted: (K,) how many examples the model would put into each class
    small: (K,) classes with few examples
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

    @classmethod
    def of(cls, folder: RunFolder) -> "Findings":
        """Read a run's judgement, and check that its files belong together."""
        facts = folder.read_json("data.json")
        judgement = folder.judgement
        try:
            names = tuple(map(str, facts["class_names"]))
            small = np.isin(np.arange(len(names)), facts["small_classes"])
        except (KeyError, TypeError) as error:
            raise folder.damaged("data.json", ValueError(f"no {error} in it")) from None
        check(judgement, len(names), folder)
        return cls.from_judgement(judgement, names, small, folder.threshold)

    @classmethod
    def from_judgement(
        cls,
        judgement: Judgement,
        class_names: tuple[str, ...],
        small: NDArray[np.bool_],
        threshold: float,
    ) -> "Findings":
        """A block of rows at a time, because corrected labels are as large as predictions."""
        rows, classes = judgement.prediction.shape
        suggested = np.empty(rows, np.int64)
        issue = np.empty(rows, bool)
        loss = np.empty(rows, np.float32)
        moved = np.zeros((classes, classes))
        predicted = np.zeros(classes, np.int64)
        for place, part in blocks(judgement):
            suggested[place] = part.suggested
            issue[place] = issues(part, threshold)
            loss[place] = losses(part)
            moved += joint_mass(part)
            predicted += np.bincount(part.prediction.argmax(1), minlength=classes)
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
        )

    def __len__(self) -> int:
        return len(self.given)

    @property
    def classes(self) -> int:
        """K."""
        return len(self.class_names)

    @cached_property
    def suspects(self) -> Integers:
        """Positions of the labels that look wrong, most suspicious first, as in labels.csv."""
        order = np.lexsort((self.score, ~self.issue))
        return order[: int(self.issue.sum())]

    @cached_property
    def sizes(self) -> Integers:
        """(K,) how many labels of each class were given."""
        return np.bincount(self.given, minlength=self.classes)

    @property
    def collapsed(self) -> NDArray[np.bool_]:
        """(K,) classes that the model hardly ever predicts, although enough labels say so."""
        return (self.sizes >= ENOUGH) & (self.predicted < VANISHED * self.sizes)

    @cached_property
    def noise_matrix(self) -> Floats:
        """(K, K) how the examples of each class, by the corrected labels, were labelled."""
        return noise_matrix(self.moved)

    @cached_property
    def wrong_share(self) -> "WrongShare":
        """How many labels may be wrong, counted in three ways."""
        return WrongShare(
            flagged=float(self.issue.mean()),
            expected=float(1 - self.score.mean(dtype=np.float64)),
            moved=float(1 - np.trace(self.moved) / len(self)),
        )


@dataclass(frozen=True)
class WrongShare:
    """The share of wrong labels, counted in three ways that all have a claim.

    flagged: labels that look wrong, each counted whole
    expected: what their probabilities of being wrong add up to
    moved: what the corrected labels take away from the given classes
    """

    flagged: float
    expected: float
    moved: float

    @property
    def low(self) -> float:
        """The most cautious of the three."""
        return min(self.flagged, self.expected, self.moved)

    @property
    def high(self) -> float:
        """The most suspicious of the three."""
        return max(self.flagged, self.expected, self.moved)


def blocks(judgement: Judgement) -> Iterator[tuple[slice, Judgement]]:
    """The judgement in pieces, each with its place."""
    for start in range(0, len(judgement.given), BLOCK):
        place = slice(start, start + BLOCK)
        yield place, Judgement(**{name: each[place] for name, each in judgement.arrays().items()})


def check(judgement: Judgement, classes: int, folder: RunFolder) -> None:
    """Raise unless the arrays fit together and speak of these classes."""
    wrong = misfit(judgement, classes)
    if wrong:
        raise folder.damaged("judgement.npz", ValueError(wrong))


def misfit(judgement: Judgement, classes: int) -> str | None:
    """What is wrong with the arrays, if anything is."""
    arrays: dict[str, NDArray[Any]] = judgement.arrays()
    rows = len(judgement.given) if judgement.given.ndim == 1 else 0
    if rows == 0:
        return "it holds no labels"
    for name, values in arrays.items():
        shape = (rows, classes) if name in ("prediction", "posterior") else (rows,)
        if values.shape != shape:
            return f"{name} has shape {values.shape}, not {shape}"
    if judgement.given.dtype.kind not in "iu":
        return f"given has type {judgement.given.dtype}"
    if judgement.given.min() < 0 or judgement.given.max() >= classes:
        return f"a label is outside 0 to {classes - 1}"
    if not np.isfinite(judgement.clean_probability).all():
        return "clean_probability is not finite"
    return None


def open_run(path: Path) -> RunFolder:
    """The folder of a run or an audit."""
    if (path / "audit.toml").is_file() and not (path / "done").is_file():
        raise InputError(
            f"{path}: the audit is unfinished; go on with `ulc resume {path}`, then make the report"
        )
    return RunFolder.open(path)


def finished(folder: RunFolder) -> None:
    """Raise unless the run ended well."""
    if folder.done:
        return
    epochs = folder.spec.epochs
    trained = len(folder.records) if folder.has("records.jsonl") else 0
    raise InputError(
        f"{folder.path}: the run is unfinished ({trained} of {epochs} epochs); "
        f"go on with `ulc resume {folder.path}`, then make the report"
    )
