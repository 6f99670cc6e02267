"""What the EM for label noise that depends on the row sums over the examples."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

LOWEST_LOG = -20.0  # lower log-probabilities are clamped
# Probabilities in a piece of the examples, on a CPU (what a cache holds) and on a GPU.
NUMBERS_AT_ONCE, NUMBERS_ON_DEVICE = 2**18, 2**26


@dataclass(frozen=True)
class Examples:
    """(N, K) log-probabilities q, (N,) given labels, and (N,) which are verified; None: none is."""

    log_prediction: Tensor
    given: Tensor
    verified: Tensor | None

    def pieces(self) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        """Clamped log q, labels and mask of rows that fit into a cache, or of many on a GPU."""
        rows, classes = self.log_prediction.shape
        on_cpu = self.log_prediction.device.type == "cpu"
        size = max(2, (NUMBERS_AT_ONCE if on_cpu else NUMBERS_ON_DEVICE) // classes)
        for start in range(0, rows, size):
            piece = slice(start, start + size)
            verified = None if self.verified is None else self.verified[piece]
            yield self.log_prediction[piece].clamp(min=LOWEST_LOG), self.given[piece], verified


@dataclass(frozen=True)
class AffinityTerms:
    """What e^γ of B rows needs, all (B, K).

    logs: log e, not below log 1e-4; preference: e^γ; total: Σ_m D[k, m] · e(m)^γ
    """

    logs: Tensor
    preference: Tensor
    total: Tensor


@dataclass(frozen=True)
class RowTerms:
    """What the posterior of B rows depends on, all but `difficulty` (B, K).

    logs: log q; expected: e; difficulty: (B,) h_i − h; error: ρ; affinity: None: γ is 0 for good
    """

    logs: Tensor
    expected: Tensor
    difficulty: Tensor
    error: Tensor
    affinity: AffinityTerms | None


@dataclass
class ExpectedSums:
    """What the expectation step leaves for the others, summed over the examples.

    counts: (K, K) expected number of labels, by true and given class
    chances: (K, K) expected number of wrong labels of a true class, times the share e(j)^γ / total
    excess, information: (K,) first and (negative) second derivative of the likelihood in o
    slope_…, affinity_…, power_…: the same for b, γ and β
    """

    counts: Tensor
    chances: Tensor
    excess: Tensor
    information: Tensor
    slope_rise: Tensor
    slope_information: Tensor
    affinity_rise: Tensor
    affinity_information: Tensor
    power_rise: Tensor
    power_information: Tensor

    @classmethod
    def zeros(cls, pairs: Tensor) -> Self:
        """Sums of no examples."""
        tables = [torch.zeros_like(pairs) for _ in range(2)]
        return cls(*tables, *(torch.zeros_like(pairs[0]) for _ in range(2)),
                   *(torch.zeros_like(pairs[0, 0]) for _ in range(6)))  # fmt: skip

    def add(self, rows: RowTerms, given: Tensor, posterior: Tensor, pairs: Tensor) -> None:
        """Add B examples; pairs: D."""
        wrong = posterior.scatter(1, given[:, None], 0.0)
        # Not posterior.T @ one_hot: with 1,000 classes, that product takes most of an epoch.
        self.counts += torch.zeros_like(self.counts).index_add_(0, given, posterior).T
        excess = wrong - posterior * rows.error
        information = posterior * rows.error * (1 - rows.error)
        self.excess += excess.sum(0)
        self.information += information.sum(0)
        self.slope_rise += (excess.sum(1) * rows.difficulty).sum()
        self.slope_information += (information.sum(1) * rows.difficulty.square()).sum()
        self.add_power(rows.logs, posterior, rows.expected)
        if rows.affinity is None:
            self.chances += wrong.sum(0)[:, None]
        else:
            self.add_affinity(rows.affinity, given, wrong, pairs)

    def add_power(self, logs: Tensor, posterior: Tensor, expected: Tensor) -> None:
        """Derivatives of the likelihood in β: differences of means and variances of log q."""
        squares = logs.square()
        after, before = (posterior * logs).sum(1), (expected * logs).sum(1)
        spread = ((expected - posterior) * squares).sum(1) - before.square() + after.square()
        self.power_rise += (after - before).sum()
        self.power_information += spread.sum()

    def add_affinity(
        self, terms: AffinityTerms, given: Tensor, wrong: Tensor, pairs: Tensor
    ) -> None:
        """Derivatives in γ, and the chances, of wrong labels."""
        weighted = terms.preference * terms.logs
        mean = weighted @ pairs.T / terms.total
        square = (weighted * terms.logs) @ pairs.T / terms.total
        own = terms.logs.gather(1, given[:, None])
        self.affinity_rise += (wrong * (own - mean)).sum()
        self.affinity_information += (wrong * (square - mean.square())).sum()
        self.chances += (wrong / terms.total).T @ terms.preference


def share_of_log_k(probability: Tensor) -> Tensor:
    """(B,) entropy of (B, K) probabilities, as a share of log K."""
    return torch.special.entr(probability).sum(1) / math.log(max(probability.shape[1], 2))
