"""The base class of every algorithm."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
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

INITIAL_WEIGHTS = 2**31  # in place of an epoch's number in the seed; no epoch has it


class Algorithm(nn.Module, ABC):
    """A method to learn from labels of which some are wrong.

    A subclass sets `config_class` and defines `train_epoch`. It defines `judge` if it measures
    how likely each label is right. It keeps all state between epochs in Learners, Modules or
    buffers, so that saving and resuming need no code. Do not override `run_epoch`.

    threshold: labels with at least this clean probability are trusted
    on_step: called after each step with the running means of the epoch; None: nothing is called
    """

    config_class: ClassVar[type[Spec]]
    threshold: float = 0.5
    on_step: Callable[[Averages], None] | None = None

    def __init__(self, data: TrainingData) -> None:
        super().__init__()
        self.data = data

    @classmethod
    def build(cls, config: Spec, data: TrainingData, new_network: NewNetwork) -> Self:
        """Construct the algorithm; the run's seed determines its initial weights.

        Tensors that the constructor makes without a device are on that of the data.
        """
        with seeded(data.seed, INITIAL_WEIGHTS), default_device(data.given.device):
            return cls(config, data, new_network)  # type: ignore[arg-type, call-arg]

    @abstractmethod
    def train_epoch(self, epoch: int) -> Record:
        """Train one epoch; return the values to record."""

    def networks(self) -> list[Classifier]:
        """The networks that predict together and that a run saves.

        By default these are the networks of all learners, averaged where a learner averages.
        """
        return [learner.predictor for learner in self.learners()]

    def predict_proba(self, inputs: Tensor) -> Tensor:
        """(B, K) class probabilities for (B, …) inputs, under the training data's class prior."""
        return mean_prediction(self.networks(), inputs)

    def run_epoch(self, epoch: int) -> Record:
        """Seed torch, set all learning rates, train one epoch.

        The seed depends on run and epoch. So a resumed run equals an uninterrupted one, and no
        state of a random generator is saved. The user's random state is not changed.
        """
        with seeded(self.data.seed, epoch):
            for learner in self.learners():
                learner.start_epoch(epoch)
            self.train()
            record = self.train_epoch(epoch)
            for learner in self.learners():
                learner.finish_epoch()
            return record

    def judge(self) -> Judgement:
        """The judgement of every training label.

        By default the clean probability of a label is its predicted probability.
        """
        return Judgement.of(own_array(self.predictions()), array(self.data.given))

    def learned_prior(self, judgement: Judgement) -> Floats:
        """(K,) class frequencies that the predictions assume; a balanced prior divides by them.

        By default those among the corrected labels.

        judgement: the algorithm's judgement, in which verified labels may be certain
        """
        return judgement.class_prior

    @torch.no_grad()
    def predictions(self) -> Tensor:
        """(N, K) predictions for the training set, without augmentation."""
        predictions = torch.empty(
            len(self.data), self.data.num_classes, device=self.data.given.device
        )
        with evaluating(self):
            for batch in self.data.in_order():
                predictions[batch.index] = self.predict_proba(batch.inputs)
        return predictions

    def outputs(self) -> dict[str, NDArray[Any]]:
        """Results beside model and judgement, by name; a run writes them to outputs.npz."""
        return {}

    def learners(self) -> list[Learner]:
        """All learners (networks with their optimisers), in order of definition."""
        return [part for part in self.modules() if isinstance(part, Learner)]

    def class_measures(self) -> dict[str, Floats]:
        """Measures of each class by name, (K,) each; runs record their means by class group.

        By default the norm of the class's weights in the last layer, mean over the networks.
        """
        norms = [network.head.weight.norm(dim=1) for network in self.networks()]
        return {"weight_norm": array(torch.stack(norms).mean(0))}

    def averages(self) -> Averages:
        """New running means for an epoch; after each step they are passed to `on_step`."""
        return Averages(self.on_step)


@contextmanager
def seeded(seed: int, epoch: int) -> Iterator[None]:
    """Context manager: seed torch by run and epoch; restore the user's random state at the end."""
    mixed = np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0]
    # Only where CUDA is used: asking for the number of GPUs would start it, which takes seconds and
    # fails on a machine with an old driver.
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=gpus):
        torch.manual_seed(int(mixed >> np.uint64(1)))
        yield


def default_device(device: torch.device) -> AbstractContextManager[object]:
    """Context manager: new tensors are on the device, unless their maker names another one."""
    return nullcontext() if device.type == "cpu" else device


def array(tensor: Tensor) -> NDArray[Any]:
    """A copy of a tensor as an array."""
    return tensor.detach().cpu().numpy().copy()


def own_array(tensor: Tensor) -> NDArray[Any]:
    """A tensor that nothing else uses, as an array; it is not copied."""
    return tensor.detach().cpu().numpy()
