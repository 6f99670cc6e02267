"""What learning hands to evaluation and reports: an opinion on every training label."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ulc.typing import Floats, Integers


@dataclass(frozen=True)
class Judgement:
    """An opinion on each training label, in data set order.

    given: (N,) the label as it came
    clean_probability: (N,) probability that it is right (ω in the paper)
    prediction: (N, K) the class probabilities the algorithm would put in its place (ŷ)
    epistemic: (N,) entropy of the prediction, 0 (sure) to 1; NaN where there is none (ε)
    aleatoric: (N,) mean standard deviation of the instance's logit noise; NaN where there is none
    posterior: (N, K) the true classes by a model of the label noise; None: by the paper's Eq. 6
    """

    given: Integers
    clean_probability: Floats
    prediction: Floats
    epistemic: Floats
    aleatoric: Floats
    posterior: Floats | None = None

    @classmethod
    def of(cls, prediction: Floats, given: Integers) -> Self:
        """The opinion a label distribution expresses: a label is believed as far as it says."""
        nothing = np.full(len(given), np.nan, np.float32)
        clean = prediction[np.arange(len(given)), given]
        return cls(given, clean, prediction, nothing, nothing)

    @property
    def corrected(self) -> Floats:
        """(N, K) soft corrected labels, y = ω·given + (1 − ω)·prediction (paper Eq. 6)."""
        if self.posterior is not None:
            return self.posterior
        corrected: Floats = (1 - self.clean_probability)[:, None] * self.prediction
        corrected[np.arange(len(self.given)), self.given] += self.clean_probability
        return corrected

    @property
    def suggested(self) -> Integers:
        """(N,) the class that the corrected label favours."""
        return self.corrected.argmax(1)

    @property
    def class_prior(self) -> Floats:
        """(K,) class frequencies that the corrected labels imply."""
        prior = self.corrected.mean(0)
        return prior / prior.sum()

    def trusted(self, threshold: float) -> NDArray[np.bool_]:
        """(N,) which labels are at least as likely right as `threshold`."""
        return self.clean_probability >= threshold

    def with_verified(self, verified: NDArray[np.bool_]) -> Self:
        """The same opinion, but the labels of the (N,) mask `verified` are right for certain."""
        clean = np.where(verified, 1, self.clean_probability).astype(self.clean_probability.dtype)
        if self.posterior is None:
            return replace(self, clean_probability=clean)
        posterior = self.posterior.copy()
        posterior[verified] = 0
        posterior[verified, self.given[verified]] = 1
        return replace(self, clean_probability=clean, posterior=posterior)

    def under(self, posterior: Floats) -> Self:
        """The same predictions, with what a model of the label noise says: (N, K) true classes."""
        clean = posterior[np.arange(len(self.given)), self.given]
        return replace(self, clean_probability=clean, posterior=posterior)

    def beside(self, other: Self, own: Integers, others: Integers) -> Self:
        """Both as one, in the order of the positions that each has in the whole."""
        order = np.argsort(np.concatenate([own, others]))
        theirs = other.arrays()
        columns = {
            name: np.concatenate([values, theirs[name]])[order]
            for name, values in self.arrays().items()
            if name in theirs
        }
        return type(self)(**columns)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The columns by name, to be stored."""
        columns = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: values for name, values in columns.items() if values is not None}
