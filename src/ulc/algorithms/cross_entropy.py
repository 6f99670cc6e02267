"""Cross entropy: standard training, without protection against wrong labels."""

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from ulc.algorithms.base import Algorithm, array
from ulc.blocks.averages import Record
from ulc.blocks.learner import Learner
from ulc.blocks.pseudo_epochs import draw_rows, fill_unseen
from ulc.config import SGD, Spec
from ulc.data.training import TrainingData
from ulc.labels.judgement import Judgement
from ulc.networks import NewNetwork
from ulc.networks.classifier import HeadSpec


class Config(Spec):
    """Options of cross entropy; defaults: optimiser and batch size of DivideMix."""

    batch_size: int = Field(128, ge=2)
    epoch_examples: int | None = Field(
        None, ge=4, description="examples of an epoch, drawn anew, balanced by class; None: all"
    )
    sgd: SGD = SGD()


class CrossEntropy(Algorithm):
    """Minimise the cross entropy between the prediction and the given label."""

    config_class = Config
    prediction: Tensor

    def __init__(self, config: Config, data: TrainingData, new_network: NewNetwork) -> None:
        super().__init__(data)
        self.config = config
        self.learner = Learner(new_network(HeadSpec()), config.sgd)
        if config.epoch_examples is not None:
            unknown = torch.full((len(data), data.num_classes), torch.nan, device=data.given.device)
            self.register_buffer("prediction", unknown)  # as last seen in training

    def train_epoch(self, epoch: int) -> Record:  # noqa: ARG002 (all epochs are the same)
        """Train on one pass over the given labels, or over a part of them."""
        averages = self.averages()
        rows = draw_rows(self.data, self.config.epoch_examples)
        for batch in self.data.batches(self.config.batch_size, among=rows):
            logits = self.learner(batch.inputs).logits
            averages.add(loss=self.learner.descend(F.cross_entropy(logits, batch.given)))
            if self.config.epoch_examples is not None:
                self.prediction[batch.index] = logits.detach().softmax(1)
        return averages.record()

    def judge(self) -> Judgement:
        """Judge by the prediction; in epochs on a part of the data, as last seen in training.

        An example that was not seen is not accused.
        """
        if self.config.epoch_examples is None:
            return super().judge()
        known = fill_unseen(self.prediction, self.data.given, self.data.num_classes)
        unseen = array(self.prediction[:, 0].isnan())
        judgement = Judgement.of(array(known), array(self.data.given))
        return judgement.without_evidence(unseen, self.threshold)
