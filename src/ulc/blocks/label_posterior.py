"""Posterior of true labels: a confusion model whose class frequencies fit the given labels."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ulc.networks.processes import from_first

TEMPERATURES = (0.5, 4.0)  # lowest and highest temperature of predictions
FACTORS = (1e-3, 1e3)  # smallest and largest correction of a class's frequency
LOWEST_LOG = -20.0  # lower log-probabilities are clamped
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
        logs = log_prediction.clamp(min=LOWEST_LOG)
        one_hot = F.one_hot(given, logs.shape[1]).to(logs.dtype)
        shares = one_hot.mean(0)
        for _ in range(MAX_STEPS):
            expected = self.expected_class(logs)
            posterior = self.posterior(expected, given, one_hot, verified)
            moved = self.update_transition(posterior, given)
            self.update_temperature(logs, expected, posterior)
            if self.anchored:
                moved = max(moved, self.update_frequencies(shares, posterior))
            if moved < TOLERANCE:
                break
        from_first(self)
        return self.posterior(self.expected_class(logs), given, one_hot, verified)

    def expected_class(self, logs: Tensor) -> Tensor:
        """(N, K) P(true = k | x) ∝ a_k · q(k)^β, without regard to the given label."""
        return (self.inverse_temperature * logs + self.factor.log()).softmax(1)

    def posterior(
        self, expected: Tensor, given: Tensor, one_hot: Tensor, verified: Tensor | None
    ) -> Tensor:
        """(N, K) P(true = k | x, given) by Bayes' rule; a verified label is certain."""
        joint = expected * self.transition.T[given]
        posterior = joint / joint.sum(1, keepdim=True).clamp(min=1e-30)
        return posterior if verified is None else torch.where(verified[:, None], one_hot, posterior)

    def update_transition(self, posterior: Tensor, given: Tensor) -> float:
        """Set C by the expected counts; return the largest change."""
        correct = torch.eye(len(self.factor), device=posterior.device)
        # Not posterior.T @ one_hot: with 1,000 classes, that product takes most of an epoch.
        counts = torch.zeros_like(correct).index_add_(0, given, posterior).T
        right, total = counts.trace(), counts.sum()
        error = 1 - (right + PSEUDO_COUNT_CORRECT_POOLED) / (total + PSEUDO_COUNT_CORRECT_POOLED)
        pooled = (1 - error) * correct + error * spread_evenly(correct)
        counts = counts + PSEUDO_COUNT_POOLED * pooled + PSEUDO_COUNT_CORRECT * correct
        before = self.transition.clone()
        self.transition.copy_(counts / counts.sum(1, keepdim=True))
        return float((self.transition - before).abs().max())

    def update_temperature(self, logs: Tensor, expected: Tensor, posterior: Tensor) -> None:
        """Newton step of β on Σ_i log P(given_i | x_i), by at most a fifth of β.

        With l = log q, the first derivative is Σ_i E_y[l] − E_p[l], where y is the posterior and p
        the expected class; the second is Σ_i Var_y[l] − Var_p[l].
        """
        mean_after, mean_before = (posterior * logs).sum(1), (expected * logs).sum(1)
        squares = logs.square()
        spread_after = (posterior * squares).sum(1) - mean_after.square()
        spread_before = (expected * squares).sum(1) - mean_before.square()
        slope = (mean_after - mean_before).mean()
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
