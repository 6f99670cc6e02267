"""Confusion model of label noise: P(given | true), fitted by EM to a model's predictions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from pydantic import Field, model_validator

from ulc.config import Spec
from ulc.typing import Floats, Integers

# Dirichlet pseudo-counts of the transition matrix.
PSEUDO_COUNT_CORRECT = 1.0  # labels for each class, all correct
PSEUDO_COUNT_POOLED = 30.0  # labels for each class, wrong at the pooled error rate
PSEUDO_COUNT_CORRECT_POOLED = 10.0  # labels in the pooled error rate itself, all correct
NUMBERS_AT_ONCE = 2**20  # of an (N, K) array; some ten arrays of as many 64-bit numbers are needed
MAX_EM_STEPS = 100
EM_TOLERANCE = 1e-4
LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.25, 4.0
LOG_TEMPERATURE_TOLERANCE = 0.02
HALF_CHI_SQUARE_95 = 1.92  # fall of the log-likelihood at the end of a 95 % interval


@dataclass(frozen=True)
class RowNoise:
    """Parameters of noise that depends on the row; `ConfusionModel` has the formulas.

    log_odds: (K,) of a wrong label at mean difficulty, by true class
    pairs: (K, K) D, which class a wrong label names; rows sum to 1, the diagonal is 0
    slope: b; affinity: γ
    """

    log_odds: Floats
    pairs: Floats
    slope: float
    affinity: float


@dataclass(frozen=True)
class RowTerms:
    """What the label noise of N rows depends on, from their expected classes e = P(true | x).

    difficulty: (N,) entropy of e as a share of log K, minus `mean_difficulty`
    mean_difficulty: the mean of that entropy over the rows that the model was fitted to
    error: (N, K) ρ, probability that the label is wrong if k is the true class
    pairs: (K, K) D of `RowNoise`
    logs: (N, K) log e, not below log 1e-4; preference: (N, K) e^γ; total: (N, K) Σ_m D[k, m]·e(m)^γ
    """

    difficulty: Floats
    mean_difficulty: float
    error: Floats
    pairs: Floats
    logs: Floats
    preference: Floats
    total: Floats

    @classmethod
    def of(cls, expected: Floats, noise: RowNoise, mean_difficulty: float | None = None) -> Self:
        """Compute the terms; `mean_difficulty` None: that of these rows."""
        entropy = -(expected * np.log(np.maximum(expected, 1e-30))).sum(1)
        entropy = entropy / np.log(max(expected.shape[1], 2))
        mean = float(entropy.mean()) if mean_difficulty is None else mean_difficulty
        difficulty = entropy - mean
        error = 1 / (1 + np.exp(-(noise.log_odds + noise.slope * difficulty[:, None])))
        logs = np.log(np.maximum(expected, 1e-4))
        preference = np.exp(noise.affinity * logs)
        total = np.maximum(preference @ noise.pairs.T, 1e-30)
        return cls(difficulty, mean, error, noise.pairs, logs, preference, total)

    def likelihood(self, given: Integers) -> Floats:
        """(N, K) P(given_i | true = k, x_i)."""
        rows = np.arange(len(given))
        own = self.preference[rows, given][:, None]
        likelihood = self.error * self.pairs.T[given] * own / self.total
        likelihood[rows, given] = 1 - self.error[rows, given]
        return likelihood


class ConfusionModel(Spec):
    """P(given | true) combined with a model's tempered P(true | x).

        q_i(k) ∝ a_k · p_i(k)^(1/T)        P(given_i | x_i) = Σ_k q_i(k) · C_i[k, given_i]

    A mixture of two components on losses always finds a second group, in a clean class too. This
    model finds noise only where labels contradict the predictions more often than the predicted
    probabilities explain.

    `fit` has one confusion matrix for all rows, C_i = C, and a = 1. `AnchoredConfusion` in
    blocks/label_posterior.py also fits noise that depends on the row, by its difficulty h_i
    (entropy of q_i, as a share of log K):

        j = k:  C_i[k, k] = 1 − ρ_i(k)           logit ρ_i(k) = logit(1 − C[k, k]) + b · (h_i − h)
        j ≠ k:  C_i[k, j] = ρ_i(k) · C[k, j] · q_i(j)^γ / Σ_{m≠k} C[k, m] · q_i(m)^γ

    temperature: T
    transition: C, (K, K); row: true class, column: given class; factor: (K,) a; None: 1
    slope: b; affinity: γ; difficulty: h, the mean difficulty when the fit began
    """

    temperature: float = Field(gt=0)
    transition: tuple[tuple[float, ...], ...]
    factor: tuple[float, ...] | None = None
    slope: float = 0.0
    affinity: float = 0.0
    difficulty: float = 0.0

    @model_validator(mode="after")
    def _all_have_the_same_classes(self) -> Self:
        factor = self.transition if self.factor is None else self.factor
        if {len(self.transition), len(factor), *map(len, self.transition)} != {len(factor)}:
            raise ValueError("transition and factor have different numbers of classes")
        return self

    @classmethod
    def fit(cls, probability: Floats, given: Integers) -> Self:
        """Fit to (V,) given labels and (V, K) probabilities of rows that were not learned from.

        With L(T) the log-likelihood at the transition that EM finds for T (profile likelihood),
        the temperature is the lowest with L(T) ≥ max L − 1.92: the lower end of the 95 %
        likelihood interval. A low temperature explains surprising labels by noise, a high one by
        an unsure model; a model that has learned the noise is unsure for that reason.
        """
        em = TransitionEM(given, probability.shape[1])
        transition = em.initial_transition()

        def negative_log_likelihood(log_temperature: float) -> float:
            nonlocal transition  # warm start: neighbouring temperatures have similar transitions
            tempered = with_temperature(probability, float(np.exp(log_temperature)))
            transition = em.fit_transition(tempered, transition)
            return -len(given) * mean_log_likelihood(tempered, given, transition)

        temperature = lowest_likely_temperature(negative_log_likelihood)
        transition = em.fit_transition(with_temperature(probability, temperature), transition)
        return cls(temperature=temperature, transition=tuple(map(tuple, transition.tolist())))

    def expected(self, probability: Floats) -> Floats:
        """(N, K) q, P(true | x) without regard to the given label."""
        expected = with_temperature(probability, self.temperature)
        if self.factor is None:
            return expected
        expected = expected * np.array(self.factor)
        expected /= np.maximum(expected.sum(1, keepdims=True), 1e-300)
        return expected

    def likelihood(self, expected: Floats, given: Integers) -> Floats:
        """(N, K) P(given_i | true = k, x_i), for (N, K) expected classes."""
        transition = np.array(self.transition)
        if self.slope == 0 and self.affinity == 0:
            return np.asarray(transition.T[given])
        correct = np.clip(np.diag(transition), 1e-12, 1 - 1e-12)
        wrong = transition - np.diag(np.diag(transition))
        pairs = wrong / np.maximum(wrong.sum(1, keepdims=True), 1e-300)
        log_odds = np.log((1 - correct) / correct)
        noise = RowNoise(log_odds, pairs, self.slope, self.affinity)
        return RowTerms.of(expected, noise, self.difficulty).likelihood(given)

    def posterior(self, probability: Floats, given: Integers) -> Floats:
        """(N, K) P(true | x, given) by Bayes' rule: q_i(k) · C_i[k, given_i], normalised."""
        posterior = np.empty(probability.shape, np.float32)
        for piece in pieces(*probability.shape):
            expected = self.expected(probability[piece])
            joint = np.maximum(expected * self.likelihood(expected, given[piece]), 1e-300)
            posterior[piece] = joint / joint.sum(1, keepdims=True)
        return posterior

    def log_likelihood(self, probability: Floats, given: Integers) -> Floats:
        """(N,) log P(given_i | x_i)."""
        logs = np.empty(len(given))
        for piece in pieces(*probability.shape):
            expected = self.expected(probability[piece])
            joint = expected * self.likelihood(expected, given[piece])
            logs[piece] = np.log(np.maximum(joint.sum(1), 1e-300))
        return logs

    def noise_rate(self, probability: Floats, given: Integers) -> float:
        """Expected share of these given labels that is wrong."""
        return float(1 - self.posterior(probability, given)[np.arange(len(given)), given].mean())


def pieces(rows: int, classes: int) -> Iterator[slice]:
    """Slices of the rows of an (N, K) array, each with at most `NUMBERS_AT_ONCE` numbers."""
    size = max(1, NUMBERS_AT_ONCE // classes)
    for start in range(0, rows, size):
        yield slice(start, start + size)


def with_temperature(probability: Floats, temperature: float) -> Floats:
    """(N, K) probabilities to the power of 1/temperature, normalised."""
    scaled = np.log(np.maximum(probability, 1e-12, dtype=np.float64)) / temperature
    scaled = np.exp(scaled - scaled.max(1, keepdims=True))
    return scaled / scaled.sum(1, keepdims=True)


def joint_probability(probability: Floats, given: Integers, transition: Floats) -> Floats:
    """(N, K) P(true = k, given label | x)."""
    return np.maximum(probability * transition.T[given], 1e-300)


def mean_log_likelihood(probability: Floats, given: Integers, transition: Floats) -> float:
    """Mean log-likelihood of the (N,) given labels."""
    return float(np.log(joint_probability(probability, given, transition).sum(1)).mean())


class TransitionEM:
    """EM for the transition matrix, with Dirichlet pseudo-counts.

    E step: r_i(k) ∝ q_i(k) · C[k, given_i]. M step: n[k, j] = Σ r_i(k) over rows given as j,
    e = 1 − (trace n + 10) / (Σ n + 10), and
    C[k, ·] ∝ n[k, ·] + 30 · ((1 − e) on k, e / (K − 1) elsewhere) + (1 on k).
    """

    def __init__(self, given: Integers, classes: int) -> None:
        self.given = given
        self.correct = np.eye(classes)
        self.wrong = (1 - self.correct) / (classes - 1)  # the same for every other class
        # Rows are sorted by label once, so that each M step sums blocks.
        self.order = np.argsort(given, kind="stable")
        self.present, self.first = np.unique(given[self.order], return_index=True)

    def initial_transition(self) -> Floats:
        """(K, K) symmetric noise of 10 %."""
        return 0.9 * self.correct + 0.1 * self.wrong

    def fit_transition(self, probability: Floats, transition: Floats) -> Floats:
        """(K, K) the transition that EM reaches from `transition`, for (V, K) probabilities."""
        for _ in range(MAX_EM_STEPS):
            joint = joint_probability(probability, self.given, transition)
            counts = self.sum_by_given(joint / joint.sum(1, keepdims=True)).T
            error = 1 - (np.trace(counts) + PSEUDO_COUNT_CORRECT_POOLED) / (
                counts.sum() + PSEUDO_COUNT_CORRECT_POOLED
            )
            pooled = (1 - error) * self.correct + error * self.wrong
            counts += PSEUDO_COUNT_POOLED * pooled + PSEUDO_COUNT_CORRECT * self.correct
            before, transition = transition, counts / counts.sum(1, keepdims=True)
            if np.abs(transition - before).max() < EM_TOLERANCE:
                break
        return transition

    def sum_by_given(self, values: Floats) -> Floats:
        """(K, K) sums of (V, K) values over the rows of each given class (row of the result)."""
        sums = np.zeros_like(self.correct)
        sums[self.present] = np.add.reduceat(values[self.order], self.first)
        return sums


def lowest_likely_temperature(negative_log_likelihood: Callable[[float], float]) -> float:
    """The lower end of the temperature's 95 % likelihood interval, by bisection.

    negative_log_likelihood: of all rows, as a function of the logarithm of the temperature
    """
    likely, minimum = minimise_over_temperature(negative_log_likelihood)
    lowest = unlikely = float(np.log(LOWEST_TEMPERATURE))
    if negative_log_likelihood(lowest) <= minimum + HALF_CHI_SQUARE_95:
        likely = lowest
    while likely - unlikely > LOG_TEMPERATURE_TOLERANCE:
        middle = (likely + unlikely) / 2
        if negative_log_likelihood(middle) <= minimum + HALF_CHI_SQUARE_95:
            likely = middle
        else:
            unlikely = middle
    return float(np.exp(likely))


def symmetric_noise_log_likelihood(probability: Floats, given: Integers) -> float:
    """Mean log-likelihood of (V,) given labels, with one noise rate for all classes.

    It is the maximum over temperature and noise rate. It serves to compare epochs of a training,
    and is fast for any number of classes.
    """
    classes = probability.shape[1]

    def negative_log_likelihood(log_temperature: float) -> float:
        tempered = with_temperature(probability, float(np.exp(log_temperature)))
        correct = tempered[np.arange(len(given)), given]
        wrong = (1 - correct) / (classes - 1)
        rate = 0.1
        for _ in range(MAX_EM_STEPS):
            share = rate * wrong / np.maximum((1 - rate) * correct + rate * wrong, 1e-300)
            before, rate = rate, float(share.mean())
            if abs(rate - before) < EM_TOLERANCE:
                break
        return -float(np.log(np.maximum((1 - rate) * correct + rate * wrong, 1e-300)).mean())

    _, minimum = minimise_over_temperature(negative_log_likelihood)
    return -minimum


def minimise_over_temperature(function: Callable[[float], float]) -> tuple[float, float]:
    """Minimise a function of the logarithm of the temperature.

    Return that logarithm, and the value of the function there.
    """
    from scipy.optimize import minimize_scalar  # slow to import, and not always needed

    bounds = float(np.log(LOWEST_TEMPERATURE)), float(np.log(HIGHEST_TEMPERATURE))
    options = {"xatol": LOG_TEMPERATURE_TOLERANCE}
    best = minimize_scalar(function, bounds=bounds, method="bounded", options=options)
    return float(best.x), float(best.fun)
