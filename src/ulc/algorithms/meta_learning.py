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
    """Options of MLNT; defaults: those of the paper for CIFAR-10."""

    pretrain_epochs: int = Field(10, ge=0, description="epochs in which the guide is trained")
    delay_epochs: int = Field(3, ge=0, description="epochs of the student before the meta loss")
    rampup_epochs: int = Field(20, ge=0, description="epochs of the student until η is reached")
    meta_weight: float = Field(0.04, ge=0, description="η/10: weight of the meta loss")
    tasks: int = Field(10, ge=1, description="M: sets of synthetic labels for each batch")
    replaced: float = Field(0.5, ge=0, le=1, description="ρ: share of labels replaced in a set")
    neighbours: int = Field(10, ge=1, description="neighbours that a label may come from")
    inner_rate: float = Field(0.2, gt=0, description="learning rate of the trial step")
    second_order: bool = Field(False, description="differentiate the trial step; needs more memory")
    early_average: float = Field(
        0.99, ge=0, lt=1, description="γ of the teacher until η is reached"
    )
    average: float = Field(0.999, ge=0, lt=1, description="γ: momentum of the teacher")
    batch_size: int = Field(128, ge=2)
    guide_sgd: SGD = SGD(lr=0.04, weight_decay=1e-4, milestones=())
    sgd: SGD = SGD(lr=0.2, weight_decay=1e-4, milestones=(90,))


class MetaLearning(Algorithm):
    """After a trial step on synthetic labels, the student must still agree with its teacher.

    The teacher is the moving average of the student. The features of a guide, a network that is
    trained on the given labels first, define which examples are neighbours.
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
        begun = torch.tensor(config.pretrain_epochs == 0, device="cpu")
        self.register_buffer("begun", begun)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64, device="cpu"))

    def train_epoch(self, epoch: int) -> Record:
        """Train the guide; later train the student with cross entropy and the meta loss."""
        since = epoch - self.config.pretrain_epochs
        if since < 0:
            return self.pretrain()
        self.begun.fill_(True)
        ramp = sigmoid_rampup(since, self.config.rampup_epochs)
        weight = self.config.meta_weight * ramp if since >= self.config.delay_epochs else 0.0
        averages = self.averages()
        for batch in self.data.batches(self.config.batch_size):
            averages.add(**self.train_step(batch, weight))
            self.teacher.update(self.student.network, self.teacher_momentum(since))
        return averages.record()

    def teacher_momentum(self, since: int) -> float:
        """γ of this step; count the step if it has the meta loss.

        Before the meta loss begins, γ is 0: the teacher is a copy of the student. Then it is
        1 − 1/t at step t (a plain mean) until the configured γ is smaller: otherwise the teacher
        would stay near its first weights on a small data set.
        """
        if since < self.config.delay_epochs:
            return 0.0
        self.steps += 1
        ramped_up = since >= self.config.rampup_epochs
        configured = self.config.average if ramped_up else self.config.early_average
        return min(configured, 1 - 1 / int(self.steps))

    def pretrain(self) -> Record:
        """Train the guide with cross entropy on the given labels."""
        averages = self.averages()
        for batch in self.data.batches(self.config.batch_size):
            loss = F.cross_entropy(self.guide(batch.inputs).logits, batch.given)
            averages.add(loss=self.guide.descend(loss))
        return averages.record()

    def train_step(self, batch: Batch, weight: float) -> dict[str, Tensor]:
        """Take one optimiser step on L_c + η·mean_m J_m (Algorithm 1); return both parts.

        weight: η of this epoch
        """
        with self.student.optimiser_step():
            logits = self.student(batch.inputs).logits
            loss = F.cross_entropy(logits, batch.given)
            inconsistency = torch.zeros_like(loss)
            if weight > 0:
                taught = self.teacher(batch.inputs).logits.log_softmax(1)
                near = self.find_neighbours(batch)
                for _ in range(self.config.tasks):
                    labels = draw_synthetic_labels(batch.given, near, self.config.replaced)
                    meta = self.inconsistency(batch, logits, labels, taught) / self.config.tasks
                    # Backward for each set by itself: only one trial graph is in memory.
                    (weight * meta).backward(retain_graph=self.config.second_order)
                    inconsistency += meta.detach()
            loss.backward()
        return {"loss": loss.detach(), "inconsistency": inconsistency}

    def inconsistency(self, batch: Batch, logits: Tensor, labels: Tensor, taught: Tensor) -> Tensor:
        """J: KL(teacher ‖ student after a trial step on the synthetic labels), mean over the batch.

        The authors' code also divides by the ten classes. Our weight is a tenth of theirs instead,
        so it does not depend on the number of classes.
        """
        network = self.student.network
        weights = {
            name: weight for name, weight in network.named_parameters() if weight.requires_grad
        }
        gradients = torch.autograd.grad(
            F.cross_entropy(logits, labels),
            list(weights.values()),
            retain_graph=True,
            create_graph=self.config.second_order,
            allow_unused=True,
        )
        moved = {
            name: weight - self.config.inner_rate * gradient
            for (name, weight), gradient in zip(weights.items(), gradients, strict=True)
            if gradient is not None
        }
        # Cloned, so that trial passes do not change the student's running statistics.
        buffers = {name: value.clone() for name, value in network.named_buffers()}
        after: Output = functional_call(network, (moved, buffers), (batch.inputs,))
        return kl_divergence(taught, after.logits.log_softmax(1))

    @torch.no_grad()
    def find_neighbours(self, batch: Batch) -> Tensor:
        """(B, n) positions in the batch of the nearest neighbours by the guide's features."""
        with evaluating(self.guide):
            features = self.guide(batch.inputs).features
        distance = torch.cdist(features, features).fill_diagonal_(torch.inf)
        count = min(self.config.neighbours, len(batch) - 1)
        return distance.topk(count, largest=False).indices

    def networks(self) -> list[Classifier]:
        """The teacher; while the guide is trained, the guide."""
        return [self.teacher.network if self.begun else self.guide.network]


def draw_synthetic_labels(given: Tensor, near: Tensor, share: float) -> Tensor:
    """The given labels, a random `share` of them replaced by the label of a random neighbour."""
    count = len(given)
    chosen = torch.randperm(count, device=given.device)[: int(share * count)]
    place = torch.randint(near.shape[1], (len(chosen),), device=given.device)
    labels = given.clone()
    labels[chosen] = given[near[chosen, place]]
    return labels
