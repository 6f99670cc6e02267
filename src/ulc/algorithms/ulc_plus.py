"""ULC+: trust by networks that have not learned a label, and balanced learning of given labels."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from ulc.algorithms.base import Algorithm, array, own_array
from ulc.blocks.averages import Record
from ulc.blocks.dividing import draw_folds, likeliest_of_each_class
from ulc.blocks.generalisation import evenly_spaced, generalisation_gap
from ulc.blocks.label_posterior import AnchoredConfusion
from ulc.blocks.learner import Learner, evaluating
from ulc.blocks.losses import soft_cross_entropy
from ulc.blocks.mixup import blend, draw_lambda, draw_partner
from ulc.blocks.noise_priors import priors_of_networks
from ulc.blocks.uncertainty import integrate_in_batches, normalised_entropy
from ulc.config import SGD, Spec
from ulc.data.training import TrainingData
from ulc.labels.judgement import Judgement
from ulc.networks import NewNetwork
from ulc.networks.classifier import Classifier, HeadSpec
from ulc.networks.processes import by_first
from ulc.typing import Floats

if TYPE_CHECKING:
    from collections.abc import Sequence


MOST_COMPARED = 4096  # labels by which the generalisation gap is measured
ROWS_AT_ONCE = 1024  # rows whose entropies are computed at once
CROSSED_AGAIN = 5  # networks share labels until the gap is so many times `allowed_gap`


class Config(Spec):
    """Options of ULC+; the numbers of epochs are for 300 epochs."""

    warmup_epochs: int = Field(30, ge=1, description="epochs on given labels, before any trust")
    cross_epochs: int = Field(150, ge=1, description="epochs until trust is frozen")
    folds: int = Field(2, ge=2, description="number of networks, and of parts of the data")
    cross_fitted: bool = Field(
        True, description="judge labels by networks that have not learned them; false: by all"
    )
    anchored: bool = Field(
        True, description="keep the class frequencies that the given labels imply"
    )
    row_noise: bool = Field(
        True, description="label noise depends on the row; false: one confusion matrix for all rows"
    )
    allowed_gap: float = Field(
        0.02,
        ge=0,
        description="generalisation gap in nats below which networks learn all labels; 0: never",
    )
    weighted: bool = Field(
        True, description="weight labels by trust; false: weight 1 from the threshold on, else 0"
    )
    balanced: bool = Field(True, description="learn for equal class frequencies")
    smallest_weight: float = Field(0.05, ge=0, lt=1, description="labels below are left out")
    mixup_alpha: float = Field(
        1.0, ge=0, description="α of mixup if half of the labels are wrong; less with fewer"
    )
    threshold: float = Field(0.5, gt=0, lt=1, description="τ: labels with ω ≥ τ are trusted")
    passes: int = Field(10, ge=1, description="number of dropout passes")
    dropout: float = Field(0.3, ge=0, lt=1)
    batch_size: int = Field(64, ge=2)
    sgd: SGD = SGD(milestones=(), cosine_epochs=300, average_epochs=1.0)


class ULCPlus(Algorithm):
    """Networks that judge the labels they have not learned, then learn all trusted labels.

    While nothing is memorised (`memorising` is false), no means against it is used: networks learn
    all labels but a few that are watched, without mixup and dropout, and all networks judge.

    memorising: whether networks memorise labels, by the generalisation gap; true at the start
    trust: (N,) ω, probability that the given label is right; NaN during warm-up
    log_prediction: (N, K) log ŷ, by the network that has not learned the example's label
    learned: (K,) class frequencies among the weighted labels
    """

    config_class = Config
    memorising: Tensor
    fold: Tensor
    trust: Tensor
    log_prediction: Tensor
    learned: Tensor

    def __init__(self, config: Config, data: TrainingData, new_network: NewNetwork) -> None:
        super().__init__(data)
        self.config = config
        self.threshold = config.threshold
        heads = HeadSpec(dropout=config.dropout)
        members = [Learner(new_network(heads), config.sgd) for _ in range(config.folds)]
        self.members = cast("Sequence[Learner]", nn.ModuleList(members))
        count, classes, device = len(data), data.num_classes, data.given.device
        priors = priors_of_networks(classes, row_noise=config.row_noise)
        self.confusion = AnchoredConfusion(classes, device, anchored=config.anchored, priors=priors)
        fold = draw_folds(data.given, data.first_copy, config.folds)
        self.register_buffer("memorising", torch.tensor(True, device=device))
        self.register_buffer("fold", fold)
        self.register_buffer("trust", torch.full((count,), torch.nan, device=device))
        unknown = torch.full((count, classes), torch.nan, device=device)
        self.register_buffer("log_prediction", unknown)
        self.register_buffer("learned", torch.full((classes,), 1 / classes, device=device))

    def train_epoch(self, epoch: int) -> Record:
        """Judge the labels until trust is frozen; let each network learn its labels."""
        averages = self.averages()
        crossing = epoch < self.config.cross_epochs
        if crossing and epoch:
            averages.add(**self.notice_memorising())
        if epoch >= self.config.warmup_epochs and (crossing or not self.has_judged):
            averages.add(**self.update_trust())
        weight = self.weights()
        log_prior, alpha = self.log_prior(), self.alpha()
        read_logits = logits_with_dropout if self.memorising else Classifier.clean_logits
        for number, learner in enumerate(self.members):
            among = self.rows_of(number, weight, crossing=crossing)
            mean_weight = weight[among].mean()
            for batch in self.data.batches(self.config.batch_size, among=among):
                target = F.one_hot(batch.given, self.data.num_classes).float()
                target = target * (weight[batch.index] / mean_weight)[:, None]
                lam = draw_lambda(alpha)
                partner = draw_partner(batch.inputs, lam)
                logits = read_logits(learner.network, blend(batch.inputs, partner, lam))
                log_probability = (logits + log_prior).log_softmax(1)
                loss = soft_cross_entropy(log_probability, blend(target, partner, lam))
                averages.add(loss=learner.descend(loss))
        return averages.record()

    def notice_memorising(self) -> Record:
        """Find out whether networks memorise labels; return what to record.

        Networks that memorise predict the labels that they have learned better than others. They
        begin to learn all labels if this gap is surely below `allowed_gap`. They stop if it is
        surely above five times as much.
        """
        if not (self.config.cross_fitted and self.config.allowed_gap):
            return {}
        given, memorising = self.data.given, bool(self.memorising)
        unlearned = torch.ones_like(given, dtype=torch.bool) if memorising else self.watched()
        rows = evenly_spaced(unlearned.nonzero().squeeze(1), MOST_COMPARED)
        if len(rows) < 2:
            return {}
        likelihoods = [self.log_likelihood(learner, rows) for learner in self.members]
        gap = generalisation_gap(torch.stack(likelihoods), self.fold[rows])
        bound = self.config.allowed_gap
        memorises = by_first(
            lambda: (
                not gap.surely_below(bound)
                if memorising
                else gap.surely_above(CROSSED_AGAIN * bound)
            )
        )
        self.memorising.fill_(memorises)
        return {"gap": float(gap.mean), "memorising": float(memorises)}

    def watched(self) -> Tensor:
        """(N,) mask of every tenth label; its own network does not learn it."""
        return self.data.first_copy % 10 == 0

    @torch.no_grad()
    def log_likelihood(self, learner: Learner, rows: Tensor) -> Tensor:
        """(M,) log-probabilities of the given labels at `rows`."""
        parts = []
        for batch in self.data.in_order(among=rows):
            with evaluating(learner.predictor):
                logits = learner.predictor.clean_logits(batch.inputs)
            log_probability = (logits + self.log_prior()).log_softmax(1)
            parts.append(log_probability.gather(1, batch.given[:, None]).squeeze(1))
        return torch.cat(parts)

    @property
    def has_judged(self) -> bool:
        """Whether there is a trust of every label."""
        return not bool(self.trust.isnan().any())

    def update_trust(self) -> Record:
        """Compute ŷ and trust of every label; return what to record."""
        self.update_predictions()
        certain = self.certain_labels()
        self.trust.copy_(self.confusion.update(self.log_prediction, self.data.given, certain))
        correct = self.confusion.transition.diagonal()
        return {
            "trusted": float((self.trust >= self.threshold).float().mean()),
            "temperature": float(1 / self.confusion.inverse_temperature),
            "correct": float(correct.mean()),
            "least_correct": float(correct.min()),
            "rarest": float(self.confusion.frequency.min()),
        }

    @property
    def judges_apart(self) -> bool:
        """Whether each label is judged by the network that has not learned it; else by all."""
        return self.config.cross_fitted and bool(self.memorising)

    def certain_labels(self) -> Tensor | None:
        """(N,) mask of the labels that count as right: verified ones, and labels of lone classes.

        A class that occurs in one fold only is unknown to the network that would judge it.
        None: there are no such labels.
        """
        given, verified = self.data.given, self.data.verified
        if not self.judges_apart:
            return verified
        among = torch.zeros(self.data.num_classes, self.config.folds, device=given.device)
        among[given, self.fold] = 1
        lone = (among.sum(1) == 1)[given]
        certain = lone if verified is None else lone | verified
        return certain if bool(certain.any()) else None

    def update_predictions(self) -> None:
        """Set log ŷ of each row: by the network that has not learned it, or by all networks.

        Each batch goes to its place at once, so that N × K numbers are kept once.
        """
        kept, apart = self.log_prediction, self.judges_apart
        if not apart:
            kept.zero_()
        for number, learner in enumerate(self.members):
            for index, predicted in self.predict_training_set(learner):
                if apart:
                    own = (self.fold[index] == number)[:, None]
                    kept[index] = predicted.where(own, kept[index])
                else:
                    kept[index] += predicted.exp()
        if not apart:
            kept.div_(len(self.members)).clamp_(min=1e-30).log_()

    def predict_training_set(self, learner: Learner) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield positions of a batch, and (B, K) log of the network's integrated predictions.

        These are under the learned class frequencies. A network that does not memorise learns
        without dropout, and predicts without it.
        """
        log_prior = self.log_prior()
        passes = self.config.passes if self.memorising else 0
        for index, part in integrate_in_batches(learner, self.data, passes):
            yield index, (part.log_probability + log_prior).log_softmax(1)

    def log_prior(self) -> Tensor:
        """(K,) logit adjustment: log of the learned class frequencies, or 0 if not balanced.

        Networks learn through it, so that without it they predict for equal frequencies.
        """
        if not self.config.balanced:
            return torch.zeros_like(self.learned)
        return self.learned.clamp(min=1 / len(self.data)).log()

    def alpha(self) -> float:
        """α of mixup: α · min(1, 2 · expected share of wrong labels); in full during warm-up.

        Mixup keeps wrong labels from being memorised. With few of them, or if nothing is memorised,
        it only costs.
        """
        if not self.memorising:
            return 0.0
        if not self.has_judged:
            return self.config.mixup_alpha
        wrong = float(1 - self.trust.mean())
        # Rounded: the last digits of a sum must not decide random draws.
        return self.config.mixup_alpha * round(min(1.0, 2 * wrong), 2)

    def weights(self) -> Tensor:
        """(N,) weight of each given label; also set the learned class frequencies.

        The most trusted label of each class always has a weight.
        """
        given, weight = self.data.given, torch.ones_like(self.trust)
        if self.has_judged:
            best = likeliest_of_each_class(self.trust.argsort(descending=True, stable=True), given)
            fewest = self.config.smallest_weight if self.config.weighted else self.threshold
            used = best | (self.trust >= fewest)
            kept = self.trust.clamp(min=1e-3) if self.config.weighted else weight
            weight = torch.where(used, kept, 0.0)
        frequency = torch.zeros_like(self.learned).index_add_(0, given, weight)
        self.learned.copy_(frequency / frequency.sum())
        return weight

    def rows_of(self, number: int, weight: Tensor, *, crossing: bool) -> Tensor:
        """(M,) positions of the labels that a network learns.

        While networks share no label, these are the labels of the other folds; if nothing is
        memorised, all but the watched labels of its own fold. A network with less than two such
        labels learns all rows that have a weight.
        """
        used = weight > 0
        learned = used
        if crossing and self.config.cross_fitted:
            own = self.fold == number
            learned = used & ~(own if self.memorising else own & self.watched())
        rows = learned.nonzero().squeeze(1)
        if len(rows) < 2:
            rows = used.nonzero().squeeze(1)
        return rows if len(rows) >= 2 else torch.arange(len(weight), device=weight.device)

    def judge(self) -> Judgement:
        """Judge by the posterior; during warm-up, by the prediction.

        The posterior is computed anew: all that it depends on has stayed as `update_trust` left it.
        """
        if not self.has_judged:
            return super().judge()
        logs, given = self.log_prediction, self.data.given
        unknown = torch.full_like(self.trust, torch.nan)
        entropies = [normalised_entropy(part) for part in logs.split(ROWS_AT_ONCE)]
        posterior = self.confusion.posterior_of(logs, given, self.certain_labels())
        return Judgement(
            given=array(given),
            clean_probability=array(self.trust),
            prediction=own_array(logs.exp()),
            epistemic=array(torch.cat(entropies)),
            aleatoric=array(unknown),
            posterior=own_array(posterior),
            score_kind="posterior",
        )

    def learned_prior(self, judgement: Judgement) -> Floats:  # noqa: ARG002 (known without it)
        """Equal frequencies if learning is balanced; else those among the weighted labels."""
        prior = torch.ones_like(self.learned) if self.config.balanced else self.learned
        return array(prior / prior.sum())

    def outputs(self) -> dict[str, NDArray[Any]]:
        """The confusion model (P(given | true) and class frequencies) and the fold of each row."""
        return {
            "transition": array(self.confusion.transition),
            "class_frequency": array(self.confusion.frequency),
            "fold": array(self.fold),
        }


def logits_with_dropout(network: Classifier, inputs: Tensor) -> Tensor:
    """(B, K) logits for a batch, in the network's mode."""
    return network(inputs).logits
