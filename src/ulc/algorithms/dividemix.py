"""DivideMix (Li et al., ICLR 2020)."""

from dataclasses import replace
from typing import Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from ulc.algorithms.base import Algorithm, array
from ulc.blocks.averages import Record
from ulc.blocks.dividing import divide
from ulc.blocks.learner import Learner, each_with_peer, evaluating, make_pair
from ulc.blocks.loss_history import LossHistory
from ulc.blocks.loss_mixture import GaussianLossMixture
from ulc.blocks.losses import negative_entropy, prior_penalty
from ulc.blocks.mixmatch import SemiSupervisedLoss, TargetedViews, guess, mixmatch_loss, sharpen
from ulc.blocks.per_sample import example_losses
from ulc.blocks.pseudo_epochs import draw_rows, fill_unseen
from ulc.blocks.schedules import linear_rampup
from ulc.blocks.uncertainty import plain_log_probability
from ulc.config import SGD, Spec
from ulc.data.training import Batch, TrainingData, paired_batches
from ulc.labels.judgement import Judgement
from ulc.networks import NewNetwork
from ulc.networks.classifier import HeadSpec


class Config(Spec):
    """Options of DivideMix; defaults: those of the authors for CIFAR-10 at 50 % symmetric noise."""

    warmup_epochs: int = Field(10, ge=0)
    warmup_batch_size: int = Field(128, ge=2)
    warmup_entropy: float = Field(
        0.0, ge=0, description="weight of the confidence penalty; 1 for asymmetric noise"
    )
    threshold: float = Field(0.5, gt=0, lt=1, description="τ: labels with p > τ are trusted")
    loss_history: int = Field(1, ge=1, description="epochs over which to average losses; 5 at 90 %")
    zero_losses: int = Field(
        0, ge=0, description="losses of 0 in the fit: the authors' code has one per removed example"
    )
    temperature: float = Field(0.5, gt=0, description="T of sharpening")
    mixup_alpha: float = Field(4.0, ge=0)
    doubtful_weight: float = Field(25.0, ge=0, description="λ_u, reached after `rampup_epochs`")
    rampup_epochs: int = Field(16, ge=0)
    prior_weight: float = Field(1.0, ge=0, description="λ_r: weight of the uniform-prior penalty")
    batch_size: int = Field(64, ge=2)
    warmup_examples: int | None = Field(
        None, ge=4, description="examples of an epoch of warm-up, balanced by class; None: all"
    )
    epoch_examples: int | None = Field(
        None, ge=4, description="those of a network in a later epoch, drawn anew; None: all"
    )
    sgd: SGD = SGD()

    @model_validator(mode="after")
    def _history_needs_all_examples(self) -> Self:
        if self.epoch_examples is not None and self.loss_history > 1:
            raise ValueError("loss_history averages losses of all examples; leave out one of both")
        return self


class DivideMix(Algorithm):
    """Two networks; each divides the labels into trusted and doubtful ones for its peer.

    The peer learns from both parts with MixMatch (Algorithm 1 of the paper).
    """

    config_class = Config
    clean_probability: Tensor
    prediction: Tensor

    def __init__(self, config: Config, data: TrainingData, new_network: NewNetwork) -> None:
        super().__init__(data)
        self.config = config
        self.threshold = config.threshold
        self.pair = make_pair(lambda: Learner(new_network(HeadSpec()), config.sgd))
        self.history = LossHistory(config.loss_history, data.given)
        self.loss_mixture = GaussianLossMixture(
            per_class=False, monotone=False, zero_losses=config.zero_losses
        )
        unknown = torch.full((2, len(data)), torch.nan, device=data.given.device)
        self.register_buffer("clean_probability", unknown)
        if config.epoch_examples is not None:
            predicted = unknown[..., None].repeat(1, 1, data.num_classes)
            self.register_buffer("prediction", predicted)  # as last seen in training

    def train_epoch(self, epoch: int) -> Record:
        """Warm up; later divide the labels by each network's losses and train its peer."""
        if epoch < self.config.warmup_epochs:
            return self.warm_up()
        given, classes = self.data.given, self.data.num_classes
        drawn = [draw_rows(self.data, self.config.epoch_examples) for _ in self.pair]
        losses = torch.stack(
            [
                example_losses(learner, self.data, rows)
                for learner, rows in zip(self.pair, drawn, strict=True)
            ]
        )
        for side, (each, rows) in enumerate(zip(self.history.smooth(losses), drawn, strict=True)):
            fitted = self.loss_mixture.fit_predict(each, given[rows], classes)
            # co-divide: for the peer
            self.clean_probability[1 - side, rows] = fitted.clean_probability
        if self.data.verified is not None:
            self.clean_probability[:, self.data.verified] = 1
        averages = self.averages()
        for side, (learner, peer) in enumerate(each_with_peer(self.pair)):
            clean, rows = self.clean_probability[side], drawn[1 - side]
            trusted = divide(
                clean[rows],
                given[rows],
                clean[rows] > self.config.threshold,
                self.config.batch_size,
            )
            steps = int(trusted.sum()) // self.config.batch_size + 1
            pairs = paired_batches(self.data, trusted, self.config.batch_size, among=rows)
            for step, (trusted_batch, doubtful_batch) in enumerate(pairs):
                parts = self.semi_supervised_loss(
                    learner, peer, clean, trusted_batch, doubtful_batch
                )
                since = epoch + step / steps - self.config.warmup_epochs
                ramp = linear_rampup(since, self.config.rampup_epochs)
                loss = parts.trusted + ramp * self.config.doubtful_weight * parts.doubtful
                loss = loss + self.config.prior_weight * prior_penalty(parts.logits)
                learner.descend(loss)
                averages.add(
                    trusted_loss=parts.trusted.detach(), doubtful_loss=parts.doubtful.detach()
                )
            averages.add(trusted=trusted.float().mean())
        return averages.record()

    def warm_up(self) -> Record:
        """Train each network with cross entropy on all given labels."""
        averages = self.averages()
        for learner in self.pair:
            rows = draw_rows(self.data, self.config.warmup_examples)
            for batch in self.data.batches(self.config.warmup_batch_size, among=rows):
                logits = learner(batch.inputs).logits
                self.remember(learner, batch, logits.detach().softmax(1))
                loss = F.cross_entropy(logits, batch.given)
                if self.config.warmup_entropy:
                    loss = loss + self.config.warmup_entropy * negative_entropy(logits)
                averages.add(loss=learner.descend(loss))
        return averages.record()

    def semi_supervised_loss(
        self, learner: Learner, peer: Learner, clean: Tensor, trusted: Batch, doubtful: Batch
    ) -> SemiSupervisedLoss:
        """MixMatch loss on refined trusted labels and guessed doubtful labels (Eq. 3 to 8).

        As in the authors' code, the learner guesses in training mode, its peer in evaluation mode.
        """
        with evaluating(peer):
            guessed = guess([learner, peer], doubtful.views)
        given = F.one_hot(trusted.given, self.data.num_classes).float()
        predicted = guess([learner], trusted.views)
        self.remember(learner, doubtful, guessed)
        self.remember(learner, trusted, predicted)
        refined = predicted.lerp(given, clean[trusted.index, None])
        return mixmatch_loss(
            learner,
            TargetedViews(trusted.views, sharpen(refined, self.config.temperature)),
            TargetedViews(doubtful.views, sharpen(guessed, self.config.temperature)),
            alpha=self.config.mixup_alpha,
            log_probability=plain_log_probability,
        )

    def remember(self, learner: Learner, batch: Batch, prediction: Tensor) -> None:
        """Keep the (B, K) predictions of a batch, in epochs on a part of the data."""
        if self.config.epoch_examples is not None:
            self.prediction[int(learner is self.pair[1]), batch.index] = prediction

    def judge(self) -> Judgement:
        """Clean probabilities: mean of both loss mixtures; during warm-up, from the prediction.

        In epochs on a part of the data, what was last seen of each example counts.
        """
        if self.config.epoch_examples is not None:
            return self.judge_last_seen()
        judgement = super().judge()
        if self.clean_probability.isnan().any():
            return judgement
        clean = array(self.clean_probability.mean(0))
        return replace(judgement, clean_probability=clean, score_kind="mixture")

    def judge_last_seen(self) -> Judgement:
        """The judgement by what each network has last seen; an unknown example is not accused."""
        given, known = self.data.given, self.prediction.nanmean(0)
        predicted = fill_unseen(known, given, self.data.num_classes)
        judgement, clean = Judgement.of(array(predicted), array(given)), known[:, 0]
        if not self.clean_probability.isnan().all():
            clean = self.clean_probability.nanmean(0)
            judgement = replace(
                judgement, clean_probability=array(clean.nan_to_num()), score_kind="mixture"
            )
        return judgement.without_evidence(array(clean.isnan()), self.threshold)
