"""Epistemic uncertainty by Monte-Carlo dropout; aleatoric by learned noise on the logits."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ulc.blocks.learner import Learner, only_dropout_on
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


@torch.no_grad()
def monte_carlo(network: Classifier, inputs: Tensor, passes: int) -> tuple[Tensor, Tensor | None]:
    """Log of the mean softmax over `passes` dropout passes, and the mean noise deviation.

    The trunk is computed once. Without dropout all passes are the same, so one is enough.
    """
    reached = network.trunk(inputs)
    outputs = [network.top(reached) for _ in range(passes if network.dropout is not None else 1)]
    log_members = torch.stack([output.logits.log_softmax(1) for output in outputs])
    log_mean = log_members.logsumexp(0) - math.log(len(outputs))
    stds = [
        (output.log_variance / 2).exp() for output in outputs if output.log_variance is not None
    ]
    return log_mean, torch.stack(stds).mean(0) if stds else None


def integrated_predictions(learner: Learner, data: TrainingData, passes: int) -> Integrated:
    """Monte-Carlo dropout over the training set, un-augmented, batch norm frozen."""
    log_means, stds = [], []
    with only_dropout_on(learner):
        for batch in data.in_order():
            log_mean, std = monte_carlo(learner.network, batch.inputs, passes)
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
        logits, log_variance, class_log_variance, passes = (
            output.logits, output.log_variance, output.class_log_variance, self.draws,
        )  # fmt: skip
        if log_variance is None or class_log_variance is None:
            raise ValueError(
                "the network has no logit noise; make it with HeadSpec(logit_noise=True)"
            )
        normal = torch.randn(passes, *logits.shape, device=logits.device)
        if self.shared:
            classes = logits.shape[1]
            drawn = torch.randn(passes, classes, classes, device=logits.device)
            delta = (class_log_variance / 2).exp() * drawn
            noise = logits @ delta.transpose(1, 2) + (log_variance / 2).exp() * normal
        else:
            variance = log_variance.exp() + logits.square() @ class_log_variance.exp().T
            noise = variance.sqrt() * normal
        log_members = (logits + noise).log_softmax(2)
        return log_members.logsumexp(0) - math.log(passes)
