"""How labels go wrong: which class is taken for which, and what that says of a single label."""

from collections.abc import Callable
from typing import Self

import numpy as np

from ulc.config import Spec
from ulc.typing import Floats, Integers

RIGHT = 1.0  # labels of each class that count as seen and right, before any is looked at
AT_FIRST = 10.0  # labels of all classes that count as seen and right
ALIKE = 30.0  # labels of each class that count as seen, wrong as often as those of all classes
STEPS = 100
ENOUGH = 1e-4  # a change of the matrix that no longer matters
COLDEST, HOTTEST = 0.25, 4.0
NEAR = 0.02  # temperatures that differ by so small a factor are the same
AGAINST = 1.92  # log-likelihood lost at the end of a 95 % interval for one parameter


class ConfusionModel(Spec):
    """P(given | true) beside a model's P(true | x), fitted together to rows with given labels.

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
        as all labels and `AT_FIRST` right ones are: few rows then claim little.

        A model that has learned how often labels are wrong explains them by being unsure. So the
        temperature is the coldest that the rows do not speak against: of two explanations that
        are as good, the noise of the labels goes before the doubt of the model.
        """
        rows = ByClass(given, probability.shape[1])
        transition = rows.start()

        def unlikely(log_temperature: float) -> float:
            nonlocal transition  # what fits one temperature is near what fits the next
            tempered = cooled(probability, float(np.exp(log_temperature)))
            transition = rows.settled(tempered, transition)
            return -len(given) * log_likelihood(tempered, given, transition)

        found, least = best_temperature(unlikely)
        coldest = against = float(np.log(COLDEST))
        if unlikely(coldest) <= least + AGAINST:
            found = coldest
        while found - against > NEAR:
            middle = (found + against) / 2
            if unlikely(middle) <= least + AGAINST:
                found = middle
            else:
                against = middle
        temperature = float(np.exp(found))
        transition = rows.settled(cooled(probability, temperature), transition)
        return cls(temperature=temperature, transition=tuple(map(tuple, transition.tolist())))

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


class ByClass:
    """Given labels, sorted once, and the transition that EM finds for them."""

    def __init__(self, given: Integers, classes: int) -> None:
        self.given = given
        self.same = np.eye(classes)
        self.order = np.argsort(given, kind="stable")
        self.present, self.first = np.unique(given[self.order], return_index=True)

    def start(self) -> Floats:
        """(K, K) a tenth of the labels wrong, all alike."""
        return 0.9 * self.same + 0.1 * self.others

    @property
    def others(self) -> Floats:
        """(K, K) every other class alike."""
        return (1 - self.same) / (len(self.same) - 1)

    def settled(self, probability: Floats, transition: Floats) -> Floats:
        """(K, K) the transition that EM settles on from this one, for (V, K) probabilities."""
        for _ in range(STEPS):
            joint = joined(probability, self.given, transition)
            counts = self.sums(joint / joint.sum(1, keepdims=True)).T
            wrong = 1 - (np.trace(counts) + AT_FIRST) / (counts.sum() + AT_FIRST)
            counts += ALIKE * ((1 - wrong) * self.same + wrong * self.others) + RIGHT * self.same
            before, transition = transition, counts / counts.sum(1, keepdims=True)
            if np.abs(transition - before).max() < ENOUGH:
                break
        return transition

    def sums(self, values: Floats) -> Floats:
        """(K, K) sum of the (V, K) values of each given class."""
        sums = np.zeros_like(self.same)
        sums[self.present] = np.add.reduceat(values[self.order], self.first)
        return sums


def explained(probability: Floats, given: Integers) -> float:
    """Mean log-probability of (V,) given labels beside (V, K) probabilities and noise.

    The best over the temperature, and over one rate of wrong labels for all classes: enough to
    compare a model with itself, and quick however many classes there are.
    """
    classes = probability.shape[1]

    def unlikely(log_temperature: float) -> float:
        tempered = cooled(probability, float(np.exp(log_temperature)))
        right = tempered[np.arange(len(given)), given]
        wrong = (1 - right) / (classes - 1)
        rate = 0.1
        for _ in range(STEPS):
            share = rate * wrong / np.maximum((1 - rate) * right + rate * wrong, 1e-300)
            before, rate = rate, float(share.mean())
            if abs(rate - before) < ENOUGH:
                break
        return -float(np.log(np.maximum((1 - rate) * right + rate * wrong, 1e-300)).mean())

    _, least = best_temperature(unlikely)
    return -least


def best_temperature(unlikely: Callable[[float], float]) -> tuple[float, float]:
    """The logarithm of the temperature at which labels are least unlikely, and how unlikely."""
    from scipy.optimize import minimize_scalar  # half a second that most trainings do not need

    bounds = float(np.log(COLDEST)), float(np.log(HOTTEST))
    best = minimize_scalar(unlikely, bounds=bounds, method="bounded", options={"xatol": NEAR})
    return float(best.x), float(best.fun)
