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
    """Defaults: the authors' for CIFAR-10."""

    forget_rate: float | None = Field(
        None, ge=0, lt=1, description="share of large losses to drop; unset: estimated"
    )
    gradual_epochs: int = Field(10, ge=0, description="epochs over which that share grows from 0")
    agree_epochs: int = Field(20, ge=0, description="epochs of plain Co-teaching first")
    batch_size: int = Field(128, ge=2)
    adam: Adam = Adam()


class CoTeachingPlus(Algorithm):
    """Two networks learn where they disagree, each from the small losses its peer picks there.

    Before they have grown apart they pick from the whole batch (Co-teaching).
    """

    config_class = Config
    forget_rate: Tensor
    dropped: Tensor

    def __init__(self, config: Config, data: TrainingData, new_network: NewNetwork) -> None:
        super().__init__(data)
        self.config = config
        self.pair = make_pair(lambda: Learner(new_network(HeadSpec()), config.adam))
        self.loss_mixture = GaussianLossMixture(per_class=False, one_component_guard=True)
        self.register_buffer("forget_rate", torch.tensor(config.forget_rate or 0.0).double())
        self.register_buffer("dropped", torch.zeros((), dtype=torch.float64))

    def train_epoch(self, epoch: int) -> Record:
        """Both networks see each batch; each learns from what the other would keep of it."""
        # Later the networks have learned what was picked, and an estimate would confirm itself.
        if self.config.forget_rate is None and 0 < epoch <= max(1, self.config.gradual_epochs):
            self.forget_rate.fill_(self.estimated_noise())
        forget = float(self.forget_rate) * linear_rampup(epoch, self.config.gradual_epochs)
        self.dropped.fill_(forget)
        apart = epoch >= self.config.agree_epochs
        seen = self.averages()
        for batch in self.data.batches(self.config.batch_size):
            logits = [learner(batch.inputs).logits for learner in self.pair]
            losses = [F.cross_entropy(each, batch.given, reduction="none") for each in logits]
            among = (
                disagreement(logits)
                if apart
                else torch.arange(len(batch), device=batch.index.device)
            )
            first, second = exchange([each.detach() for each in losses], among, 1 - forget)
            seen.add(loss=self.pair[0].descend(losses[0][first].mean()))
            seen.add(loss=self.pair[1].descend(losses[1][second].mean()))
            seen.add(used=len(first) / len(batch))
        return seen.record() | {"forget_rate": forget}

    def estimated_noise(self) -> float:
        """The share of labels that a mixture on the losses does not believe, mean of both."""
        given, classes = self.data.given, self.data.num_classes
        beliefs = [
            self.loss_mixture.judge(example_losses(learner, self.data), given, classes)
            for learner in self.pair
        ]
        doubted = [1 - float(each.clean_probability.mean()) for each in beliefs]
        return min(sum(doubted) / 2, 0.99)

    def judge(self) -> Judgement:
        """By rank: the labels that the two networks together would drop are below one half."""
        judgement = super().judge()
        ranked = kept_by_rank(judgement.clean_probability, float(self.dropped))
        return replace(judgement, clean_probability=ranked)


def disagreement(logits: list[Tensor]) -> Tensor:
    """(M,) positions at which the two networks favour different classes."""
    first, second = logits
    return (first.argmax(1) != second.argmax(1)).nonzero().squeeze(1)


def exchange(losses: list[Tensor], among: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """What each network learns from: the `share` of smallest losses of its peer among some.

    Where that leaves none, the whole batch.
    """
    count = int(share * len(among) + 1e-9)  # (1 − 0.9)·10 is one, though not in floats
    if count < 1:
        every = torch.arange(len(losses[0]), device=losses[0].device)
        return every, every
    picked = [among[each[among].argsort(stable=True)[:count]] for each in losses]
    return picked[1], picked[0]


def kept_by_rank(believed: Floats, forget: float) -> Floats:
    """Ranks as (N,) clean probabilities: from 1 down to ½ for what is kept, to 0 for the rest.

    `believed` is the probability of the given label: the smaller its loss, the larger.
    """
    order = np.argsort(-believed, kind="stable")
    rank = np.empty(len(order))
    rank[order] = (np.arange(len(order)) + 0.5) / len(order)
    kept = 1 - forget
    clean = np.where(rank <= kept, 1 - rank / (2 * kept), (1 - rank) / (2 * max(forget, 1e-12)))
    return clean.astype(np.float32)
