"""Epistemic uncertainty by Monte-Carlo dropout; aleatoric uncertainty by learned logit noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ulc.blocks.learner import Learner, evaluating
from ulc.data.training import TrainingData
from ulc.networks.classifier import Classifier, Output

SMALLEST = math.log(1e-8)  # lowest log-probability in a loss; lower ones are clamped


@dataclass(frozen=True)
class IntegratedPredictions:
    """Mean over T dropout passes for every training example, in data set order.

    log_probability: (N, K) log of the integrated prediction ŷ = mean_t softmax(v_t)
    instance_std: (N, K) mean standard deviation of the instance's logit noise; None: the network
        has no logit noise
    """

    log_probability: Tensor
    instance_std: Tensor | None

    @property
    def prediction(self) -> Tensor:
        """(N, K) integrated prediction ŷ."""
        return self.log_probability.exp()

    def given_losses(self, given: Tensor) -> Tensor:
        """(N,) ℓ = −log ŷ[given] (paper Eq. 1)."""
        chosen = self.log_probability.gather(1, given[:, None]).squeeze(1)
        return -chosen.clamp(min=SMALLEST)


def draw_mask_seeds(network: Classifier, count: int) -> list[int]:
    """Draw seeds of `count` dropout masks (the paper's W_t), which all examples share.

    Without dropout the list is empty.
    """
    return torch.randint(2**63 - 1, (count,)).tolist() if network.dropout is not None else []


@torch.no_grad()
def monte_carlo_dropout(
    network: Classifier, inputs: Tensor, members: Sequence[int]
) -> tuple[Tensor, Tensor | None]:
    """(B, K) log of the mean softmax over dropout passes, and (B, K) mean std of instance noise.

    The second value is None if the network has no logit noise. All dropout passes share one pass
    through the trunk.

    members: seeds of the dropout masks, one for each pass
    """
    logits, log_variance = network.members(network.trunk(inputs), members)
    log_mean = logits.log_softmax(1).logsumexp(0).T - math.log(len(logits))
    return log_mean, None if log_variance is None else (log_variance / 2).exp().mean(0).T


def integrate_predictions(
    learner: Learner, data: TrainingData, passes: int
) -> IntegratedPredictions:
    """Monte-Carlo dropout on the training set, without augmentation, with frozen batch norm.

    passes: number T of dropout passes
    """
    members = draw_mask_seeds(learner.network, passes)
    log_means, stds = [], []
    with evaluating(learner):
        for batch in data.in_order():
            log_mean, std = monte_carlo_dropout(learner.network, batch.inputs, members)
            log_means.append(log_mean)
            stds.append(std)
    present = [std for std in stds if std is not None]
    return IntegratedPredictions(torch.cat(log_means), torch.cat(present) if present else None)


def normalised_entropy(log_probability: Tensor) -> Tensor:
    """(N,) entropies of (N, K) log-probabilities, divided by log K: in [0, 1]."""
    entropy = -(log_probability.exp() * log_probability).sum(1)
    return (entropy / math.log(log_probability.shape[1])).clamp(0, 1)


def range_scaled_entropy(log_probability: Tensor) -> Tensor:
    """(N,) entropies scaled so that the smallest is 0 and the largest 1."""
    entropy = normalised_entropy(log_probability)
    low, high = entropy.min(), entropy.max()
    return (entropy - low) / (high - low).clamp(min=1e-8)


ENTROPY_SCALINGS = {"log_classes": normalised_entropy, "range": range_scaled_entropy}


def plain_log_probability(output: Output) -> Tensor:
    """(B, K) log-probabilities of the logits without noise."""
    return output.logits.log_softmax(1)


@dataclass(frozen=True)
class CorruptedLogProbability:
    """log (1/T)Σ_t softmax(v̂_t) with v̂_t = (I + δ_t)v + δ_t^x (paper Eq. 7 to 9), in log space.

    draws: number T of noise draws
    local (shared=False): each example draws its own noise on logit i, with variance
    exp(s_i) + Σ_j exp(S_ij)·v_j²: the same distribution per example, with less gradient variance
    shared (shared=True): one K×K draw of δ per pass for the whole batch, as in Algorithm 1
    """

    draws: int
    shared: bool = False

    def __call__(self, output: Output) -> Tensor:
        """(B, K) log-probabilities, from the logits and variances of a network's output."""
        if output.log_variance is None or output.class_log_variance is None:
            raise ValueError(
                "the network has no logit noise; make it with HeadSpec(logit_noise=True)"
            )
        # Examples are columns, as in the paper; torch's softmax is much faster in this layout.
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
