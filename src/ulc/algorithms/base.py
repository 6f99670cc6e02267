"""The contract of every algorithm."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ulc.blocks.averages import Averages, Record
from ulc.blocks.learner import Learner, evaluating, mean_prediction
from ulc.config import Spec
from ulc.data.training import TrainingData
from ulc.labels.judgement import Judgement
from ulc.networks import NewNetwork
from ulc.networks.classifier import Classifier
from ulc.typing import Floats

INITIAL_WEIGHTS = 2**31  # no epoch has this number


class Algorithm(nn.Module, ABC):
    """One way to learn from labels of which some are wrong.

    A subclass names its `config_class`, defines `train_epoch`, and `judge` where it has an
    opinion of its own about the labels. Whatever it keeps between epochs is a Learner,
    a Module or a buffer, so saving and resuming need no code. Do not override `run_epoch`.
    """

    config_class: ClassVar[type[Spec]]
    threshold: float = 0.5
    on_step: Callable[[Averages], None] | None = None

    def __init__(self, data: TrainingData) -> None:
        super().__init__()
        self.data = data

    @classmethod
    def build(cls, config: Spec, data: TrainingData, new_network: NewNetwork) -> Self:
        """Make the algorithm; the run's seed decides its initial weights."""
        with seeded(data.seed, INITIAL_WEIGHTS):
            return cls(config, data, new_network)  # type: ignore[arg-type, call-arg]

    @abstractmethod
    def train_epoch(self, epoch: int) -> Record:
        """Learn from one pass over the training data; return what to record."""

    def networks(self) -> list[Classifier]:
        """The networks that predict together, and that a run keeps; by default the learners'."""
        return [learner.network for learner in self.learners()]

    def predict_proba(self, inputs: Tensor) -> Tensor:
        """(B, …) inputs to (B, K) class probabilities, as trained."""
        return mean_prediction(self.networks(), inputs)

    def run_epoch(self, epoch: int) -> Record:
        """Seed, set every learning rate, train.

        Seeding by (run, epoch) makes a resumed run equal to an unbroken one without saving the
        state of any random generator; the user's own random state is left as it was.
        """
        with seeded(self.data.seed, epoch):
            for learner in self.learners():
                learner.start_epoch(epoch)
            self.train()
            return self.train_epoch(epoch)

    def judge(self) -> Judgement:
        """By default a label is believed as far as the model predicts it."""
        return Judgement.of(array(self.predictions()), array(self.data.given))

    @torch.no_grad()
    def predictions(self) -> Tensor:
        """(N, K) what the model now predicts for its training set, un-augmented."""
        with evaluating(self):
            return torch.cat([self.predict_proba(batch.inputs) for batch in self.data.in_order()])

    def outputs(self) -> dict[str, NDArray[Any]]:
        """What the algorithm hands over beside model and judgement, by name."""
        return {}

    def learners(self) -> list[Learner]:
        """The networks with their optimisers, in order."""
        return [part for part in self.modules() if isinstance(part, Learner)]

    def weight_norms(self) -> Floats:
        """(K,) norm of each class's weights in the last layer, mean over the networks."""
        norms = [network.head.weight.norm(dim=1) for network in self.networks()]
        return array(torch.stack(norms).mean(0))

    def averages(self) -> Averages:
        """Running means that whoever watches can follow."""
        return Averages(self.on_step)


@contextmanager
def seeded(seed: int, epoch: int) -> Iterator[None]:
    """Torch's random numbers by run and epoch inside, the user's own again after."""
    mixed = np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0]
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(int(mixed >> np.uint64(1)))
        yield


def array(tensor: Tensor) -> NDArray[Any]:
    """A tensor as an array of its own."""
    return tensor.detach().cpu().numpy().copy()
