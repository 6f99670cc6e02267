"""A network with its optimiser, and context managers that switch modes."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch import Tensor, nn

from ulc.blocks.momentum import Momentum
from ulc.blocks.teacher import Teacher
from ulc.config import SGD, Descent
from ulc.networks.classifier import Classifier, Output

T = TypeVar("T")


class Learner(nn.Module):
    """A network with its optimiser and, if asked for, the average of its weights.

    The state dict holds all of them. The average has a share of about
    exp(−age / `descent.average_epochs`) of weights that are `age` epochs old.

    accumulate: number of batches whose mean gradient makes one step
    pending: batches whose gradients wait for a step
    average: the averaged network; None: `descent.average_epochs` is 0
    steps: (3,) steps so far, steps of the epoch before, steps of this epoch
    """

    steps: Tensor
    accumulate: int = 1
    pending: int = 0

    def __init__(self, network: Classifier, descent: Descent) -> None:
        super().__init__()
        self.network = network
        self.descent = descent
        self.optimiser = new_optimiser(network, descent)
        self.average = Teacher(network) if descent.average_epochs else None
        if self.average is not None:
            self.register_buffer("steps", torch.zeros(3, dtype=torch.int64, device="cpu"))

    @property
    def predictor(self) -> Classifier:
        """The network that predicts: the averaged one if there is one, else the trained one."""
        return self.network if self.average is None else self.average.network

    def forward(self, inputs: Tensor) -> Output:
        """The network's output for (B, …) inputs."""
        return self.network(inputs)

    if TYPE_CHECKING:

        def __call__(self, inputs: Tensor) -> Output:
            """Declare the type of a call for type checkers; torch declares Any."""

    def start_epoch(self, epoch: int) -> None:
        """Set the learning rate and momentum of this epoch."""
        self.set_options(self.descent.settings(epoch))
        if self.average is not None and self.steps[2]:
            self.steps[1], self.steps[2] = self.steps[2].clone(), 0

    def set_options(self, settings: Mapping[str, Any]) -> None:
        """Set options of the optimiser, such as lr, for all parameters.

        A group with a `lr_factor` has so many times the learning rate.
        """
        for group in self.optimiser.param_groups:
            group.update(settings)
            if "lr" in settings:
                group["lr"] *= group.get("lr_factor", 1.0)

    def descend(self, loss: Tensor) -> Tensor:
        """Take one optimiser step on `loss`, or on several if they accumulate; return its value."""
        with self.optimiser_step():
            loss.backward()
        return loss.detach()

    @contextmanager
    def optimiser_step(self) -> Iterator[None]:
        """Context manager: sum the gradients computed inside, then take one optimiser step.

        If gradients accumulate, only every `accumulate`-th call takes a step.
        """
        if not self.pending:
            for group in self.optimiser.param_groups:  # faster than `zero_grad` in a small network
                for parameter in group["params"]:
                    parameter.grad = None
        yield
        self.pending += 1
        if self.pending >= self.accumulate:
            self.take_step()

    def finish_epoch(self) -> None:
        """Take a step on the gradients that still wait for one, so that no epoch depends on it."""
        if self.pending:
            self.take_step()

    def take_step(self) -> None:
        """Take an optimiser step on the mean gradient of the pending batches.

        With a gradient scale, the step is skipped if a gradient is not finite.
        """
        scale = self.network.gradient_scale
        if self.pending > 1 or scale is not None:
            every = [each for group in self.optimiser.param_groups for each in group["params"]]
            gradients = [each.grad for each in every if each.grad is not None]
            torch._foreach_div_(gradients, self.pending)
            if scale is not None:
                skip = scale.update(gradients)
                self.optimiser.found_inf = skip  # type: ignore[union-attr]  # Adam reads it, too
        self.pending = 0
        self.optimiser.step()
        if self.average is not None:
            self.update_average(self.average)

    def update_average(self, average: Teacher) -> None:
        """Add the weights after a step to the average.

        At first it is the plain mean of all steps, until the moving average looks back less far.
        """
        self.steps += torch.tensor([1, 0, 1])
        total, before, _ = self.steps.tolist()
        keep = math.exp(-1 / (self.descent.average_epochs * before)) if before else 1.0
        average.update(self.network, min(keep, 1 - 1 / total))

    def get_extra_state(self) -> dict[str, Any]:
        """State of optimiser and gradient scale, which becomes a part of the state dict."""
        scale = self.network.gradient_scale
        scaling = {} if scale is None else {"gradient_scale": scale.state_dict()}
        return self.optimiser.state_dict() | scaling

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore optimiser and scale; raise if a tensor does not fit its parameter."""
        parameters = [each for group in self.optimiser.param_groups for each in group["params"]]
        for number, of_parameter in state["state"].items():
            for name, value in of_parameter.items():
                if (
                    isinstance(value, Tensor)
                    and value.ndim
                    and value.shape != parameters[number].shape
                ):
                    raise ValueError(f"{name} has the shape {tuple(value.shape)}")
        self.optimiser.load_state_dict(state)
        scale = self.network.gradient_scale
        if scale is not None and "gradient_scale" in state:  # else it was of another precision
            scale.load_state_dict(state["gradient_scale"])


def new_optimiser(network: Classifier, descent: Descent) -> Momentum | torch.optim.Adam:
    """Make the optimiser that `descent` describes."""
    groups = network.parameter_groups(descent.weight_decay)
    if isinstance(descent, SGD):
        return Momentum(groups, lr=descent.lr, momentum=descent.momentum)
    return torch.optim.Adam(groups, lr=descent.lr, betas=(descent.beta1, 0.999), fused=True)


def make_pair(new: Callable[[], Learner]) -> Sequence[Learner]:
    """Two new learners in a ModuleList."""
    return cast("Sequence[Learner]", nn.ModuleList([new(), new()]))


def each_with_peer(pair: Sequence[T]) -> list[tuple[T, T]]:
    """Each of two learners with its peer: (first, second) and (second, first)."""
    first, second = pair
    return [(first, second), (second, first)]


@contextmanager
def evaluating(*modules: nn.Module) -> Iterator[None]:
    """Context manager: evaluation mode inside; afterwards every submodule has its old mode."""
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(set_mode(module, False))
        yield


@contextmanager
def set_mode(module: nn.Module, training: bool) -> Iterator[None]:
    """Context manager: training or evaluation mode inside; afterwards all have their old modes."""
    before = [(part, part.training) for part in module.modules()]
    module.train(training)
    try:
        yield
    finally:
        for part, was in before:
            part.training = was


def mean_prediction(networks: Sequence[Classifier], inputs: Tensor) -> Tensor:
    """(B, K) softmax of the networks' mean logits.

    The papers sum the logits. The mean has the same arg-max, and it contains the class prior
    once, as the correction in `labels/prior.py` assumes.
    """
    logits = torch.stack([network(inputs).logits for network in networks])
    return logits.mean(0).softmax(1)
