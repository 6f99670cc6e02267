"""Meta-Learning: learning to learn from noisy labels, MLNT (Li et al., CVPR 2019)."""

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor
from torch.func import functional_call

from ulc.algorithms.base import Algorithm
from ulc.blocks.averages import Record
from ulc.blocks.learner import Learner, evaluating
from ulc.blocks.losses import kl_divergence
from ulc.blocks.schedules import sigmoid_rampup
from ulc.blocks.teacher import Teacher
from ulc.config import SGD, Spec
from ulc.data.training import Batch, TrainingData
from ulc.networks import NewNetwork
from ulc.networks.classifier import Classifier, HeadSpec, Output


class Config(Spec):
    """Defaults: the paper's for CIFAR-10."""

    pretrain_epochs: int = Field(10, ge=0, description="plain training of the guide")
    delay_epochs: int = Field(3, ge=0, description="of the student before the meta part")
    rampup_epochs: int = Field(20, ge=0, description="of the student until η is reached")
    meta_weight: float = Field(0.04, ge=0, description="η/10: of agreeing with the teacher")
    tasks: int = Field(10, ge=1, description="M: sets of synthetic labels for each batch")
    replaced: float = Field(0.5, ge=0, le=1, description="ρ: share of labels replaced in a set")
    neighbours: int = Field(10, ge=1, description="a label is replaced by one of theirs")
    inner_rate: float = Field(0.2, gt=0, description="step taken on the synthetic labels")
    second_order: bool = Field(False, description="also through that step; needs memory")
    early_average: float = Field(0.99, ge=0, lt=1, description="γ until η is reached")
    average: float = Field(0.999, ge=0, lt=1, description="γ: the teacher's share of its past")
    batch_size: int = Field(128, ge=2)
    guide_sgd: SGD = SGD(lr=0.04, weight_decay=1e-4, milestones=())
    sgd: SGD = SGD(lr=0.2, weight_decay=1e-4, milestones=(90,))


class MetaLearning(Algorithm):
    """A step on synthetic wrong labels must leave the student where its teacher is.

    The teacher is the average of the student's past. A guide, trained on the given labels first,
    says which examples are neighbours.
    """

    config_class = Config
    begun: Tensor
    steps: Tensor

    def __init__(self, config: Config, data: TrainingData, new_network: NewNetwork) -> None:
        super().__init__(data)
        self.config = config
        self.guide = Learner(new_network(HeadSpec()), config.guide_sgd)
        self.student = Learner(new_network(HeadSpec()), config.sgd)
        self.teacher = Teacher(self.student.network)
        self.register_buffer("begun", torch.tensor(config.pretrain_epochs == 0))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def train_epoch(self, epoch: int) -> Record:
        """The guide's pre-training; later cross entropy and the meta part of the student."""
        since = epoch - self.config.pretrain_epochs
        if since < 0:
            return self.pretrain()
        self.begun.fill_(True)
        ramp = sigmoid_rampup(since, self.config.rampup_epochs)
        weight = self.config.meta_weight * ramp if since >= self.config.delay_epochs else 0.0
        seen = self.averages()
        for batch in self.data.batches(self.config.batch_size):
            seen.add(**self.learn(batch, weight))
            self.teacher.follow(self.student.network, self.kept(since))
        return seen.record()

    def kept(self, since: int) -> float:
        """γ of this step; counts the steps of the meta part.

        Until then the teacher is a copy. Then it is the plain mean of what it has seen until γ says
        less: on a small set it would else stay near its first weights to the end.
        """
        if since < self.config.delay_epochs:
            return 0.0
        self.steps += 1
        settled = since >= self.config.rampup_epochs
        wanted = self.config.average if settled else self.config.early_average
        return min(wanted, 1 - 1 / int(self.steps))

    def pretrain(self) -> Record:
        """Cross entropy on the given labels."""
        seen = self.averages()
        for batch in self.data.batches(self.config.batch_size):
            loss = F.cross_entropy(self.guide(batch.inputs).logits, batch.given)
            seen.add(loss=self.guide.descend(loss))
        return seen.record()

    def learn(self, batch: Batch, weight: float) -> dict[str, Tensor]:
        """One step down L_c + η·mean_m J_m (Algorithm 1)."""
        with self.student.step():
            logits = self.student(batch.inputs).logits
            loss = F.cross_entropy(logits, batch.given)
            apart = torch.zeros_like(loss)
            if weight > 0:
                taught = self.teacher(batch.inputs).logits.log_softmax(1)
                near = self.nearest(batch)
                for _ in range(self.config.tasks):
                    labels = synthetic_labels(batch.given, near, self.config.replaced)
                    meta = self.inconsistency(batch, logits, labels, taught) / self.config.tasks
                    # One set at a time, so that only one inner graph is in memory.
                    (weight * meta).backward(retain_graph=self.config.second_order)
                    apart += meta.detach()
            loss.backward()
        return {"loss": loss.detach(), "inconsistency": apart}

    def inconsistency(self, batch: Batch, logits: Tensor, labels: Tensor, taught: Tensor) -> Tensor:
        """J: how far a step on the synthetic labels takes the student from its teacher.

        KL(teacher ‖ student), mean over the batch. The authors' code takes the mean over the ten
        classes too; so our weight is a tenth of theirs, and does not depend on their number.
        """
        network = self.student.network
        weights = {
            name: weight for name, weight in network.named_parameters() if weight.requires_grad
        }
        slopes = torch.autograd.grad(
            F.cross_entropy(logits, labels),
            list(weights.values()),
            retain_graph=True,
            create_graph=self.config.second_order,
            allow_unused=True,
        )
        moved = {
            name: weight - self.config.inner_rate * slope
            for (name, weight), slope in zip(weights.items(), slopes, strict=True)
            if slope is not None
        }
        # Cloned: running statistics follow the student itself, not its thought experiments.
        buffers = {name: value.clone() for name, value in network.named_buffers()}
        after: Output = functional_call(network, (moved, buffers), (batch.inputs,))
        return kl_divergence(taught, after.logits.log_softmax(1))

    @torch.no_grad()
    def nearest(self, batch: Batch) -> Tensor:
        """(B, n) positions in the batch of each example's neighbours, by the guide's features."""
        with evaluating(self.guide):
            features = self.guide(batch.inputs).features
        distance = torch.cdist(features, features).fill_diagonal_(torch.inf)
        count = min(self.config.neighbours, len(batch) - 1)
        return distance.topk(count, largest=False).indices

    def networks(self) -> list[Classifier]:
        """The teacher; before there is one that has learned, the guide."""
        return [self.teacher.network if self.begun else self.guide.network]


def synthetic_labels(given: Tensor, near: Tensor, share: float) -> Tensor:
    """Labels of which a random `share` is replaced by that of a random neighbour."""
    count = len(given)
    chosen = torch.randperm(count, device=given.device)[: int(share * count)]
    place = torch.randint(near.shape[1], (len(chosen),), device=given.device)
    labels = given.clone()
    labels[chosen] = given[near[chosen, place]]
    return labels
