"""Posterior of true labels: a confusion model with noise that depends on the row, fitted by EM.

Labels by people are wrong more often where a row is difficult, and then name a class that the row
resembles. A confusion matrix alone explains such labels by unsure predictions, and trusts too many.
"""

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ulc.blocks.noise_priors import TEMPERATURES, Priors
from ulc.blocks.row_noise import AffinityTerms, Examples, ExpectedSums, RowTerms, share_of_log_k
from ulc.labels.confusion import ConfusionModel
from ulc.networks.processes import from_first

AFFINITIES = (-1.0, 2.0)
FACTORS = (1e-3, 1e3)  # smallest and largest correction of a class's frequency
LOWEST_LOG_EXPECTED = math.log(1e-4)  # e^γ is computed from this on, as in `ConfusionModel`
# Steps of the first update and of each later one, which starts from the last. More steps drift
# along directions that hardly matter to the likelihood, and reject right labels.
MAX_STEPS, LATER_STEPS = 60, 10
TOLERANCE = 1e-3  # EM ends if no parameter (entries of C, b, γ, log a) changes by more
RICHARDSON_LUCY_STEPS = 50
# Dirichlet pseudo-counts of C: as many labels for each class, wrong at the pooled error rate; and
# correct labels, for each class and in the pooled error rate itself. Fewer pooled labels make the
# model reject the right labels of small classes that look like others.
PSEUDO_COUNT_POOLED = 100.0
PSEUDO_COUNT_CORRECT = 1.0
PSEUDO_COUNT_CORRECT_POOLED = 10.0
SMALLEST_ERROR = 1e-9  # of the pooled error rate: with 0, D would have no wrong labels to spread
FEWEST_ROWS = 10_000  # precisions of priors, which are for each row, are at least for so many
# Prior of the temperature: log T is normal around log 0.6, the median of what development data had.
# It counts where there are few rows, whose labels hardly tell noise from unsure predictions.
TYPICAL_TEMPERATURE, TEMPERATURE_SPREAD = 0.6, 0.3


class AnchoredConfusion(nn.Module):
    """Confusion model of label noise; its posterior has the class frequencies that labels imply.

        e_i(k) ∝ a_k · q_i(k)^β                      expected class
        y_i(k) ∝ e_i(k) · C_i[k, given_i]            posterior

        j = k:  C_i[k, k] = 1 − ρ_i(k)               logit ρ_i(k) = o_k + b · (h_i − h)
        j ≠ k:  C_i[k, j] = ρ_i(k) · D[k, j] · e_i(j)^γ / Σ_m D[k, m] · e_i(m)^γ

    q_i: prediction for example i by a network that has not learned its label
    h_i: difficulty, the entropy of e_i as a share of log K; h: its mean when `update` began
    D: which class a wrong label names; rows sum to 1, the diagonal is 0

    Each step of `update` makes one update of every parameter, given the others:
    o, slope b, affinity γ: Newton steps on the expected likelihood of the labels
    inverse temperature β: a Newton step on their likelihood, with C_i held fixed
    D: a step of iterative scaling
    π: class frequencies with πC = frequencies of the given labels, by Richardson–Lucy
    a: a_k ← a_k · (π_k / mean_i y_i(k))^½, so that the posterior has the frequencies π

    Without the factors a (`anchored=False`) a small class dies out: predictions favour large
    classes, the posterior follows them, and the next predictions follow the posterior. If the
    priors leave b and γ at 0, C is one matrix for all rows.

    updates: how often the model was fitted; dtype: of all numbers, None: the default of torch
    """

    log_odds: Tensor
    pairs: Tensor
    slope: Tensor
    affinity: Tensor
    difficulty: Tensor
    inverse_temperature: Tensor
    factor: Tensor
    frequency: Tensor
    updates: Tensor

    def __init__(
        self,
        classes: int,
        device: torch.device,
        *,
        anchored: bool = True,
        priors: Priors | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.anchored = anchored
        self.priors = priors or Priors()
        correct = torch.eye(classes, device=device, dtype=dtype)
        self.register_buffer("log_odds", torch.full_like(correct[0], 0.1 / 0.9).log())
        self.register_buffer("pairs", spread_evenly(correct))
        for name in ("slope", "affinity", "difficulty"):
            self.register_buffer(name, torch.zeros_like(correct[0, 0]))
        self.register_buffer("inverse_temperature", torch.ones_like(correct[0, 0]))
        self.register_buffer("factor", torch.ones_like(correct[0]))
        self.register_buffer("frequency", torch.full_like(correct[0], 1 / classes))
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64, device=device))

    @property
    def transition(self) -> Tensor:
        """(K, K) C, P(given | true) at the difficulty h."""
        error = self.log_odds.sigmoid()
        return error[:, None] * self.pairs + (1 - error).diag()

    @torch.no_grad()
    def update(self, log_prediction: Tensor, given: Tensor, verified: Tensor | None) -> Tensor:
        """Fit the model, starting from the last fit; return (N,) posteriors of the given labels.

        log_prediction: (N, K) log q; verified: (N,) mask of labels that are surely right, or None
        """
        examples = Examples(log_prediction, given, verified)
        shares = torch.bincount(given, minlength=len(self.factor)).to(self.factor) / len(given)
        self.centre_difficulty(examples)
        for _ in range(LATER_STEPS if self.updates else MAX_STEPS):
            before = self.parameters_now()
            sums = self.expect(examples)
            right, total = sums.counts.trace(), sums.counts.sum()
            correct = (right + PSEUDO_COUNT_CORRECT_POOLED) / (total + PSEUDO_COUNT_CORRECT_POOLED)
            pooled = (1 - correct).clamp(min=SMALLEST_ERROR)
            self.update_affinity(sums, len(given))
            self.update_pairs(sums, pooled)
            self.update_error(sums, pooled, len(given))
            self.update_temperature(sums, len(given))
            if self.anchored:
                self.update_frequencies(shares, sums.counts, pooled)
            if float((self.parameters_now() - before).abs().max()) < TOLERANCE:
                break
        self.updates.add_(1)
        from_first(self)
        trust = [found.gather(1, labels[:, None]) for found, labels in self.posteriors(examples)]
        return torch.cat(trust).squeeze(1)

    @torch.no_grad()
    def posterior_of(self, logs: Tensor, given: Tensor, verified: Tensor | None) -> Tensor:
        """(N, K) posterior by the last fit; logs: (N, K) log q; the others as for `update`."""
        posterior, place = torch.empty_like(logs), 0
        for found, labels in self.posteriors(Examples(logs, given, verified)):
            posterior[place : place + len(labels)] = found
            place += len(labels)
        return posterior

    def posteriors(self, examples: Examples) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the (B, K) posterior of each piece of the examples, and its given labels."""
        for logs, given, verified in examples.pieces():
            yield self.posterior(self.row_terms(logs), given, verified), given

    def parameters_now(self) -> Tensor:
        """Entries of C, log a, b and γ in one vector."""
        single = torch.stack([self.slope, self.affinity])
        return torch.cat([self.transition.flatten(), self.factor.log(), single])

    def centre_difficulty(self, examples: Examples) -> None:
        """Set h to the mean difficulty; o moves along, so that the model stays the same."""
        total = sum(
            share_of_log_k(self.expected_class(logs)).sum() for logs, *_ in examples.pieces()
        )
        mean = torch.as_tensor(total) / len(examples.given)
        self.log_odds.add_(self.slope * (mean - self.difficulty))
        self.difficulty.copy_(mean)

    def expect(self, examples: Examples) -> ExpectedSums:
        """Expectation step of EM: what the other steps need of the posterior.

        All operations on one piece of the examples follow each other, while it is in a cache.
        """
        sums = ExpectedSums.zeros(self.pairs)
        for logs, given, verified in examples.pieces():
            rows = self.row_terms(logs)
            sums.add(rows, given, self.posterior(rows, given, verified), self.pairs)
        return sums

    def expected_class(self, logs: Tensor) -> Tensor:
        """(B, K) P(true = k | x) ∝ a_k · q(k)^β, without regard to the given label."""
        return (self.inverse_temperature * logs + self.factor.log()).softmax(1)

    def row_terms(self, logs: Tensor) -> RowTerms:
        """What the label noise of B rows depends on, from (B, K) log q."""
        expected = self.expected_class(logs)
        difficulty = share_of_log_k(expected) - self.difficulty
        error = (self.log_odds + self.slope * difficulty[:, None]).sigmoid()
        affinity = None if self.priors.affinity is None else self.affinity_terms(expected)
        return RowTerms(logs, expected, difficulty, error, affinity)

    def affinity_terms(self, expected: Tensor) -> AffinityTerms:
        """What e^γ of B rows needs, from their (B, K) expected classes."""
        logs = expected.log().clamp(min=LOWEST_LOG_EXPECTED)
        preference = (self.affinity * logs).exp()
        return AffinityTerms(logs, preference, (preference @ self.pairs.T).clamp(min=1e-30))

    def likelihood(self, rows: RowTerms, given: Tensor) -> Tensor:
        """(B, K) P(given_i | true = k, x_i)."""
        named = self.pairs.T[given]
        if rows.affinity is not None:
            named = named * rows.affinity.preference.gather(1, given[:, None]) / rows.affinity.total
        right = 1 - rows.error.gather(1, given[:, None])
        return (rows.error * named).scatter(1, given[:, None], right)

    def posterior(self, rows: RowTerms, given: Tensor, verified: Tensor | None) -> Tensor:
        """(B, K) P(true = k | x, given) by Bayes' rule; a verified label is certain."""
        joint = rows.expected * self.likelihood(rows, given)
        posterior = joint / joint.sum(1, keepdim=True).clamp(min=1e-30)
        if verified is None:
            return posterior
        one_hot = F.one_hot(given, posterior.shape[1]).to(posterior.dtype)
        return torch.where(verified[:, None], one_hot, posterior)

    def update_affinity(self, sums: ExpectedSums, count: int) -> None:
        """Newton step of γ on the expected log-likelihood of the wrong labels, at most 0.2."""
        if self.priors.affinity is not None:
            precision = self.priors.affinity * max(count, FEWEST_ROWS)
            rise = sums.affinity_rise - precision * self.affinity
            step = (rise / (sums.affinity_information + precision)).clamp(-0.2, 0.2)
            self.affinity.add_(step).clamp_(*AFFINITIES)

    def update_pairs(self, sums: ExpectedSums, pooled: Tensor) -> None:
        """A step of iterative scaling for D; pooled: error rate of all classes."""
        correct = torch.eye(len(self.factor), dtype=self.pairs.dtype, device=self.pairs.device)
        pseudo = PSEUDO_COUNT_POOLED * pooled
        counts = sums.counts + pseudo * spread_evenly(correct)
        pairs = (1 - correct) * counts / (sums.chances + pseudo)
        self.pairs.copy_(pairs / pairs.sum(1, keepdim=True).clamp(min=1e-30))

    def update_error(self, sums: ExpectedSums, pooled: Tensor, count: int) -> None:
        """Newton steps of the logistic regression of "the label is wrong" on the difficulty.

        Each step is at most 1.
        """
        chance = self.log_odds.sigmoid()
        pseudo = PSEUDO_COUNT_POOLED + PSEUDO_COUNT_CORRECT
        rise = sums.excess + PSEUDO_COUNT_POOLED * pooled - pseudo * chance
        curvature = sums.information + pseudo * chance * (1 - chance)
        self.log_odds.add_((rise / curvature.clamp(min=1e-9)).clamp(-1, 1))
        if self.priors.slope is not None:
            precision = self.priors.slope * max(count, FEWEST_ROWS)
            rise = sums.slope_rise - precision * self.slope
            self.slope.add_((rise / (sums.slope_information + precision)).clamp(-1, 1))

    def update_temperature(self, sums: ExpectedSums, count: int) -> None:
        """Newton step of β on Σ_i log P(given_i | x_i) and the priors, by at most a fifth of β.

        C_i is held fixed, though it depends on β, too. With l = log q, the first derivative is then
        Σ_i E_y[l] − E_e[l], where y is the posterior and e the expected class; the second is
        Σ_i Var_y[l] − Var_e[l].
        """
        beta = self.inverse_temperature
        precision = 1 / (TEMPERATURE_SPREAD**2 * count)
        curvature = (sums.power_information / count).abs().clamp(min=1e-6) + precision / beta**2
        rise = sums.power_rise / count - precision * (beta * TYPICAL_TEMPERATURE).log() / beta
        most, free = beta / 5, 1 / self.priors.low_temperature
        power = beta + (rise / curvature).clamp(-most, most)
        reluctant = beta + ((rise - self.priors.reluctance / beta) / curvature).clamp(-most, most)
        power = torch.where(power > free, reluctant.clamp(min=free), power)
        lowest, highest = TEMPERATURES
        self.inverse_temperature.copy_(power.clamp(1 / highest, 1 / lowest))

    def update_frequencies(self, shares: Tensor, counts: Tensor, pooled: Tensor) -> None:
        """Set π by the shares of the given labels, and a by π.

        C is that of the expected counts here, with pseudo-counts. π is at least one example, for
        classes that have a given label.
        """
        correct = torch.eye(len(self.factor), dtype=counts.dtype, device=counts.device)
        even = (1 - pooled) * correct + pooled * spread_evenly(correct)
        smoothed = counts + PSEUDO_COUNT_POOLED * even + PSEUDO_COUNT_CORRECT * correct
        transition = smoothed / smoothed.sum(1, keepdim=True)
        total = counts.sum()
        self.frequency.copy_(deconvolve(shares, transition).maximum((shares > 0) / total))
        change = (self.frequency / (counts.sum(1) / total).clamp(min=1e-9)).sqrt()
        factor = self.factor * change
        self.factor.copy_((factor / factor.mean()).clamp(*FACTORS))

    def stored(self) -> ConfusionModel:
        """The fitted model as it is kept in a run folder."""
        return ConfusionModel(
            temperature=float(1 / self.inverse_temperature),
            transition=tuple(map(tuple, self.transition.tolist())),
            factor=tuple(self.factor.tolist()),
            slope=float(self.slope),
            affinity=float(self.affinity),
            difficulty=float(self.difficulty),
        )


def spread_evenly(correct: Tensor) -> Tensor:
    """(K, K) rows with equal probability for every class but the own one."""
    return (1 - correct) / (len(correct) - 1)


def deconvolve(shares: Tensor, transition: Tensor) -> Tensor:
    """(K,) class frequencies π whose given labels would have these shares: πC ≈ shares.

    Richardson–Lucy steps keep π positive and start from `shares`; they end before the noise of the
    shares is amplified.
    """
    frequency = shares.clamp(min=1e-9)
    for _ in range(RICHARDSON_LUCY_STEPS):
        ratio = shares / (frequency @ transition).clamp(min=1e-12)
        frequency = frequency * (transition @ ratio)
        frequency = frequency / frequency.sum()
    return frequency
