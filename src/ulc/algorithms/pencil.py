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
    """Defaults: the authors' code for ten classes, but for α.

    Labels come to rest at (prediction/K + α·given)/(1/K + α), so only an α below 1/K lets a label
    change, and they move by λ/K. So both are told in these terms, to fit any number of classes. The
    authors' α of 0.4 belongs to a weaker L_o, taken of a softmax of probabilities.
    """

    backbone_epochs: int = Field(70, ge=0, description="stage 1: cross entropy on given labels")
    correcting_epochs: int = Field(130, ge=0, description="stage 2: network and labels together")
    final_epochs: int = Field(120, ge=1, description="stage 3: its rate falls at each third")
    compatibility: float = Field(0.1, ge=0, description="α·K: pull of the given label, below 1")
    certainty: float = Field(0.1, ge=0, description="β: pull towards confident predictions")
    label_rate: float = Field(60.0, ge=0, description="λ/K: step size of the label distributions")
    sharpness: float = Field(10.0, gt=0, description="how firmly labels start at the given one")
    final_lr: float = Field(0.2, gt=0, description="learning rate at the start of stage 3")
    batch_size: int = Field(128, ge=2)
    sgd: SGD = SGD(lr=0.06, weight_decay=1e-4, milestones=())


class Pencil(Algorithm):
    """Keep a label distribution for each example and learn it together with the network."""

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
        """The stage that this epoch belongs to."""
        correcting = epoch - self.config.backbone_epochs
        final = correcting - self.config.correcting_epochs
        if final >= 0:
            self.learner.tell({"lr": final_rate(final, self.config)})
        seen = self.averages()
        for batch in self.data.batches(self.config.batch_size):
            if correcting < 0:
                loss = F.cross_entropy(self.learner(batch.inputs).logits, batch.given)
                seen.add(loss=self.learner.descend(loss))
            elif final < 0:
                seen.add(loss=self.correct(batch))
            else:
                seen.add(loss=self.learn(batch))
        self.corrected.fill_(correcting >= 0)
        return seen.record()

    def correct(self, batch: Batch) -> Tensor:
        """A step of the network and of the labels down L_c/K + α·L_o + β·L_e/K."""
        classes = self.data.num_classes
        labels = self.label_logits[batch.index].requires_grad_()
        logits = self.learner(batch.inputs).logits
        apart = kl_divergence(logits.log_softmax(1), labels.log_softmax(1))
        from_given = F.cross_entropy(labels, batch.given)
        unsure = -negative_entropy(logits)
        weighted = apart + self.config.compatibility * from_given + self.config.certainty * unsure
        value = self.learner.descend(weighted / classes)
        assert labels.grad is not None
        self.label_logits[batch.index] -= self.config.label_rate * classes * labels.grad
        return value

    def learn(self, batch: Batch) -> Tensor:
        """A step of the network down L_c/K; the labels stay."""
        log_p = self.learner(batch.inputs).logits.log_softmax(1)
        labels = self.label_logits[batch.index].log_softmax(1)
        return self.learner.descend(kl_divergence(log_p, labels) / self.data.num_classes)

    def judge(self) -> Judgement:
        """The label distributions are the opinion; before they are learned, the prediction."""
        if not self.corrected:
            return super().judge()
        return Judgement.of(array(self.label_logits.softmax(1)), array(self.data.given))


def final_rate(epoch: int, config: Config) -> float:
    """Stage 3's learning rate: a tenth of what it was from each third of the stage on."""
    return config.final_lr * 0.1 ** min(3 * epoch // config.final_epochs, 2)
