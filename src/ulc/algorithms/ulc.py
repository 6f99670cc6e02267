"""ULC: Uncertainty-aware Label Correction (Huang et al., AAAI 2022)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor

from ulc.algorithms.base import Algorithm, array
from ulc.blocks.averages import Record
from ulc.blocks.class_guard import ClassGuard
from ulc.blocks.dividing import divide
from ulc.blocks.fixmatch import fixmatch_loss
from ulc.blocks.learner import Learner, each_with_peer, evaluating, make_pair
from ulc.blocks.loss_history import LossHistory
from ulc.blocks.loss_mixture import LOSS_MIXTURES
from ulc.blocks.losses import negative_entropy, prior_penalty, soft_cross_entropy
from ulc.blocks.mixmatch import SemiSupervisedLoss, TargetedViews, guess, mixmatch_loss, sharpen
from ulc.blocks.pseudo_epochs import draw_rows, fill_unseen
from ulc.blocks.schedules import linear_rampup
from ulc.blocks.uncertainty import (
    DOUBT_SCALINGS,
    CorruptedLogProbability,
    IntegratedPredictions,
    integrate_predictions,
    plain_log_probability,
)
from ulc.config import SGD, Spec
from ulc.data.rows import rows_at
from ulc.data.training import Batch, TrainingData, paired_batches
from ulc.labels.judgement import Judgement
from ulc.networks import NewNetwork
from ulc.networks.classifier import HeadSpec
from ulc.typing import Floats


class Config(Spec):
    """Options of ULC; defaults: those of the paper for CIFAR-10, else those of DivideMix."""

    per_class: bool = Field(True, description="one mixture per class; false: without CSM")
    doubt_weight: float = Field(0.1, ge=0, le=1, description="r of the paper; 0: without EUM")
    logit_noise: Literal["off", "local", "shared"] = Field(
        "local", description="off: without AUL; shared: one draw of δ per batch"
    )
    initial_instance_std: float = Field(
        1.0, gt=0, description="standard deviation of δ^x at the start"
    )
    initial_class_std: float = Field(
        0.3, gt=0, description="√K times the standard deviation of an entry of δ at the start"
    )
    noise_lr: float = Field(
        1.0, ge=0, description="learning rate of δ and of the bias of δ^x, relative to sgd.lr"
    )
    passes: int = Field(10, ge=1, description="T: number of dropout passes and of noise draws")
    dropout: float = Field(0.3, ge=0, lt=1)
    dropout_place: Literal["feature", "last_stage"] = "feature"
    doubt: Literal["entropy", "mutual_information"] = Field(
        "entropy", description="ε: of the integrated prediction; or between it and the passes"
    )
    doubt_scaling: Literal["log_classes", "range"] = "log_classes"
    monotone: bool = Field(True, description="a smaller loss is never less likely clean")
    one_component_guard: bool = Field(
        False, description="trust a class that one component explains"
    )
    mixture: Literal["gaussian", "beta"] = "gaussian"
    zero_losses: int = Field(
        0, ge=0, description="without CSM: losses of 0 in the fit, as in DivideMix's public code"
    )
    class_guard: Literal["off", "anchored"] = Field(
        "off", description="anchored: keep classes that are unknown or die out (not in the paper)"
    )
    threshold: float = Field(0.5, gt=0, lt=1, description="τ: labels with ω ≥ τ are trusted")
    loss_history: int = Field(1, ge=1, description="epochs over which to average losses; 5 at 90 %")
    refinement: Literal["epoch", "batch"] = Field(
        "epoch", description="when trusted labels are refined; batch: as in DivideMix"
    )
    warmup_epochs: int = Field(30, ge=0)
    warmup_batch_size: int = Field(128, ge=2)
    warmup_entropy: float = Field(
        0.0, ge=0, description="weight of the confidence penalty; 1 for asymmetric noise"
    )
    semi_supervised: Literal["mixmatch", "fixmatch"] = "mixmatch"
    temperature: float = Field(0.5, gt=0, description="mixmatch: T of sharpening")
    mixup_alpha: float = Field(4.0, ge=0, description="mixmatch: α of mixup")
    doubtful_weight: float = Field(25.0, ge=0, description="mixmatch: λ_u, after `rampup_epochs`")
    rampup_epochs: int = Field(16, ge=0, description="mixmatch: epochs until λ_u is reached")
    confidence: float = Field(0.95, ge=0, le=1, description="fixmatch: least confidence of a guess")
    guess_weight: float = Field(1.0, ge=0, description="fixmatch: λ_u, from the start")
    prior_weight: float = Field(0.0, ge=0, description="λ_r: weight of the uniform-prior penalty")
    batch_size: int = Field(64, ge=2)
    warmup_examples: int | None = Field(
        None, ge=4, description="examples of an epoch of warm-up, balanced by class; None: all"
    )
    epoch_examples: int | None = Field(
        None, ge=4, description="those of a network in a later epoch, drawn anew; None: all"
    )
    sgd: SGD = SGD()

    @model_validator(mode="after")
    def _parts_that_need_all_examples(self) -> Self:
        if self.epoch_examples is not None:
            if self.loss_history > 1:
                raise ValueError("loss_history needs all examples; leave out epoch_examples")
            if self.class_guard != "off":
                raise ValueError("class_guard needs all examples; leave out epoch_examples")
        return self


class ULC(Algorithm):
    """Two networks that correct labels by class-specific loss mixtures and epistemic uncertainty.

    They learn the corrected labels through noisy logits (Algorithm 1 of the paper).
    """

    config_class = Config
    doubt: Tensor
    trust: Tensor
    prediction: Tensor
    instance_std: Tensor

    def __init__(self, config: Config, data: TrainingData, new_network: NewNetwork) -> None:
        super().__init__(data)
        self.config = config
        self.threshold = config.threshold
        noisy = config.logit_noise != "off"
        heads = HeadSpec(
            dropout=config.dropout,
            dropout_place=config.dropout_place,
            logit_noise=noisy,
            instance_std=config.initial_instance_std,
            class_std=config.initial_class_std,
            noise_lr=config.noise_lr,
        )
        self.pair = make_pair(lambda: Learner(new_network(heads), config.sgd))
        self.history = LossHistory(config.loss_history, data.given)
        self.loss_mixture = LOSS_MIXTURES[config.mixture](
            per_class=config.per_class,
            monotone=config.monotone,
            one_component_guard=config.one_component_guard,
            zero_losses=config.zero_losses,
        )
        self.guard = ClassGuard(data) if config.class_guard == "anchored" else None
        self.fixmatch = config.semi_supervised == "fixmatch"
        self.views = {"views": 1, "strong": 1} if self.fixmatch else {"views": 2}
        self.scaled_doubt = DOUBT_SCALINGS[config.doubt_scaling]
        self.log_probability = (
            CorruptedLogProbability(config.passes, shared=config.logit_noise == "shared")
            if noisy
            else plain_log_probability
        )
        shape = (2, len(data), data.num_classes)
        unknown = torch.full(shape, torch.nan, device=data.given.device)
        self.register_buffer("doubt", unknown[..., 0].clone())  # ε
        self.register_buffer("trust", unknown[..., 0].clone())  # ω
        self.register_buffer("prediction", unknown.clone())  # ŷ
        self.register_buffer("instance_std", unknown.clone())  # σ^x, as a standard deviation

    def train_epoch(self, epoch: int) -> Record:
        """Warm up; later correct the labels, divide them, and train on both parts."""
        if epoch < self.config.warmup_epochs:
            return self.warm_up()
        if self.guard is None:
            return self.learn_corrected_labels(epoch)
        integrated = self.integrate(draw_rows(self.data, None))
        unknown = {"unknown_classes": self.guard.observe(integrated)}
        if self.guard.waits:  # corrected labels would follow networks that know too few classes
            return self.warm_up(dropout=False) | unknown
        return self.learn_corrected_labels(epoch, integrated) | unknown

    def learn_corrected_labels(
        self, epoch: int, integrated: Sequence[IntegratedPredictions] | None = None
    ) -> Record:
        """An epoch after the warm-up: an update of the labels (paper Eq. 3), then the networks.

        integrated: integrated predictions of each network; None: they are computed here
        """
        averages = self.averages()
        drawn = [draw_rows(self.data, self.config.epoch_examples) for _ in self.pair]
        if self.config.epoch_examples is None:
            averages.add(**self.update_trust(integrated=integrated))
        else:
            for side, rows in enumerate(drawn):
                averages.add(**self.update_trust(rows, sides=(side,)))
        for side, (learner, rows) in enumerate(zip(self.pair, drawn, strict=True)):
            trust = self.trust[side, rows]
            trusted = divide(
                trust, self.data.given[rows], trust >= self.config.threshold, self.config.batch_size
            )
            steps = int(trusted.sum()) // self.config.batch_size + 1
            pairs = paired_batches(
                self.data, trusted, self.config.batch_size, among=rows, **self.views
            )
            targets = self.epoch_targets(side)
            for step, (trusted_batch, doubtful_batch) in enumerate(pairs):
                parts = self.semi_supervised_loss(side, trusted_batch, doubtful_batch, targets)
                since = epoch + step / steps - self.config.warmup_epochs
                loss = parts.trusted + self.doubtful_weight(since) * parts.doubtful
                if self.config.prior_weight:
                    loss = loss + self.config.prior_weight * prior_penalty(parts.logits)
                learner.descend(loss)
                averages.add(
                    trusted_loss=parts.trusted.detach(), doubtful_loss=parts.doubtful.detach()
                )
                if parts.sure is not None:
                    averages.add(sure=parts.sure)
            averages.add(trusted=trusted.float().mean())
        return averages.record()

    def warm_up(self, *, dropout: bool = True) -> Record:
        """Train with cross entropy on all given labels, noisy logits and a confidence penalty."""
        unused = () if dropout else (each.network.dropout for each in self.pair)
        with evaluating(*(each for each in unused if each is not None)):
            return self.learn_given_labels()

    def learn_given_labels(self) -> Record:
        """An epoch of the warm-up."""
        averages = self.averages()
        for side, learner in enumerate(self.pair):
            rows = draw_rows(self.data, self.config.warmup_examples)
            for batch in self.data.batches(self.config.warmup_batch_size, among=rows):
                output = learner(batch.inputs)
                if self.config.epoch_examples is not None:
                    self.prediction[side, batch.index] = output.logits.detach().softmax(1)
                given = F.one_hot(batch.given, self.data.num_classes)
                loss = soft_cross_entropy(self.log_probability(output), given)
                if self.config.warmup_entropy:
                    loss = loss + self.config.warmup_entropy * negative_entropy(output.logits)
                averages.add(loss=learner.descend(loss))
        return averages.record()

    def integrate(self, rows: Tensor) -> list[IntegratedPredictions]:
        """Integrated predictions for `rows` by each network."""
        return [
            integrate_predictions(learner, self.data, self.config.passes, rows)
            for learner in self.pair
        ]

    def update_trust(
        self,
        rows: Tensor | None = None,
        sides: Sequence[int] = (0, 1),
        integrated: Sequence[IntegratedPredictions] | None = None,
    ) -> Record:
        """Compute integrated predictions ŷ, uncertainty ε and trust ω of labels for some networks.

        For each network, ε and ŷ come from the network itself, but the clean probability p in ω
        comes from the losses of its peer (Algorithm 1).

        rows: (M,) positions of the labels; None: all labels
        sides: numbers of the networks, 0 or 1
        integrated: integrated predictions for the rows; None: they are computed here
        """
        rows = draw_rows(self.data, None) if rows is None else rows
        given, classes = self.data.given[rows], self.data.num_classes
        integrated = integrated or self.integrate(rows)
        losses = self.history.smooth(torch.stack([each.given_losses(given) for each in integrated]))
        fitted = [self.loss_mixture.fit_predict(each, given, classes) for each in losses]
        cleans = [each.clean_probability for each in fitted]
        guarded = self.guard.protect(cleans) if self.guard is not None else {}
        moved = []
        for side in sides:
            own, clean = integrated[side], cleans[1 - side]
            doubt = self.scaled_doubt(own.doubt(self.config.doubt), classes)
            trust = compute_trust(clean, doubt, self.config.doubt_weight)
            moved.append((clean >= self.threshold) != (trust >= self.threshold))
            if self.data.verified is not None:
                trust[self.data.verified[rows]] = 1
            self.doubt[side, rows], self.trust[side, rows] = doubt, trust
            self.prediction[side, rows] = own.prediction
            if own.instance_std is not None:
                self.instance_std[side, rows] = own.instance_std
        return {
            "fallback_classes": sum(float(each.fell_back.sum()) for each in fitted) / 2,
            "one_component_classes": sum(float(each.one_component.sum()) for each in fitted) / 2,
            "losses_not_finite": sum(each.not_finite for each in fitted) / 2,
            "moved_by_doubt": float(torch.stack(moved).float().mean()),
            **guarded,
        }

    def semi_supervised_loss(
        self, side: int, trusted: Batch, doubtful: Batch, targets: Tensor | None
    ) -> SemiSupervisedLoss:
        """Loss on corrected labels of trusted examples and guesses for doubtful ones, noisy logits.

        targets: (N, K) corrected labels of this epoch; None: correct the labels of this batch
        """
        learner, peer = each_with_peer(self.pair)[side]
        with evaluating(peer):
            guessed = guess([learner, peer], doubtful.views)
        if self.guard is not None:
            guessed = self.guard.align(guessed)
        if targets is not None:
            labels = rows_at(targets, trusted.index)
        else:
            refined = guess([learner], trusted.views)
            trust = self.trust[side, trusted.index]
            labels = self.sharpen_for_mixmatch(correct(refined, trusted.given, trust))
        if self.fixmatch:
            return fixmatch_loss(
                learner,
                TargetedViews(trusted.views, labels),
                TargetedViews(doubtful.strong, guessed),
                confidence=self.config.confidence,
                log_probability=self.log_probability,
            )
        return mixmatch_loss(
            learner,
            TargetedViews(trusted.views, labels),
            TargetedViews(doubtful.views, self.sharpen_for_mixmatch(guessed)),
            alpha=self.config.mixup_alpha,
            log_probability=self.log_probability,
        )

    def sharpen_for_mixmatch(self, labels: Tensor) -> Tensor:
        """Sharpened labels for MixMatch; for FixMatch the labels as they are."""
        return labels if self.fixmatch else sharpen(labels, self.config.temperature)

    def epoch_targets(self, side: int) -> Tensor | None:
        """(N, K) targets of this epoch for one network; None: labels are refined in every batch.

        side: number of the network, 0 or 1
        """
        return (
            self.sharpen_for_mixmatch(self.soft_labels(side))
            if self.config.refinement == "epoch"
            else None
        )

    def soft_labels(self, side: int) -> Tensor:
        """(N, K) corrected labels of the network `side` (Y of Algorithm 1)."""
        return correct(self.prediction[side], self.data.given, self.trust[side])

    def doubtful_weight(self, since: float) -> float:
        """Weight λ_u of the loss of doubtful rows, `since` epochs after the warm-up."""
        if self.fixmatch:
            return self.config.guess_weight
        return self.config.doubtful_weight * linear_rampup(since, self.config.rampup_epochs)

    def judge(self) -> Judgement:
        """Judge by ω, the mean of both networks; during warm-up, by the prediction.

        In epochs on a part of the data, what was last seen of each example counts.
        """
        if self.config.epoch_examples is not None:
            return self.judge_last_seen()
        if self.trust.isnan().any():
            return super().judge()
        return Judgement(
            given=array(self.data.given),
            clean_probability=array(self.trust.mean(0)),
            prediction=array(self.prediction.mean(0)),
            epistemic=array(self.doubt.mean(0)),
            aleatoric=array(self.instance_std.mean((0, 2))),
            score_kind="omega",
        )

    def judge_last_seen(self) -> Judgement:
        """The judgement by what each network has last seen; an unknown example is not accused."""
        given, known = self.data.given, self.prediction.nanmean(0)
        predicted = fill_unseen(known, given, self.data.num_classes)
        judgement, trust = Judgement.of(array(predicted), array(given)), known[:, 0]
        if not self.trust.isnan().all():
            trust = self.trust.nanmean(0)
            judgement = replace(
                judgement,
                clean_probability=array(trust.nan_to_num()),
                epistemic=array(self.doubt.nanmean(0)),
                aleatoric=array(self.instance_std.nanmean((0, 2))),
                score_kind="omega",
            )
        return judgement.without_evidence(array(trust.isnan()), self.threshold)

    def outputs(self) -> dict[str, NDArray[Any]]:
        """Outputs of Algorithm 1 except the weights, per network: Y, ω, ε, σ^x and σ."""
        content = {
            "corrected_labels": torch.stack([self.soft_labels(side) for side in (0, 1)]),
            "clean_probability": self.trust,
            "epistemic": self.doubt,
            "instance_noise_std": self.instance_std,
        }
        if self.config.logit_noise != "off":
            content["class_noise_std"] = self.class_noise()
        return {name: array(values) for name, values in content.items()}

    def class_measures(self) -> dict[str, Floats]:
        """Norm of each class's weights, and root mean square of the class noise on its logit."""
        measures = super().class_measures()
        if self.config.logit_noise == "off":
            return measures
        noise = self.class_noise().square().mean((0, 2)).sqrt()
        return measures | {"class_noise": array(noise)}

    def class_noise(self) -> Tensor:
        """(2, K, K) standard deviations σ of the class noise δ, one matrix per network."""
        stds = [network.class_std for network in self.networks()]
        return torch.stack([each.detach().abs() for each in stds if each is not None])


def compute_trust(clean: Tensor, doubt: Tensor, doubt_weight: float) -> Tensor:
    """Trust ω = (1 − ε)^r · p^(1 − r) (paper Eq. 5).

    clean: p; doubt: ε; doubt_weight: r
    """
    return (1 - doubt) ** doubt_weight * clean ** (1 - doubt_weight)


def correct(prediction: Tensor, given: Tensor, trusted: Tensor) -> Tensor:
    """(B, K) corrected labels y = ω·ỹ + (1 − ω)·ŷ (paper Eq. 6; Eq. 4 has p in place of ω).

    prediction: (B, K) ŷ; given: (B,) classes, ỹ as one-hot; trusted: (B,) ω
    """
    omega = trusted[:, None]
    return (prediction * (1 - omega)).scatter_add(1, given[:, None], omega)
