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
from ulc.blocks.mixup import blend, draw_partner, draw_share
from ulc.blocks.per_sample import example_losses
from ulc.blocks.schedules import linear_rampup
from ulc.config import SGD, Spec
from ulc.data.training import Batch, TrainingData
from ulc.labels.judgement import Judgement
from ulc.networks import NewNetwork
from ulc.networks.classifier import HeadSpec

COLDEST = 0.001  # temperature at which a softmax is as good as an arg-max
NARROW = 1e-4  # no label is believed or doubted altogether


class Config(Spec):
    """Defaults: the authors' M-DYR-H on CIFAR."""

    bootstrapping: Literal["hard", "dynamic"] = Field(
        "hard", description="hard: M-DYR-H; dynamic: MD-DYR-SH"
    )
    warmup_epochs: int = Field(105, ge=0, description="epochs of plain mixup first")
    dynamic_epochs: int = Field(5, ge=0, description="dynamic mixup before it also bootstraps")
    cooling_epochs: int = Field(89, ge=0, description="dynamic: from soft to hard predictions")
    mixup_alpha: float = Field(32.0, ge=0)
    prior_weight: float = Field(1.0, ge=0, description="of the uniform-prior penalty")
    batch_size: int = Field(128, ge=2)
    sgd: SGD = SGD(lr=0.1, weight_decay=1e-4, milestones=(100, 250))


class MCorrection(Algorithm):
    """Trust each label as far as a Beta mixture on the losses says, the network for the rest."""

    config_class = Config

    def __init__(self, config: Config, data: TrainingData, new_network: NewNetwork) -> None:
        super().__init__(data)
        self.config = config
        self.learner = Learner(new_network(HeadSpec()), config.sgd)
        self.loss_mixture = BetaLossMixture(per_class=False)

    def train_epoch(self, epoch: int) -> Record:
        """Plain mixup; then labels bootstrapped by the mixture of this epoch."""
        seen = self.averages()
        since = epoch - self.config.warmup_epochs
        mixtures = None
        if since >= 0:
            losses = example_losses(self.learner, self.data).double()
            losses = losses[losses.isfinite()]
            group = losses.new_zeros(len(losses)).long()
            mixtures = self.loss_mixture.fit(losses, group, 1)
            clean = mixtures.clean_probability(losses, group)
            seen.add(clean=float(clean.mean()), reliable=float(mixtures.fit))
        for batch in self.data.batches(self.config.batch_size):
            if mixtures is None:
                loss = self.mixup(batch)
            elif self.config.bootstrapping == "hard":
                loss = self.bootstrap(batch, mixtures)
            else:
                loss = self.dynamic(batch, mixtures, since)
            seen.add(loss=self.learner.descend(loss))
        return seen.record()

    def mixup(self, batch: Batch) -> Tensor:
        """Cross entropy of mixed inputs and given labels."""
        lam = draw_share(self.config.mixup_alpha)
        partner = draw_partner(batch.inputs, lam)
        logits = self.learner(blend(batch.inputs, partner, lam)).logits
        return soft_cross_entropy(logits.log_softmax(1), blend(self.given(batch), partner, lam))

    def bootstrap(self, batch: Batch, mixtures: ScaledMixtures) -> Tensor:
        """M-DYR-H: a doubted label gives way to the class that the network favours."""
        noisy = self.noisy_probability(batch, mixtures)
        with torch.no_grad():
            favoured = self.learner(batch.inputs).logits.argmax(1)
        own = F.one_hot(favoured, self.data.num_classes).float()
        target = self.given(batch).lerp(own, noisy[:, None])
        lam = draw_share(self.config.mixup_alpha)
        partner = draw_partner(batch.inputs, lam)
        logits = self.learner(blend(batch.inputs, partner, lam)).logits
        fit = soft_cross_entropy(logits.log_softmax(1), blend(target, partner, lam))
        return fit + self.config.prior_weight * prior_penalty(logits)

    def dynamic(self, batch: Batch, mixtures: ScaledMixtures, since: int) -> Tensor:
        """MD-DYR-SH: the likelier clean of two inputs has more weight in their mixture.

        First with the given labels alone, later with predictions that grow harder.
        """
        clean = 1 - self.noisy_probability(batch, mixtures)
        partner = torch.randperm(len(batch), device=clean.device)
        mixed = blend(batch.inputs, partner, clean / (clean + clean[partner]))
        if since < self.config.dynamic_epochs:
            log_p = self.learner(mixed).logits.log_softmax(1)
            lam = draw_share(self.config.mixup_alpha)
            return soft_cross_entropy(log_p, blend(self.given(batch), partner, lam))
        with torch.no_grad():
            logits = self.learner(batch.inputs).logits
        own = (logits / self.temperature(since)).softmax(1)
        target = own.lerp(self.given(batch), clean[:, None])
        logits = self.learner(mixed).logits
        fit = soft_cross_entropy(logits.log_softmax(1), blend(target, partner, 0.5))
        return fit + self.config.prior_weight * prior_penalty(logits)

    def temperature(self, since: int) -> float:
        """From 1 down to nearly 0, in a line."""
        warm = 1 - linear_rampup(since - self.config.dynamic_epochs, self.config.cooling_epochs)
        return COLDEST + warm * (1 - COLDEST)

    @torch.no_grad()
    def noisy_probability(self, batch: Batch, mixtures: ScaledMixtures) -> Tensor:
        """(B,) that each label is wrong, by its loss now, in evaluation mode."""
        with evaluating(self.learner):
            logits = self.learner(batch.inputs).logits
        losses = F.cross_entropy(logits, batch.given, reduction="none").double()
        clean = mixtures.clean_probability(losses, torch.zeros_like(batch.given))
        return (1 - clean).clamp(NARROW, 1 - NARROW).float()

    def given(self, batch: Batch) -> Tensor:
        """(B, K) given labels as targets."""
        return F.one_hot(batch.given, self.data.num_classes).float()

    def judge(self) -> Judgement:
        """What a mixture on the present losses says."""
        judgement = super().judge()
        prediction = torch.from_numpy(judgement.prediction)
        given = torch.from_numpy(judgement.given)
        losses = -prediction.gather(1, given[:, None]).squeeze(1).clamp(min=1e-8).log()
        belief = self.loss_mixture.judge(losses, given, self.data.num_classes)
        return replace(judgement, clean_probability=array(belief.clean_probability))
