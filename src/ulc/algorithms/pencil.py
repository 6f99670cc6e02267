"""PENCIL: probabilistic end-to-end noise correction (Yi and Wu, CVPR 2019)."""

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from ulc.algorithms.base import Algorithm, array
from ulc.blocks.averages import Record
from ulc.blocks.learner import Learner
from ulc.blocks.losses import kl_divergence, negative_entropy
from ulc.config import SGD, Spec
from ulc.data.training import Batch, TrainingData
from ulc.labels.judgement import Judgement
from ulc.networks import NewNetwork
from ulc.networks.classifier import HeadSpec


class Config(Spec):
    """Options of PENCIL; defaults: those of the authors' code for ten classes, except α.

    For a fixed prediction the label distribution converges to (prediction/K + α·given)/(1/K + α),
    so a label can change only if α < 1/K. A step of the distribution is proportional to λ/K. The
    options are α·K and λ/K, so they fit any number of classes. The authors' α of 0.4
    belongs to a weaker L_o, in which softmax is applied twice.
    """

    backbone_epochs: int = Field(70, ge=0, description="stage 1: cross entropy on given labels")
    correcting_epochs: int = Field(130, ge=0, description="stage 2: train network and labels")
    final_epochs: int = Field(120, ge=1, description="stage 3: the rate falls after each third")
    compatibility: float = Field(0.1, ge=0, description="α·K: pull of the given label, below 1")
    certainty: float = Field(0.1, ge=0, description="β: pull towards confident predictions")
    label_rate: float = Field(60.0, ge=0, description="λ/K: step size of the label distributions")
    sharpness: float = Field(10.0, gt=0, description="initial label logits: this times one-hot")
    final_lr: float = Field(0.2, gt=0, description="learning rate at the start of stage 3")
    batch_size: int = Field(128, ge=2)
    sgd: SGD = SGD(lr=0.06, weight_decay=1e-4, milestones=())


class Pencil(Algorithm):
    """Learn a label distribution for each example together with the network."""

    config_class = Config
    label_logits: Tensor
    corrected: Tensor

    def __init__(self, config: Config, data: TrainingData, new_network: NewNetwork) -> None:
        super().__init__(data)
        self.config = config
        self.learner = Learner(new_network(HeadSpec()), config.sgd)
        given = F.one_hot(data.given, data.num_classes).float()
        self.register_buffer("label_logits", config.sharpness * given)
        self.register_buffer("corrected", data.given.new_zeros(()))

    def train_epoch(self, epoch: int) -> Record:
        """Train one epoch of stage 1, 2 or 3."""
        correcting = epoch - self.config.backbone_epochs
        final = correcting - self.config.correcting_epochs
        if final >= 0:
            self.learner.set_options({"lr": final_learning_rate(final, self.config)})
        averages = self.averages()
        for batch in self.data.batches(self.config.batch_size):
            if correcting < 0:
                loss = F.cross_entropy(self.learner(batch.inputs).logits, batch.given)
                averages.add(loss=self.learner.descend(loss))
            elif final < 0:
                averages.add(loss=self.train_with_labels(batch))
            else:
                averages.add(loss=self.train_on_labels(batch))
        self.corrected.fill_(correcting >= 0)
        return averages.record()

    def train_with_labels(self, batch: Batch) -> Tensor:
        """Stage 2: step of network and label distributions on L_c/K + α·L_o + β·L_e/K."""
        classes = self.data.num_classes
        labels = self.label_logits[batch.index].requires_grad_()
        logits = self.learner(batch.inputs).logits
        divergence = kl_divergence(logits.log_softmax(1), labels.log_softmax(1))  # L_c
        compatibility = F.cross_entropy(labels, batch.given)  # L_o
        entropy = -negative_entropy(logits)  # L_e
        loss = divergence + self.config.compatibility * compatibility
        loss = loss + self.config.certainty * entropy
        value = self.learner.descend(loss / classes)
        assert labels.grad is not None
        self.label_logits[batch.index] -= self.config.label_rate * classes * labels.grad
        return value

    def train_on_labels(self, batch: Batch) -> Tensor:
        """Stage 3: step of the network on L_c/K; the label distributions are frozen."""
        log_p = self.learner(batch.inputs).logits.log_softmax(1)
        labels = self.label_logits[batch.index].log_softmax(1)
        return self.learner.descend(kl_divergence(log_p, labels) / self.data.num_classes)

    def judge(self) -> Judgement:
        """Judge by the label distributions; in stage 1, by the prediction."""
        if not self.corrected:
            return super().judge()
        return Judgement.of(array(self.label_logits.softmax(1)), array(self.data.given))


def final_learning_rate(epoch: int, config: Config) -> float:
    """Learning rate of stage 3, divided by 10 after each third of the stage.

    epoch: number of the epoch within stage 3
    """
    return config.final_lr * 0.1 ** min(3 * epoch // config.final_epochs, 2)
