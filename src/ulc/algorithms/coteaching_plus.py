"""Co-teaching+ (Yu et al., ICML 2019)."""

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from ulc.algorithms.base import Algorithm
from ulc.blocks.averages import Record
from ulc.blocks.learner import Learner, make_pair
from ulc.blocks.loss_mixture import GaussianLossMixture
from ulc.blocks.per_sample import example_losses
from ulc.blocks.schedules import linear_rampup
from ulc.config import Adam, Spec
from ulc.data.training import TrainingData
from ulc.labels.judgement import Judgement
from ulc.networks import NewNetwork
from ulc.networks.classifier import HeadSpec
from ulc.typing import Floats


class Config(Spec):
    """Options of Co-teaching+; defaults: those of the authors for CIFAR-10."""

    forget_rate: float | None = Field(
        None, ge=0, lt=1, description="share of large losses to drop; unset: estimated"
    )
    gradual_epochs: int = Field(10, ge=0, description="epochs until the forget rate is reached")
    agree_epochs: int = Field(20, ge=0, description="epochs of plain Co-teaching first")
    batch_size: int = Field(128, ge=2)
    adam: Adam = Adam()


class CoTeachingPlus(Algorithm):
    """Two networks; each learns from the examples with the smallest losses of its peer.

    In the first epochs the peer picks from the whole batch (Co-teaching), later only from the
    examples for which the two networks disagree.
    """

    config_class = Config
    forget_rate: Tensor
    dropped: Tensor

    def __init__(self, config: Config, data: TrainingData, new_network: NewNetwork) -> None:
        super().__init__(data)
        self.config = config
        self.pair = make_pair(lambda: Learner(new_network(HeadSpec()), config.adam))
        self.loss_mixture = GaussianLossMixture(per_class=False, one_component_guard=True)
        # On the CPU, because some devices have no float64.
        forget_rate = torch.tensor(config.forget_rate or 0.0, device="cpu").double()
        self.register_buffer("forget_rate", forget_rate)
        self.register_buffer("dropped", torch.zeros_like(forget_rate))

    def train_epoch(self, epoch: int) -> Record:
        """Train both networks on each batch, each with the examples that its peer picks."""
        # Later the networks have learned the picked labels, so the estimate would be biased.
        if self.config.forget_rate is None and 0 < epoch <= max(1, self.config.gradual_epochs):
            self.forget_rate.fill_(self.estimate_noise_rate())
        forget = float(self.forget_rate) * linear_rampup(epoch, self.config.gradual_epochs)
        self.dropped.fill_(forget)
        by_disagreement = epoch >= self.config.agree_epochs
        averages = self.averages()
        for batch in self.data.batches(self.config.batch_size):
            logits = [learner(batch.inputs).logits for learner in self.pair]
            losses = [F.cross_entropy(each, batch.given, reduction="none") for each in logits]
            among = (
                find_disagreement(logits)
                if by_disagreement
                else torch.arange(len(batch), device=batch.index.device)
            )
            first, second = exchange_small_losses(
                [each.detach() for each in losses], among, 1 - forget
            )
            averages.add(loss=self.pair[0].descend(losses[0][first].mean()))
            averages.add(loss=self.pair[1].descend(losses[1][second].mean()))
            averages.add(used=len(first) / len(batch))
        return averages.record() | {"forget_rate": forget}

    def estimate_noise_rate(self) -> float:
        """Mean probability of a wrong label by a loss mixture, averaged over both networks."""
        given, classes = self.data.given, self.data.num_classes
        fitted = [
            self.loss_mixture.fit_predict(example_losses(learner, self.data), given, classes)
            for learner in self.pair
        ]
        wrong = [1 - float(each.clean_probability.mean()) for each in fitted]
        return min(sum(wrong) / 2, 0.99)

    def judge(self) -> Judgement:
        """Clean probabilities by rank of the labels in the mean prediction.

        They are below ½ for the share of labels that training dropped in the last epoch.
        """
        judgement = super().judge()
        ranked = rank_to_probability(judgement.clean_probability, float(self.dropped))
        return replace(judgement, clean_probability=ranked)


def find_disagreement(logits: list[Tensor]) -> Tensor:
    """(M,) positions in the batch at which the two networks predict different classes."""
    first, second = logits
    return (first.argmax(1) != second.argmax(1)).nonzero().squeeze(1)


def exchange_small_losses(
    losses: list[Tensor], among: Tensor, share: float
) -> tuple[Tensor, Tensor]:
    """Positions in the batch that each network learns from: the smallest losses of its peer.

    losses: (B,) losses of each network
    among: (M,) positions to pick from
    share: share of them to pick; if it is less than one position, both networks learn from the
        whole batch
    """
    count = int(share * len(among) + 1e-9)  # (1 − 0.9)·10 is a little below 1 in floats
    if count < 1:
        every = torch.arange(len(losses[0]), device=losses[0].device)
        return every, every
    picked = [among[each[among].argsort(stable=True)[:count]] for each in losses]
    return picked[1], picked[0]


def rank_to_probability(given_probability: Floats, forget: float) -> Floats:
    """(N,) clean probabilities by rank: from 1 to ½ for kept labels, from ½ to 0 for dropped ones.

    given_probability: (N,) predicted probability of the given label
    forget: share of the labels that are dropped
    """
    order = np.argsort(-given_probability, kind="stable")
    rank = np.empty(len(order))
    rank[order] = (np.arange(len(order)) + 0.5) / len(order)
    kept = 1 - forget
    clean = np.where(rank <= kept, 1 - rank / (2 * kept), (1 - rank) / (2 * max(forget, 1e-12)))
    return clean.astype(np.float32)
