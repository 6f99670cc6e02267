"""Generalised cross entropy (Zhang and Sabuncu, NeurIPS 2018): between cross entropy and error."""

from pydantic import Field

from ulc.algorithms.base import Algorithm
from ulc.blocks.averages import Record
from ulc.blocks.learner import Learner
from ulc.config import SGD, Spec
from ulc.data.training import TrainingData
from ulc.networks import NewNetwork
from ulc.networks.classifier import HeadSpec


class Config(Spec):
    """Options; each can be set with --set."""

    q: float = Field(0.7, gt=0, le=1, description="towards 0: cross entropy; 1: absolute error")
    batch_size: int = Field(128, ge=2)
    sgd: SGD = SGD()


class GeneralisedCrossEntropy(Algorithm):
    """Minimise (1 − p^q) / q, p being the probability of the given label."""

    config_class = Config

    def __init__(self, config: Config, data: TrainingData, new_network: NewNetwork) -> None:
        super().__init__(data)
        self.config = config
        self.learner = Learner(new_network(HeadSpec()), config.sgd)

    def train_epoch(self, epoch: int) -> Record:
        seen = self.averages()
        for batch in self.data.batches(self.config.batch_size):
            probability = self.learner(batch.inputs).logits.softmax(1)
            given = probability.gather(1, batch.given[:, None])
            loss = ((1 - given**self.config.q) / self.config.q).mean()
            seen.add(loss=self.learner.descend(loss))
        return seen.record()
