"""ELR+ (Liu et al., NeurIPS 2020): early-learning regularisation with two networks."""

from typing import TYPE_CHECKING, Literal, cast

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from ulc.algorithms.base import Algorithm, array
from ulc.blocks.averages import Record
from ulc.blocks.learner import Learner, make_pair
from ulc.blocks.losses import early_learning_penalty, soft_cross_entropy
from ulc.blocks.mixup import blend, draw_dominant_lambda, draw_partner
from ulc.blocks.pseudo_epochs import draw_rows, fill_unseen
from ulc.blocks.schedules import sigmoid_rampup
from ulc.blocks.teacher import Teacher
from ulc.config import SGD, Spec
from ulc.data.training import Batch, TrainingData
from ulc.labels.judgement import Judgement
from ulc.networks import NewNetwork
from ulc.networks.classifier import HeadSpec

if TYPE_CHECKING:
    from collections.abc import Sequence


class Config(Spec):
    """Options of ELR+; defaults: those of the authors for CIFAR-10 with symmetric noise."""

    memory: float = Field(0.7, ge=0, lt=1, description="β: momentum of the memory")
    penalty: float = Field(3.0, ge=0, description="λ: weight of the early-learning penalty")
    penalty_rampup_steps: int = Field(0, ge=0, description="steps until λ is reached")
    average: float = Field(0.997, ge=0, lt=1, description="momentum of the teachers")
    average_start: Literal["mean"] | None = Field(
        None, description="mean: the teachers start as the plain mean of all steps, without ramp-up"
    )
    average_rampup_steps: int = Field(40_000, ge=0, description="steps until `average` is reached")
    mixup_alpha: float = Field(1.0, ge=0)
    refine_labels: bool = Field(False, description="multiply targets with the memory (CIFAR-100)")
    batch_size: int = Field(128, ge=2)
    epoch_examples: int | None = Field(
        None, ge=4, description="examples of a network, drawn once, balanced by class; None: all"
    )
    sgd: SGD = SGD()


class ElrPlus(Algorithm):
    """Two networks; each is penalised if it disagrees with the memory of its peer's teacher.

    The memory of an example is a moving average of predictions from the first epoch on, because a
    network learns right labels first and wrong ones later.
    """

    config_class = Config
    remembered: Tensor
    steps: Tensor
    rows: Tensor

    def __init__(self, config: Config, data: TrainingData, new_network: NewNetwork) -> None:
        super().__init__(data)
        self.config = config
        self.pair = make_pair(lambda: Learner(new_network(HeadSpec()), config.sgd))
        teachers = nn.ModuleList([Teacher(learner.network) for learner in self.pair])
        self.teachers = cast("Sequence[Teacher]", teachers)
        memory = torch.zeros(2, len(data), data.num_classes, device=data.given.device)
        self.register_buffer("remembered", memory)
        self.register_buffer("steps", torch.zeros(2, dtype=torch.int64, device="cpu"))
        if config.epoch_examples is not None:
            rows = [draw_rows(data, config.epoch_examples) for _ in self.pair]
            self.register_buffer("rows", torch.stack(rows))

    def train_epoch(self, epoch: int) -> Record:  # noqa: ARG002 (ramps count steps)
        """Train each network on one pass over the data, with mixup."""
        averages = self.averages()
        for side, learner in enumerate(self.pair):
            among = None if self.config.epoch_examples is None else self.rows[side]
            for batch in self.data.batches(self.config.batch_size, among=among):
                fit, penalty = self.mixed_losses(learner, batch, self.update_memory(side, batch))
                step = int(self.steps[side])
                ramp = sigmoid_rampup(step, self.config.penalty_rampup_steps)
                learner.descend(fit + ramp * self.config.penalty * penalty)
                averages.add(loss=fit.detach(), penalty=penalty.detach())
                self.teachers[side].update(learner.network, self.teacher_momentum(step))
                self.steps[side] += 1
        return averages.record()

    def teacher_momentum(self, step: int) -> float:
        """The share of the old weights in a step of a teacher; step: number of steps before it."""
        if self.config.average_start == "mean":
            return min(1 - 1 / (step + 1), self.config.average)
        return sigmoid_rampup(step, self.config.average_rampup_steps) * self.config.average

    def update_memory(self, side: int, batch: Batch) -> Tensor:
        """Update the memory of a batch with predictions of the peer's teacher; return it (B, K)."""
        taught = self.teachers[1 - side](batch.inputs).logits.softmax(1)
        memory = self.remembered[side, batch.index].lerp(taught, 1 - self.config.memory)
        self.remembered[side, batch.index] = memory
        return memory

    def mixed_losses(self, learner: Learner, batch: Batch, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Cross entropy and early-learning penalty of the batch after mixup."""
        lam = draw_dominant_lambda(self.config.mixup_alpha)
        partner = draw_partner(batch.inputs, lam)
        given = F.one_hot(batch.given, self.data.num_classes).float()
        target, remembered = blend(given, partner, lam), blend(memory, partner, lam)
        if self.config.refine_labels:
            target = F.normalize(target * remembered, p=1, dim=1)
        logits = learner(blend(batch.inputs, partner, lam)).logits
        fit = soft_cross_entropy(logits.log_softmax(1), target)
        return fit, early_learning_penalty(logits, remembered)

    def judge(self) -> Judgement:
        """Judge by the mean memory; by the prediction as long as some example has no memory.

        If networks learn from a part of the data, examples without memory are not accused.
        """
        total = self.remembered.sum(2, keepdim=True)
        if self.config.epoch_examples is not None:
            known = (self.remembered / total).nanmean(0)
            filled = fill_unseen(known, self.data.given, self.data.num_classes)
            judgement = Judgement.of(array(filled), array(self.data.given))
            return judgement.without_evidence(array(known[:, 0].isnan()), self.threshold)
        if not bool((total > 0).all()):
            return super().judge()
        # The memory starts at zero, so early on its rows sum to less than one.
        return Judgement.of(array((self.remembered / total).mean(0)), array(self.data.given))
