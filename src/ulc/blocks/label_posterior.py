"""Posterior of true labels: a confusion model whose class frequencies fit the given labels."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ulc.networks.processes import from_first

TEMPERATURES = (0.5, 4.0)  # lowest and highest temperature of predictions
FACTORS = (1e-3, 1e3)  # smallest and largest correction of a class's frequency
LOWEST_LOG = -20.0  # lower log-probabilities are clamped
NUMBERS_AT_ONCE = 2**18  # probabilities of a piece of the examples on a CPU: 1 MiB
MAX_STEPS = 60
TOLERANCE = 1e-3  # EM ends if no entry of C and no logarithm of a factor changes by more
RICHARDSON_LUCY_STEPS = 50
# Dirichlet pseudo-counts of C: as many labels for each class, wrong at the pooled error rate; and
# correct labels, for each class and in the pooled error rate itself. A lower temperature or fewer
# pooled labels make the model reject the right labels of small classes that look like others.
PSEUDO_COUNT_POOLED = 100.0
PSEUDO_COUNT_CORRECT = 1.0
PSEUDO_COUNT_CORRECT_POOLED = 10.0


class AnchoredConfusion(nn.Module):
    """Confusion model of label noise; its posterior has the class frequencies that labels imply.

        y_i(k) ∝ a_k · q_i(k)^β · C[k, given_i]

    q_i: prediction for example i by a network that has not learned its label

    Each step of `update` makes four choices, given the others:
    C[k, ·], P(given | true = k): EM with pseudo-counts, as in `labels/confusion.py`
    β, the inverse temperature: a Newton step on the likelihood of the given labels
    π: class frequencies with πC = frequencies of the given labels, by Richardson–Lucy
    a: a_k ← a_k · (π_k / mean_i y_i(k))^½, so that the posterior has the frequencies π

    Without the factors a (`anchored=False`) a small class dies out: predictions favour large
    classes, the posterior follows them, and the next predictions follow the posterior.
    """

    transition: Tensor
    frequency: Tensor
    factor: Tensor
    inverse_temperature: Tensor

    def __init__(self, classes: int, device: torch.device, *, anchored: bool = True) -> None:
        super().__init__()
        self.anchored = anchored
        correct = torch.eye(classes, device=device)
        self.register_buffer("transition", 0.9 * correct + 0.1 * spread_evenly(correct))
        self.register_buffer("frequency", torch.full((classes,), 1 / classes, device=device))
        self.register_buffer("factor", torch.ones(classes, device=device))
        self.register_buffer("inverse_temperature", torch.ones((), device=device))

    @torch.no_grad()
    def update(self, log_prediction: Tensor, given: Tensor, verified: Tensor | None) -> Tensor:
        """Fit the model, starting from the last fit; return the (N, K) posterior.

        log_prediction: (N, K) log q; verified: (N,) mask of labels that are surely right, or None
        """
        examples = Examples(log_prediction, given, verified)
        shares = torch.bincount(given, minlength=len(self.factor)).to(self.factor) / len(given)
        posterior = torch.empty_like(log_prediction)
        for _ in range(MAX_STEPS):
            sums = self.expect(examples, posterior)
            moved = self.update_transition(sums.counts)
            self.update_temperature(sums)
            if self.anchored:
                moved = max(moved, self.update_frequencies(shares, posterior))
            if moved < TOLERANCE:
                break
        from_first(self)
        self.expect(examples, posterior)
        return posterior

    def expect(self, examples: "Examples", posterior: Tensor) -> "ExpectedSums":
        """Expectation step of EM: write the (N, K) posterior, return what the other steps need.

        All operations on one piece of the examples follow each other, while it is in a cache. Each
        row is computed by itself, so the pieces change no bit.
        """
        counts, rows = torch.zeros_like(self.transition), []
        for piece in examples.pieces():
            logs, given = (
                examples.log_prediction[piece].clamp(min=LOWEST_LOG),
                examples.given[piece],
            )
            expected = self.expected_class(logs)
            found = self.posterior(expected, given, examples.verified_in(piece))
            posterior[piece] = found
            # Not posterior.T @ one_hot: with 1,000 classes, that product takes most of an epoch.
            counts.index_add_(0, given, found)
            squares = logs.square()
            weighted = [each * values for values in (logs, squares) for each in (found, expected)]
            rows.append(torch.stack([each.sum(1) for each in weighted]))
        return ExpectedSums(counts.T, *torch.cat(rows, 1))

    def expected_class(self, logs: Tensor) -> Tensor:
        """(B, K) P(true = k | x) ∝ a_k · q(k)^β, without regard to the given label."""
        return (self.inverse_temperature * logs + self.factor.log()).softmax(1)

    def posterior(self, expected: Tensor, given: Tensor, verified: Tensor | None) -> Tensor:
        """(B, K) P(true = k | x, given) by Bayes' rule; a verified label is certain."""
        joint = expected * self.transition.T[given]
        posterior = joint / joint.sum(1, keepdim=True).clamp(min=1e-30)
        if verified is None:
            return posterior
        one_hot = F.one_hot(given, posterior.shape[1]).to(posterior.dtype)
        return torch.where(verified[:, None], one_hot, posterior)

    def update_transition(self, counts: Tensor) -> float:
        """Set C by the (K, K) expected counts; return the largest change."""
        correct = torch.eye(len(self.factor), device=counts.device)
        right, total = counts.trace(), counts.sum()
        error = 1 - (right + PSEUDO_COUNT_CORRECT_POOLED) / (total + PSEUDO_COUNT_CORRECT_POOLED)
        pooled = (1 - error) * correct + error * spread_evenly(correct)
        counts = counts + PSEUDO_COUNT_POOLED * pooled + PSEUDO_COUNT_CORRECT * correct
        before = self.transition.clone()
        self.transition.copy_(counts / counts.sum(1, keepdim=True))
        return float((self.transition - before).abs().max())

    def update_temperature(self, sums: "ExpectedSums") -> None:
        """Newton step of β on Σ_i log P(given_i | x_i), by at most a fifth of β.

        With l = log q, the first derivative is Σ_i E_y[l] − E_p[l], where y is the posterior and p
        the expected class; the second is Σ_i Var_y[l] − Var_p[l].
        """
        spread_after = sums.square_after - sums.mean_after.square()
        spread_before = sums.square_before - sums.mean_before.square()
        slope = (sums.mean_after - sums.mean_before).mean()
        curvature = (spread_before - spread_after).mean().abs().clamp(min=1e-6)
        most = self.inverse_temperature / 5
        step = (slope / curvature).clamp(-most, most)
        lowest, highest = TEMPERATURES
        self.inverse_temperature.add_(step).clamp_(1 / highest, 1 / lowest)

    def update_frequencies(self, shares: Tensor, posterior: Tensor) -> float:
        """Set π by the shares of the given labels, and a by π; return the largest change of log a.

        π is at least one example, for classes that have a given label.
        """
        fewest = (shares > 0) / len(posterior)
        self.frequency.copy_(deconvolve(shares, self.transition).maximum(fewest))
        change = (self.frequency / posterior.mean(0).clamp(min=1e-9)).sqrt()
        before = self.factor.clone()
        factor = self.factor * change
        self.factor.copy_((factor / factor.mean()).clamp(*FACTORS))
        return float((self.factor / before).log().abs().max())


@dataclass(frozen=True)
class Examples:
    """(N, K) log-probabilities q, (N,) given labels, and (N,) which are verified; None: none is."""

    log_prediction: Tensor
    given: Tensor
    verified: Tensor | None

    def pieces(self) -> list[slice]:
        """Rows that fit into a cache together; all rows at once on a GPU."""
        rows, classes = self.log_prediction.shape
        on_cpu = self.log_prediction.device.type == "cpu"
        size = max(2, NUMBERS_AT_ONCE // classes) if on_cpu else rows
        return [slice(start, start + size) for start in range(0, rows, size)]

    def verified_in(self, piece: slice) -> Tensor | None:
        """The part of `verified`."""
        return None if self.verified is None else self.verified[piece]


@dataclass(frozen=True)
class ExpectedSums:
    """What the expectation step leaves for the others, beside the posterior y.

    counts: (K, K) expected number of labels, by true and given class
    mean_after, mean_before: (N,) E_y[log q] and E_p[log q], with p the expected class
    square_after, square_before: (N,) E_y[(log q)²] and E_p[(log q)²]
    """

    counts: Tensor
    mean_after: Tensor
    mean_before: Tensor
    square_after: Tensor
    square_before: Tensor


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
