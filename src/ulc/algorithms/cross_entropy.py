"""Cross entropy: standard training, without protection against wrong labels."""

import torch.nn.functional as F
from pydantic import Field

from ulc.algorithms.base import Algorithm
from ulc.blocks.averages import Record
from ulc.blocks.learner import Learner
from ulc.config import SGD, Spec
from ulc.data.training import TrainingData
from ulc.networks import NewNetwork
from ulc.networks.classifier import HeadSpec


class Config(Spec):
    """Options of cross entropy; defaults: optimiser and batch size of DivideMix."""

    batch_size: int = Field(128, ge=2)
    sgd: SGD = SGD()


class CrossEntropy(Algorithm):
    """Minimise the cross entropy between the prediction and the given label."""

    config_class = Config

    def __init__(self, config: Config, data: TrainingData, new_network: NewNetwork) -> None:
        super().__init__(data)
        self.config = config
        self.learner = Learner(new_network(HeadSpec()), config.sgd)

    def train_epoch(self, epoch: int) -> Record:  # noqa: ARG002 (all epochs are the same)
        """Train on one pass over the given labels."""
        averages = self.averages()
        for batch in self.data.batches(self.config.batch_size):
            loss = F.cross_entropy(self.learner(batch.inputs).logits, batch.given)
            averages.add(loss=self.learner.descend(loss))
        return averages.record()
