"""An algorithm's opinion on every training label, as evaluation and reports receive it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from ulc.typing import Floats, Integers

ScoreKind = Literal["posterior", "omega", "algorithm", "mixture"]


@dataclass(frozen=True)
class Judgement:
    """An opinion on each of N training labels, in data set order.

    given: (N,) the label as it came
    clean_probability: (N,) probability that the given label is right
    prediction: (N, K) class probabilities that the algorithm predicts (ŷ)
    epistemic: (N,) entropy of the prediction, 0 (sure) to 1 (ε); NaN where it is not estimated
    aleatoric: (N,) mean standard deviation of the row's logit noise; NaN where it is not estimated
    posterior: (N, K) P(true class | x, given label) under a confusion model; None: there is none
    score_kind: the rule behind clean_probability. "posterior": a confusion model; "omega": ω of the
        ULC paper; "mixture": a mixture of two components on losses; "algorithm": any other rule
        of the algorithm itself
    """

    given: Integers
    clean_probability: Floats
    prediction: Floats
    epistemic: Floats
    aleatoric: Floats
    posterior: Floats | None = None
    score_kind: ScoreKind = "algorithm"

    @classmethod
    def of(cls, prediction: Floats, given: Integers) -> Self:
        """A judgement whose clean probabilities are the predicted ones of the given labels."""
        unknown = np.full(len(given), np.nan, np.float32)
        clean = prediction[np.arange(len(given)), given]
        return cls(given, clean, prediction, unknown, unknown)

    @property
    def corrected(self) -> Floats:
        """(N, K) soft corrected labels: the posterior, or ω·given + (1 − ω)·prediction (Eq. 6)."""
        if self.posterior is not None:
            return self.posterior
        corrected: Floats = (1 - self.clean_probability)[:, None] * self.prediction
        corrected[np.arange(len(self.given)), self.given] += self.clean_probability
        return corrected

    @property
    def suggested(self) -> Integers:
        """(N,) the likeliest class of each corrected label."""
        return self.corrected.argmax(1)

    @property
    def class_prior(self) -> Floats:
        """(K,) class frequencies among the corrected labels."""
        prior = self.corrected.mean(0)
        return prior / prior.sum()

    def class_prior_among(self, rows: Integers) -> Floats:
        """(K,) class frequencies among the corrected labels of some rows.

        The rows are not copied.
        """
        among = np.zeros((len(self.given), 1), bool)
        among[rows] = True
        prior = self.corrected.sum(0, where=among) / len(rows)
        return prior / prior.sum()

    @property
    def loss(self) -> Floats:
        """(N,) cross entropy of the given labels: −log of their predicted probability."""
        loss: Floats = -np.log(
            np.maximum(self.prediction[np.arange(len(self.given)), self.given], 1e-8)
        )
        return loss

    def trusted(self, threshold: float) -> NDArray[np.bool_]:
        """(N,) mask of the labels whose clean probability is at least `threshold`."""
        return self.clean_probability >= threshold

    def issues(self, threshold: float) -> NDArray[np.bool_]:
        """(N,) mask of the labels that are not trusted and for which another class is suggested."""
        return ~self.trusted(threshold) & (self.suggested != self.given)

    def with_verified(self, verified: NDArray[np.bool_]) -> Self:
        """The same judgement, with clean probability 1 for the labels of the (N,) mask."""
        judgement = self.copy()
        judgement.set_clean(verified, 1)
        return judgement

    def without_evidence(self, rows: NDArray[np.bool_], threshold: float) -> Self:
        """The same judgement, in which the labels of the (N,) mask are no issues."""
        judgement = self.copy()
        judgement.believe(rows, threshold)
        return judgement

    def copy(self) -> Self:
        """The same judgement, whose clean probabilities and posterior can be changed."""
        posterior = None if self.posterior is None else self.posterior.copy()
        clean = self.clean_probability.copy()
        return replace(self, clean_probability=clean, posterior=posterior)

    def settled(
        self,
        threshold: float,
        verified: NDArray[np.bool_] | None = None,
        nearly_empty: NDArray[np.bool_] | None = None,
    ) -> Self:
        """The judgement after `settle`, in arrays of its own; this one stays as it is."""
        if verified is None and nearly_empty is None:
            return self
        judgement = self.copy()
        judgement.settle(threshold, verified, nearly_empty)
        return judgement

    def settle(
        self,
        threshold: float,
        verified: NDArray[np.bool_] | None = None,
        nearly_empty: NDArray[np.bool_] | None = None,
    ) -> None:
        """Believe, in place, what needs no model: verified labels, and those of empty rows.

        Call it once: verified labels count in the clean probability of empty rows.

        threshold: lowest clean probability of empty rows
        verified, nearly_empty: (N,) masks of such labels and rows; None: there are none
        """
        if nearly_empty is not None and nearly_empty.any():
            self.believe(nearly_empty, threshold)
        if verified is not None:
            self.set_clean(verified, 1)

    def believe(self, rows: NDArray[np.bool_], threshold: float) -> None:
        """Let the labels of the (N,) mask be no issues, in place.

        Nothing is known about these rows, so each label gets the mean clean probability of the
        other rows, at least `threshold`.
        """
        others = self.clean_probability[~rows]
        self.set_clean(rows, max(float(others.mean()) if len(others) else 1.0, threshold))

    def set_clean(self, rows: NDArray[np.bool_], clean: float) -> None:
        """Set the clean probability of the labels of the (N,) mask, in place.

        In the posterior, the rest is spread evenly over the other classes.
        """
        self.clean_probability[rows] = clean
        if self.posterior is not None:
            self.posterior[rows] = (1 - clean) / max(self.posterior.shape[1] - 1, 1)
            self.posterior[rows, self.given[rows]] = clean

    def with_posterior(self, posterior: Floats) -> Self:
        """The same judgement, with labels scored by the (N, K) posterior of a confusion model."""
        clean = posterior[np.arange(len(self.given)), self.given]
        return replace(self, clean_probability=clean, posterior=posterior, score_kind="posterior")

    def combined_with(self, other: Self, own: Integers, others: Integers) -> Self:
        """One judgement of the rows of both.

        own, others: positions in the result of the rows of this and of the other judgement
        """
        theirs, columns = other.arrays(), {}
        for name, values in self.arrays().items():
            if name in theirs:
                dtype = np.result_type(values, theirs[name])
                columns[name] = np.empty((len(own) + len(others), *values.shape[1:]), dtype)
                columns[name][own], columns[name][others] = values, theirs[name]
        return type(self)(**columns, score_kind=self.score_kind)

    def select(self, rows: slice | Integers) -> Self:
        """The judgement of these rows."""
        columns: dict[str, Any] = {name: each[rows] for name, each in self.arrays().items()}
        return replace(self, **columns)

    def check_shapes(self, rows: int, classes: int) -> None:
        """Raise a ValueError unless the arrays fit together, to N `rows` and to K `classes`."""
        for name, values in self.arrays().items():
            shape = (rows, classes) if name in ("prediction", "posterior") else (rows,)
            if values.shape != shape:
                raise ValueError(f"{name} has shape {values.shape}, not {shape}")
            if values.dtype.kind not in ("iu" if name == "given" else "f"):
                raise ValueError(f"{name} has type {values.dtype}")
        if self.given.min() < 0 or self.given.max() >= classes:
            raise ValueError(f"a label is outside 0 to {classes - 1}")
        ends = [(each.min(), each.max()) for each in (self.clean_probability, self.prediction)]
        if not np.isfinite(ends).all():
            raise ValueError("a probability is not finite")
        if (self.score_kind == "posterior") != (self.posterior is not None):
            raise ValueError(f"score_kind is {self.score_kind}, which does not fit its arrays")

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, each with N rows."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}

    def stored(self) -> dict[str, NDArray[Any]]:
        """The content of judgement.npz; `from_stored` reads it."""
        return self.arrays() | {"score_kind": np.array(self.score_kind)}

    @classmethod
    def from_stored(cls, content: Mapping[str, NDArray[Any]]) -> Self:
        """The judgement from the content of judgement.npz.

        It raises a ValueError or TypeError if the content is not that of a judgement.
        """
        kind: Any = str(content.get("score_kind"))
        if kind not in get_args(ScoreKind):
            raise ValueError(f"score_kind is {kind}")
        return cls(**{**content, "score_kind": kind})
