"""How labels go wrong: which class is taken for which, and what that says of a single label."""

from typing import Self

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from ulc.config import Spec
from ulc.judgement import Floats, Integers

RIGHT = 1.0  # labels of each class that count as seen and right, before any is looked at
ALIKE = 30.0  # labels of each class that count as seen, wrong as often as those of all classes
STEPS = 100
ENOUGH = 1e-4  # a change of the matrix that no longer matters
COLDEST, HOTTEST = 0.25, 4.0
AGAINST = 1.92  # log-likelihood lost at the end of a 95 % interval for one parameter


class LabelNoise(Spec):
    """P(given | true) beside the model's P(true | x), both fitted to rows it did not learn from.

    A mixture of losses splits the labels of a perfectly clean class in two as well. This asks
    instead which noise explains the given labels best, beside a model that may be unsure: label
    noise is what the model is surprised by more often than its own probabilities allow.

    temperature: of the model's probabilities, p^(1/temperature)
    transition: (K, K) row: true class, column: given class
    """

    temperature: float
    transition: tuple[tuple[float, ...], ...]

    @classmethod
    def fit(cls, probability: Floats, given: Integers) -> Self:
        """Fit to (V,) given labels beside (V, K) probabilities.

        The transition has maximum likelihood for the temperature, by EM. In place of labels nobody
        has seen, each class starts with `RIGHT` right ones and `ALIKE` ones that are wrong as often
        as all labels are: few rows then claim little.

        A model that has learned how often labels are wrong explains them by being unsure. So the
        temperature is the coldest that the rows do not speak against: of two explanations that
        are as good, the noise of the labels goes before the doubt of the model.
        """

        def unlikely(log_temperature: float) -> float:
            tempered = cooled(probability, float(np.exp(log_temperature)))
            transition = expected_transition(tempered, given)
            return -len(given) * log_likelihood(tempered, given, transition)

        coldest, hottest = float(np.log(COLDEST)), float(np.log(HOTTEST))
        best = minimize_scalar(
            unlikely, bounds=(coldest, hottest), method="bounded", options={"xatol": 0.02}
        )
        if unlikely(coldest) <= best.fun + AGAINST:
            found = coldest
        else:
            found = brentq(lambda x: unlikely(x) - best.fun - AGAINST, coldest, best.x, xtol=0.02)
        temperature = float(np.exp(found))
        transition = expected_transition(cooled(probability, temperature), given)
        return cls(temperature=temperature, transition=tuple(map(tuple, transition.tolist())))

    def likelihood(self, probability: Floats, given: Integers) -> float:
        """Mean log-probability of given labels."""
        tempered = cooled(probability, self.temperature)
        return log_likelihood(tempered, given, np.array(self.transition))

    def posterior(self, probability: Floats, given: Integers) -> Floats:
        """(N, K) what the true classes are, by the model's probabilities and the given labels."""
        joint = joined(cooled(probability, self.temperature), given, np.array(self.transition))
        return (joint / joint.sum(1, keepdims=True)).astype(np.float32)

    def rate(self, probability: Floats, given: Integers) -> float:
        """Share of these given labels that is wrong."""
        right = self.posterior(probability, given)[np.arange(len(given)), given]
        return float(1 - right.mean())


def cooled(probability: Floats, temperature: float) -> Floats:
    """(N, K) probabilities to the power of 1/temperature, summing to 1."""
    scaled = np.log(np.maximum(probability, 1e-12, dtype=np.float64)) / temperature
    scaled = np.exp(scaled - scaled.max(1, keepdims=True))
    return scaled / scaled.sum(1, keepdims=True)


def joined(probability: Floats, given: Integers, transition: Floats) -> Floats:
    """(N, K) P(true = k, given label | x)."""
    joint: Floats = probability * transition.T[given]
    return np.maximum(joint, 1e-300)


def log_likelihood(probability: Floats, given: Integers, transition: Floats) -> float:
    """Mean log-probability of the given labels."""
    return float(np.log(joined(probability, given, transition).sum(1)).mean())


def expected_transition(probability: Floats, given: Integers) -> Floats:
    """(K, K) the transition that EM settles on, for probabilities as they are."""
    classes = probability.shape[1]
    same = np.eye(classes)
    transition = 0.9 * same + 0.1 * (1 - same) / (classes - 1)
    for _ in range(STEPS):
        joint = joined(probability, given, transition)
        counts = sums_by(given, joint / joint.sum(1, keepdims=True), classes).T
        wrong = 1 - np.trace(counts) / counts.sum()
        alike = (1 - wrong) * same + wrong * (1 - same) / (classes - 1)
        counts += ALIKE * alike + RIGHT * same
        before, transition = transition, counts / counts.sum(1, keepdims=True)
        if np.abs(transition - before).max() < ENOUGH:
            break
    return transition


def sums_by(group: Integers, values: Floats, groups: int) -> Floats:
    """(G, K) sum of the (N, K) values of each group."""
    sums = np.zeros((groups, values.shape[1]))
    order = np.argsort(group, kind="stable")
    present, first = np.unique(group[order], return_index=True)
    sums[present] = np.add.reduceat(values[order], first)
    return sums
