"""Label noise that depends on the row, fitted by EM to cross-fitted predictions.

Labels by people are wrong more often where a row is difficult, and then name a class that the row
resembles. A confusion matrix alone explains such labels by unsure predictions, and finds too few
errors.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ulc.labels.confusion import (
    PSEUDO_COUNT_CORRECT,
    PSEUDO_COUNT_CORRECT_POOLED,
    ConfusionModel,
    RowNoise,
    RowTerms,
)
from ulc.typing import Floats, Integers

STEPS = 60  # EM ends after so many steps: later ones drift along directions that hardly matter
TOLERANCE = 1e-3
# Labels for each class, wrong at the pooled error rate.
PSEUDO_COUNT_POOLED = 100.0
FEWEST_ROWS = 10_000  # precisions of priors, which are for each row, are at least for so many
LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.25, 4.0
# Prior of the temperature: log T is normal around log 0.6, the median of what development data had.
# It counts where there are few rows, whose labels hardly tell noise from unsure predictions.
TYPICAL_TEMPERATURE, TEMPERATURE_SPREAD = 0.6, 0.3
LOWEST_LOG = -20.0
SMALLEST_FACTOR, LARGEST_FACTOR = 1e-3, 1e3
RICHARDSON_LUCY_STEPS = 50


@dataclass(frozen=True)
class Priors:
    """What is believed of the noise before any label is seen.

    Predictions are a little wrong about difficult rows, too: without priors, clean data would seem
    to have noise there.

    slope, affinity: precision of the Gaussian priors around 0, for each row
    low_temperature: T falls below it only as far as that raises the mean log-likelihood of the
        labels by `reluctance` for each unit of −log T
    """

    slope: float
    affinity: float
    low_temperature: float = LOWEST_TEMPERATURE
    reluctance: float = 0.0


ONE_JUDGE = Priors(slope=1e-3, affinity=0.1)
# Pooled predictions of two judges (labels/second_judge.py) are better, so less of the difficulty is
# theirs. A lower temperature would explain more of it by wrong labels.
TWO_JUDGES = Priors(slope=3e-5, affinity=0.04, low_temperature=0.6, reluctance=0.02)
ENOUGH_ROWS = 3_000  # of fewer rows, even two judges have the priors of one


class RowNoiseEM:
    """EM for `ConfusionModel` with all its parameters.

    Each step makes one update of every parameter:

    C[k, k]: a Newton step of its log-odds; C[k, j]: a step of iterative scaling; with pseudo-counts
    slope b, affinity γ, power 1/T: a Newton step each
    factors a: half a step (on the log scale) towards the class frequencies π that the given labels
        imply, πC = shares of the given labels

    probability: (N, K) predictions for rows by models that have not learned their labels
    given: (N,) labels; certain: (N,) mask of labels that are surely right, or None
    """

    def __init__(
        self,
        probability: Floats,
        given: Integers,
        certain: NDArray[np.bool_] | None = None,
        priors: Priors = ONE_JUDGE,
    ) -> None:
        self.priors = priors
        self.classes = probability.shape[1]
        floats = np.maximum(probability, 1e-30, dtype=np.float64)
        self.logs = np.maximum(np.log(floats), LOWEST_LOG)
        self.given, self.certain = given, certain
        self.one_hot = np.eye(self.classes)[given]
        self.shares = self.one_hot.mean(0)
        self.correct = np.eye(self.classes)
        self.evenly = (1 - self.correct) / (self.classes - 1)
        self.log_odds = np.full(self.classes, np.log(0.1 / 0.9))
        self.pairs = self.evenly
        self.slope = self.affinity = 0.0
        self.power = 1.0
        self.factor = np.ones(self.classes)

    def fit(self) -> ConfusionModel:
        """The model after EM."""
        for _ in range(STEPS):
            expected = self.expected()
            terms = RowTerms.of(expected, self.noise)
            posterior = self.posterior(expected, terms)
            before = self.slope, self.affinity, self.factor
            wrong = posterior * (1 - self.one_hot)
            counts = posterior.T @ self.one_hot
            pooled = 1 - (np.trace(counts) + PSEUDO_COUNT_CORRECT_POOLED) / (
                counts.sum() + PSEUDO_COUNT_CORRECT_POOLED
            )
            self.update_affinity(terms, wrong)
            self.update_pairs(terms, wrong, counts, pooled)
            self.update_error(terms, posterior, wrong, pooled)
            self.update_temperature(expected, posterior)
            self.update_factor(counts, posterior, pooled)
            if self.moved(*before) < TOLERANCE:
                break
        return self.model()

    @property
    def noise(self) -> RowNoise:
        """The parameters of the noise, as they are now."""
        return RowNoise(self.log_odds, self.pairs, self.slope, self.affinity)

    def expected(self) -> Floats:
        """(N, K) P(true | x): tempered predictions with the factors."""
        scaled = self.power * self.logs + np.log(self.factor)
        scaled = np.exp(scaled - scaled.max(1, keepdims=True))
        expected: Floats = scaled / scaled.sum(1, keepdims=True)
        return expected

    def posterior(self, expected: Floats, terms: RowTerms) -> Floats:
        """(N, K) P(true | x, given)."""
        joint = np.maximum(expected * terms.likelihood(self.given), 1e-300)
        posterior: Floats = joint / joint.sum(1, keepdims=True)
        if self.certain is not None:
            posterior[self.certain] = self.one_hot[self.certain]
        return posterior

    def update_affinity(self, terms: RowTerms, wrong: Floats) -> None:
        """Newton step of γ on the expected log-likelihood of the wrong labels."""
        logs = terms.logs
        mean = (terms.preference * logs) @ self.pairs.T / terms.total
        square = (terms.preference * logs**2) @ self.pairs.T / terms.total
        own = logs[np.arange(len(logs)), self.given][:, None]
        precision = self.priors.affinity * max(len(logs), FEWEST_ROWS)
        rise = (wrong * (own - mean)).sum() - precision * self.affinity
        step = rise / ((wrong * (square - mean**2)).sum() + precision)
        self.affinity = float(np.clip(self.affinity + np.clip(step, -0.2, 0.2), -1, 2))

    def update_pairs(self, terms: RowTerms, wrong: Floats, counts: Floats, pooled: float) -> None:
        """A step of iterative scaling for D, which class a wrong label names.

        counts: (K, K) expected labels by true and given class; pooled: error rate of all classes
        """
        chances = (wrong / terms.total).T @ terms.preference
        pseudo = PSEUDO_COUNT_POOLED * pooled
        pairs = (1 - self.correct) * (counts + pseudo * self.evenly) / (chances + pseudo + 1e-30)
        self.pairs = pairs / np.maximum(pairs.sum(1, keepdims=True), 1e-30)

    def update_error(
        self, terms: RowTerms, posterior: Floats, wrong: Floats, pooled: float
    ) -> None:
        """Newton steps of the logistic regression of "the label is wrong" on the difficulty."""
        information = posterior * terms.error * (1 - terms.error)
        excess = wrong - posterior * terms.error
        chance = 1 / (1 + np.exp(-self.log_odds))
        pseudo = PSEUDO_COUNT_POOLED + PSEUDO_COUNT_CORRECT
        rise = excess.sum(0) + PSEUDO_COUNT_POOLED * pooled - pseudo * chance
        curvature = information.sum(0) + pseudo * chance * (1 - chance)
        self.log_odds = self.log_odds + np.clip(rise / np.maximum(curvature, 1e-9), -1, 1)
        precision = self.priors.slope * max(len(posterior), FEWEST_ROWS)
        slope_rise = (excess.sum(1) * terms.difficulty).sum() - precision * self.slope
        curvature = (information.sum(1) * terms.difficulty**2).sum() + precision
        self.slope += float(np.clip(slope_rise / curvature, -1, 1))

    def update_temperature(self, expected: Floats, posterior: Floats) -> None:
        """Newton step of the power 1/T on the likelihood of given labels, by at most a fifth."""
        after, before = (posterior * self.logs).sum(1), (expected * self.logs).sum(1)
        squares = self.logs**2
        spread = (expected * squares).sum(1) - before**2 - (posterior * squares).sum(1) + after**2
        precision = 1 / (TEMPERATURE_SPREAD**2 * len(self.logs))
        curvature = max(abs(spread.mean()), 1e-6) + precision / self.power**2
        pull = precision * np.log(self.power * TYPICAL_TEMPERATURE) / self.power
        rise = (after - before).mean() - pull
        most, free = self.power / 5, 1 / self.priors.low_temperature
        power = self.power + np.clip(rise / curvature, -most, most)
        if power > free:
            rise = rise - self.priors.reluctance / self.power
            power = max(free, self.power + np.clip(rise / curvature, -most, most))
        self.power = float(np.clip(power, 1 / HIGHEST_TEMPERATURE, 1 / LOWEST_TEMPERATURE))

    def update_factor(self, counts: Floats, posterior: Floats, pooled: float) -> None:
        """Move the class frequencies of the posterior to those that the given labels imply."""
        pooled_matrix = (1 - pooled) * self.correct + pooled * self.evenly
        counts = counts + PSEUDO_COUNT_POOLED * pooled_matrix + PSEUDO_COUNT_CORRECT * self.correct
        frequency = deconvolve(self.shares, counts / counts.sum(1, keepdims=True))
        frequency = np.maximum(frequency, (self.shares > 0) / len(posterior))
        factor = self.factor * np.sqrt(frequency / np.maximum(posterior.mean(0), 1e-9))
        self.factor = np.clip(factor / factor.mean(), SMALLEST_FACTOR, LARGEST_FACTOR)

    def moved(self, slope: float, affinity: float, factor: Floats) -> float:
        """Largest change of slope, affinity and log-factors."""
        return max(
            abs(self.slope - slope),
            abs(self.affinity - affinity),
            float(np.abs(np.log(self.factor / factor)).max()),
        )

    def model(self) -> ConfusionModel:
        """The parameters as they are now."""
        error = 1 / (1 + np.exp(-self.log_odds))
        transition = error[:, None] * self.pairs + np.diag(1 - error)
        difficulty = RowTerms.of(self.expected(), self.noise).mean_difficulty
        return ConfusionModel(
            temperature=1 / self.power,
            transition=tuple(map(tuple, transition.tolist())),
            factor=tuple(self.factor.tolist()),
            slope=self.slope,
            affinity=self.affinity,
            difficulty=difficulty,
        )


def deconvolve(shares: Floats, transition: Floats) -> Floats:
    """(K,) class frequencies π whose given labels would have these shares: πC ≈ shares.

    Richardson–Lucy steps (multiplicative updates) keep π positive. Few steps are made, because many
    would amplify the noise in the shares.
    """
    frequency = np.maximum(shares, 1e-9)
    for _ in range(RICHARDSON_LUCY_STEPS):
        ratio = shares / np.maximum(frequency @ transition, 1e-12)
        frequency = frequency * (transition @ ratio)
        frequency = frequency / frequency.sum()
    return frequency
