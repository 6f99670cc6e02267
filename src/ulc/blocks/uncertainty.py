"""Epistemic uncertainty by Monte-Carlo dropout; aleatoric by learned noise on the logits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ulc.blocks.learner import Learner, evaluating
from ulc.data.training import TrainingData
from ulc.networks.classifier import Classifier, Output

SMALLEST = math.log(1e-8)  # a loss beyond −log 1e-8 tells nothing more


@dataclass(frozen=True)
class Integrated:
    """What T dropout passes say of every training example, in order.

    log_probability: (N, K) log of the integrated prediction ŷ = mean_t softmax(v_t)
    instance_std: (N, K) mean standard deviation of the instance's logit noise, or None
    """

    log_probability: Tensor
    instance_std: Tensor | None

    @property
    def prediction(self) -> Tensor:
        """(N, K) integrated prediction ŷ."""
        return self.log_probability.exp()

    def losses(self, given: Tensor) -> Tensor:
        """(N,) ℓ = −log ŷ[given] (paper Eq. 1)."""
        chosen = self.log_probability.gather(1, given[:, None]).squeeze(1)
        return -chosen.clamp(min=SMALLEST)


def draw_members(network: Classifier, count: int) -> list[int]:
    """Seeds of T masks: the W_t that dropout draws, the same for all examples."""
    return torch.randint(2**63 - 1, (count,)).tolist() if network.dropout is not None else []


@torch.no_grad()
def monte_carlo(
    network: Classifier, inputs: Tensor, members: Sequence[int]
) -> tuple[Tensor, Tensor | None]:
    """Log of the mean softmax over the dropout passes, and the mean noise deviation.

    The trunk is computed once.
    """
    logits, log_variance = network.members(network.trunk(inputs), members)
    log_mean = logits.log_softmax(1).logsumexp(0).T - math.log(len(logits))
    return log_mean, None if log_variance is None else (log_variance / 2).exp().mean(0).T


def integrated_predictions(learner: Learner, data: TrainingData, passes: int) -> Integrated:
    """Monte-Carlo dropout over the training set, un-augmented, batch norm frozen."""
    members = draw_members(learner.network, passes)
    log_means, stds = [], []
    with evaluating(learner):
        for batch in data.in_order():
            log_mean, std = monte_carlo(learner.network, batch.inputs, members)
            log_means.append(log_mean)
            stds.append(std)
    known = [std for std in stds if std is not None]
    return Integrated(torch.cat(log_means), torch.cat(known) if known else None)


def normalised_entropy(log_probability: Tensor) -> Tensor:
    """(N, K) log-probabilities to (N,) entropies over log K, in [0, 1]."""
    entropy = -(log_probability.exp() * log_probability).sum(1)
    return (entropy / math.log(log_probability.shape[1])).clamp(0, 1)


def ranged_entropy(log_probability: Tensor) -> Tensor:
    """(N,) entropies scaled so that the smallest of the set is 0 and the largest 1."""
    entropy = normalised_entropy(log_probability)
    low, high = entropy.min(), entropy.max()
    return (entropy - low) / (high - low).clamp(min=1e-8)


ENTROPY_SCALINGS = {"log_classes": normalised_entropy, "range": ranged_entropy}


def plain_log_probability(output: Output) -> Tensor:
    """(B, K) log-probabilities of clean logits."""
    return output.logits.log_softmax(1)


@dataclass(frozen=True)
class CorruptedLogProbability:
    """log (1/T)Σ_t softmax(v̂_t) with v̂_t = (I + δ_t)v + δ_t^x (paper Eq. 7 to 9), in log space.

    local: each example draws its own noise, of variance exp(s_i) + Σ_j exp(S_ij)·v_j² on logit i
    (the same distribution for each example, less variance in the gradient)
    shared: one C×C draw of δ a pass for the whole batch, as Algorithm 1 is written
    """

    draws: int
    shared: bool = False

    def __call__(self, output: Output) -> Tensor:
        """(B, K) logits and their variances to (B, K) log-probabilities."""
        if output.log_variance is None or output.class_log_variance is None:
            raise ValueError(
                "the network has no logit noise; make it with HeadSpec(logit_noise=True)"
            )
        # Columns are examples, as in the paper, and because torch's softmax is many times faster
        # across than along few values.
        logits, log_variance = output.logits.T.contiguous(), output.log_variance.T
        class_log_variance, device = output.class_log_variance, logits.device
        normal = torch.randn(self.draws, *logits.shape, device=device)
        if self.shared:
            drawn = torch.randn(self.draws, *class_log_variance.shape, device=device)
            delta = (class_log_variance / 2).exp() * drawn
            corrupted = logits + delta @ logits + (log_variance / 2).exp() * normal
        else:
            variance = log_variance.exp() + class_log_variance.exp() @ logits.square()
            corrupted = torch.addcmul(logits, variance.sqrt(), normal)
        return corrupted.log_softmax(1).logsumexp(0).T - math.log(self.draws)
