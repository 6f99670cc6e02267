"""M-correction (Arazo et al., ICML 2019): bootstrapping by a Beta mixture, with mixup."""

from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from ulc.algorithms.base import Algorithm, array
from ulc.blocks.averages import Record
from ulc.blocks.learner import Learner, evaluating
from ulc.blocks.loss_mixture import BetaLossMixture, ScaledMixtures
from ulc.blocks.losses import prior_penalty, soft_cross_entropy
from ulc.blocks.mixup import blend, draw_lambda, draw_partner
from ulc.blocks.per_sample import example_losses
from ulc.blocks.schedules import linear_rampup
from ulc.config import SGD, Spec
from ulc.data.float64 import to_float64
from ulc.data.training import Batch, TrainingData
from ulc.labels.judgement import Judgement
from ulc.networks import NewNetwork
from ulc.networks.classifier import HeadSpec

LOWEST_TEMPERATURE = 0.001  # a softmax at this temperature is nearly an arg-max
SMALLEST_PROBABILITY = 1e-4  # probabilities of wrong labels are clamped to [this, 1 − this]


class Config(Spec):
    """Options of M-correction; defaults: those of the authors for M-DYR-H on CIFAR."""

    bootstrapping: Literal["hard", "dynamic"] = Field(
        "hard", description="hard: M-DYR-H; dynamic: MD-DYR-SH"
    )
    warmup_epochs: int = Field(105, ge=0, description="epochs of plain mixup first")
    dynamic_epochs: int = Field(5, ge=0, description="dynamic: mixup epochs before bootstrapping")
    cooling_epochs: int = Field(89, ge=0, description="dynamic: epochs until targets are hard")
    mixup_alpha: float = Field(32.0, ge=0)
    prior_weight: float = Field(1.0, ge=0, description="weight of the uniform-prior penalty")
    batch_size: int = Field(128, ge=2)
    sgd: SGD = SGD(lr=0.1, weight_decay=1e-4, milestones=(100, 250))


class MCorrection(Algorithm):
    """Bootstrapping: mix each given label with the prediction, weighted by a Beta loss mixture."""

    config_class = Config

    def __init__(self, config: Config, data: TrainingData, new_network: NewNetwork) -> None:
        super().__init__(data)
        self.config = config
        self.learner = Learner(new_network(HeadSpec()), config.sgd)
        self.loss_mixture = BetaLossMixture(per_class=False)

    def train_epoch(self, epoch: int) -> Record:
        """Train with plain mixup; later bootstrap by a loss mixture that each epoch fits anew."""
        averages = self.averages()
        since = epoch - self.config.warmup_epochs
        mixtures = None
        if since >= 0:
            losses = to_float64(example_losses(self.learner, self.data))
            losses = losses[losses.isfinite()]
            group = losses.new_zeros(len(losses)).long()
            mixtures = self.loss_mixture.fit(losses, group, 1)
            clean = mixtures.clean_probability(losses, group)
            averages.add(clean=float(clean.mean()), reliable=float(mixtures.reliable))
        for batch in self.data.batches(self.config.batch_size):
            if mixtures is None:
                loss = self.mixup_loss(batch)
            elif self.config.bootstrapping == "hard":
                loss = self.hard_loss(batch, mixtures)
            else:
                loss = self.dynamic_loss(batch, mixtures, since)
            averages.add(loss=self.learner.descend(loss))
        return averages.record()

    def mixup_loss(self, batch: Batch) -> Tensor:
        """Cross entropy on mixup of inputs and given labels."""
        lam = draw_lambda(self.config.mixup_alpha)
        partner = draw_partner(batch.inputs, lam)
        logits = self.learner(blend(batch.inputs, partner, lam)).logits
        return soft_cross_entropy(
            logits.log_softmax(1), blend(self.one_hot_given(batch), partner, lam)
        )

    def hard_loss(self, batch: Batch, mixtures: ScaledMixtures) -> Tensor:
        """M-DYR-H: loss on mixup of targets (1 − w)·given + w·one-hot prediction.

        w: probability that the given label is wrong
        """
        noisy = self.noisy_probability(batch, mixtures)
        with torch.no_grad():
            predicted = self.learner(batch.inputs).logits.argmax(1)
        prediction = F.one_hot(predicted, self.data.num_classes).float()
        target = self.one_hot_given(batch).lerp(prediction, noisy[:, None])
        lam = draw_lambda(self.config.mixup_alpha)
        partner = draw_partner(batch.inputs, lam)
        logits = self.learner(blend(batch.inputs, partner, lam)).logits
        fit = soft_cross_entropy(logits.log_softmax(1), blend(target, partner, lam))
        return fit + self.config.prior_weight * prior_penalty(logits)

    def dynamic_loss(self, batch: Batch, mixtures: ScaledMixtures, since: int) -> Tensor:
        """MD-DYR-SH: loss on mixup of inputs, weighted by their clean probabilities.

        In the first epochs targets are given labels; later they are blends of given labels and
        predictions, whose temperature falls.

        since: epochs since the warm-up
        """
        clean = 1 - self.noisy_probability(batch, mixtures)
        partner = torch.randperm(len(batch), device=clean.device)
        mixed = blend(batch.inputs, partner, clean / (clean + clean[partner]))
        if since < self.config.dynamic_epochs:
            log_p = self.learner(mixed).logits.log_softmax(1)
            lam = draw_lambda(self.config.mixup_alpha)
            return soft_cross_entropy(log_p, blend(self.one_hot_given(batch), partner, lam))
        with torch.no_grad():
            logits = self.learner(batch.inputs).logits
        prediction = (logits / self.temperature(since)).softmax(1)
        target = prediction.lerp(self.one_hot_given(batch), clean[:, None])
        logits = self.learner(mixed).logits
        fit = soft_cross_entropy(logits.log_softmax(1), blend(target, partner, 0.5))
        return fit + self.config.prior_weight * prior_penalty(logits)

    def temperature(self, since: int) -> float:
        """Temperature of predictions in targets: linear from 1 to `LOWEST_TEMPERATURE`."""
        remaining = 1 - linear_rampup(
            since - self.config.dynamic_epochs, self.config.cooling_epochs
        )
        return LOWEST_TEMPERATURE + remaining * (1 - LOWEST_TEMPERATURE)

    @torch.no_grad()
    def noisy_probability(self, batch: Batch, mixtures: ScaledMixtures) -> Tensor:
        """(B,) probability that each label is wrong, by its current loss in evaluation mode."""
        with evaluating(self.learner):
            logits = self.learner(batch.inputs).logits
        losses = to_float64(F.cross_entropy(logits, batch.given, reduction="none"))
        group = torch.zeros_like(batch.given, device=losses.device)
        noisy = 1 - mixtures.clean_probability(losses, group)
        noisy = noisy.clamp(SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY).float()
        return noisy.to(logits.device)

    def one_hot_given(self, batch: Batch) -> Tensor:
        """(B, K) one-hot given labels."""
        return F.one_hot(batch.given, self.data.num_classes).float()

    def judge(self) -> Judgement:
        """Clean probabilities by a loss mixture that is fitted to the current losses."""
        judgement = super().judge()
        prediction = torch.from_numpy(judgement.prediction)
        given = torch.from_numpy(judgement.given)
        losses = -prediction.gather(1, given[:, None]).squeeze(1).clamp(min=1e-8).log()
        fitted = self.loss_mixture.fit_predict(losses, given, self.data.num_classes)
        clean = array(fitted.clean_probability)
        return replace(judgement, clean_probability=clean, score_kind="mixture")
