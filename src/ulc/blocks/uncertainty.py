"""Epistemic uncertainty by Monte-Carlo dropout; aleatoric uncertainty by learned logit noise."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ulc.blocks.learner import Learner, evaluating
from ulc.blocks.noisy_softmax import log_sum_of_draws, mean_noisy_log_softmax
from ulc.data.training import TrainingData
from ulc.networks.classifier import Classifier, Output

NUMBERS_AT_ONCE = 2**20  # logits of several dropout passes on a CPU; more would leave the cache
SMALLEST = math.log(1e-8)  # lowest log-probability in a loss; lower ones are clamped


@dataclass(frozen=True)
class IntegratedPredictions:
    """Mean over T dropout passes for the training examples, in data set order.

    log_probability: (N, K) log of the integrated prediction ŷ = mean_t softmax(v_t)
    entropy_of_passes: (N,) mean entropy of the single passes, mean_t H(softmax(v_t))
    instance_std: (N, K) mean standard deviation of the instance's logit noise; None: the network
        has no logit noise
    """

    log_probability: Tensor
    entropy_of_passes: Tensor
    instance_std: Tensor | None

    @property
    def prediction(self) -> Tensor:
        """(N, K) integrated prediction ŷ."""
        return self.log_probability.exp()

    def given_losses(self, given: Tensor) -> Tensor:
        """(N,) ℓ = −log ŷ[given] (paper Eq. 1)."""
        chosen = self.log_probability.gather(1, given[:, None]).squeeze(1)
        return -chosen.clamp(min=SMALLEST)

    def doubt(self, kind: Literal["entropy", "mutual_information"]) -> Tensor:
        """(N,) entropy H(ŷ) (paper Eq. 12), or H(ŷ) − mean_t H(softmax(v_t)), in nats.

        The second is the mutual information. The entropy is large where an input is ambiguous, and
        where the passes disagree; the mutual information only where they disagree.
        """
        entropy = entropy_of(self.log_probability, 1)
        return entropy if kind == "entropy" else entropy - self.entropy_of_passes


def entropy_of(log_probability: Tensor, classes: int) -> Tensor:
    """Entropies in nats of log-probabilities; `classes` is the dimension of the classes."""
    return -(log_probability.exp() * log_probability).sum(classes)


def draw_mask_seeds(network: Classifier, count: int) -> list[int]:
    """Draw seeds of `count` dropout masks (the paper's W_t), which all examples share.

    Without dropout the list is empty.
    """
    return torch.randint(2**63 - 1, (count,)).tolist() if network.dropout is not None else []


@torch.no_grad()
def monte_carlo_dropout(
    network: Classifier, inputs: Tensor, members: Sequence[int]
) -> IntegratedPredictions:
    """Integrated predictions for a batch (paper Eq. 11).

    All dropout passes share one pass through the trunk.

    members: seeds of the dropout masks, one for each pass
    """
    hidden = network.trunk(inputs)
    numbers = network.head.out_features * len(inputs)
    at_once = max(1, NUMBERS_AT_ONCE // numbers) if hidden.device.type == "cpu" else len(members)
    groups = [members[start : start + at_once] for start in range(0, len(members), at_once or 1)]
    sums = [sum_over_passes(network, hidden, group) for group in groups or [members]]
    total = sum(each.passes for each in sums)
    log_probability = torch.stack([each.log_probability for each in sums]).logsumexp(0)
    stds = [each.std for each in sums if each.std is not None]
    return IntegratedPredictions(
        log_probability.T - math.log(total),
        torch.stack([each.entropy for each in sums]).sum(0) / total,
        (torch.stack(stds).sum(0) / total).T if stds else None,
    )


@dataclass(frozen=True)
class PassSums:
    """Sums over some dropout passes of a batch.

    log_probability: (K, B) log of the summed probabilities; entropy: (B,) summed entropies
    std: (K, B) summed standard deviations of the logit noise; None: no logit noise
    """

    passes: int
    log_probability: Tensor
    entropy: Tensor
    std: Tensor | None


def sum_over_passes(network: Classifier, hidden: Tensor, members: Sequence[int]) -> PassSums:
    """Dropout passes with the masks of these seeds; without dropout, one pass.

    hidden: output of the network's trunk
    """
    logits, std = network.members(hidden, members)
    passes = logits.log_softmax(1)
    return PassSums(
        len(passes),
        log_sum_of_draws(passes),
        entropy_of(passes, 1).sum(0),
        None if std is None else std.sum(0),
    )


def integrate_predictions(
    learner: Learner, data: TrainingData, passes: int, among: Tensor | None = None
) -> IntegratedPredictions:
    """`integrate_in_batches` of all examples in one tensor each."""
    parts = [part for _, part in integrate_in_batches(learner, data, passes, among)]
    stds = [part.instance_std for part in parts if part.instance_std is not None]
    return IntegratedPredictions(
        torch.cat([part.log_probability for part in parts]),
        torch.cat([part.entropy_of_passes for part in parts]),
        torch.cat(stds) if stds else None,
    )


def integrate_in_batches(
    learner: Learner, data: TrainingData, passes: int, among: Tensor | None = None
) -> Iterator[tuple[Tensor, IntegratedPredictions]]:
    """Monte-Carlo dropout on the training set, without augmentation, with frozen batch norm.

    The network that predicts is used, with averaged weights if the learner averages them. Yield the
    positions of each batch, and its predictions.

    passes: number T of dropout passes
    among: positions of the examples; None: all examples
    """
    network = learner.predictor
    members = draw_mask_seeds(network, passes)
    for batch in data.in_order(among=among):
        with evaluating(network):
            integrated = monte_carlo_dropout(network, batch.inputs, members)
        yield batch.index, integrated


def normalised_entropy(log_probability: Tensor) -> Tensor:
    """(N,) entropies of (N, K) log-probabilities, divided by log K: in [0, 1]."""
    return scale_by_log_classes(entropy_of(log_probability, 1), log_probability.shape[1])


def scale_by_log_classes(doubt: Tensor, classes: int) -> Tensor:
    """(N,) entropies or mutual informations in nats, divided by log K: in [0, 1]."""
    return (doubt / math.log(classes)).clamp(0, 1)


def scale_by_range(doubt: Tensor, classes: int) -> Tensor:  # noqa: ARG001 (as the other scaling)
    """(N,) entropies or mutual informations, scaled so that the smallest is 0, the largest 1."""
    low, high = doubt.min(), doubt.max()
    return ((doubt - low) / (high - low).clamp(min=1e-8)).clamp(0, 1)


DOUBT_SCALINGS = {"log_classes": scale_by_log_classes, "range": scale_by_range}


def plain_log_probability(output: Output) -> Tensor:
    """(B, K) log-probabilities of the logits without noise."""
    return output.logits.log_softmax(1)


@dataclass(frozen=True)
class CorruptedLogProbability:
    """log (1/T)Σ_t softmax(v̂_t) with v̂_t = (I + δ_t)v + δ_t^x (paper Eq. 7 to 9), in log space.

    draws: number T of noise draws
    local (shared=False): each example draws its own noise on logit i, with variance
    s_i² + Σ_j S_ij²·v_j²: the same distribution per example, with less gradient variance
    shared (shared=True): one K×K draw of δ per pass for the whole batch, as in Algorithm 1
    """

    draws: int
    shared: bool = False

    def __call__(self, output: Output) -> Tensor:
        """(B, K) log-probabilities, from the logits and noise of a network's output."""
        if output.instance_std is None or output.class_std is None:
            raise ValueError(
                "the network has no logit noise; make it with HeadSpec(logit_noise=True)"
            )
        # Examples are columns, as in the paper; torch's softmax is much faster in this layout.
        logits, instance_std = output.logits.T.contiguous(), output.instance_std.T
        class_std, device = output.class_std, logits.device
        normal = torch.randn(self.draws, *logits.shape, device=device)
        if not self.shared:
            variance = instance_std.square() + class_std.square() @ logits.square()
            return mean_noisy_log_softmax(logits, variance.sqrt(), normal).T
        delta = class_std * torch.randn(self.draws, *class_std.shape, device=device)
        corrupted = logits + delta @ logits + instance_std * normal
        return corrupted.log_softmax(1).logsumexp(0).T - math.log(self.draws)
