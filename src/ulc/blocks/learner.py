"""A network with its optimiser, and the scopes in which it is used."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch import Tensor, nn

from ulc.blocks.momentum import Momentum
from ulc.config import SGD, Descent
from ulc.networks.classifier import Classifier, Output

T = TypeVar("T")


class Learner(nn.Module):
    """A network with its optimiser, saved and restored as one thing."""

    def __init__(self, network: Classifier, descent: Descent) -> None:
        super().__init__()
        self.network = network
        self.descent = descent
        self.optimiser = new_optimiser(network, descent)

    def forward(self, inputs: Tensor) -> Output:
        """(B, …) inputs to what the network says."""
        return self.network(inputs)

    if TYPE_CHECKING:

        def __call__(self, inputs: Tensor) -> Output:
            """Torch says Any."""

    def start_epoch(self, epoch: int) -> None:
        """Set the learning rate of this epoch."""
        self.tell(self.descent.settings(epoch))

    def tell(self, settings: Mapping[str, Any]) -> None:
        """Set something of the optimiser for all parameters."""
        for group in self.optimiser.param_groups:
            group.update(settings)

    def descend(self, loss: Tensor) -> Tensor:
        """Take one step down `loss`; return its value."""
        with self.step():
            loss.backward()
        return loss.detach()

    @contextmanager
    def step(self) -> Iterator[None]:
        """Whatever gradients arise inside are added up; one step follows them."""
        for group in self.optimiser.param_groups:  # in a small network `zero_grad` takes longer
            for parameter in group["params"]:
                parameter.grad = None
        yield
        self.optimiser.step()

    def get_extra_state(self) -> dict[str, Any]:
        """The optimiser rides along in the state, so an algorithm has no checkpoint code."""
        return self.optimiser.state_dict()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore the optimiser, if what it keeps is of parameters like these."""
        parameters = [each for group in self.optimiser.param_groups for each in group["params"]]
        for number, kept in state["state"].items():
            for name, value in kept.items():
                if (
                    isinstance(value, Tensor)
                    and value.ndim
                    and value.shape != parameters[number].shape
                ):
                    raise ValueError(f"{name} has the shape {tuple(value.shape)}")
        self.optimiser.load_state_dict(state)


def new_optimiser(network: Classifier, descent: Descent) -> Momentum | torch.optim.Adam:
    """The optimiser that a spec describes."""
    groups = network.parameter_groups(descent.weight_decay)
    if isinstance(descent, SGD):
        return Momentum(groups, lr=descent.lr, momentum=descent.momentum)
    return torch.optim.Adam(groups, lr=descent.lr, betas=(descent.beta1, 0.999), fused=True)


def make_pair(new: Callable[[], Learner]) -> Sequence[Learner]:
    """Two learners as one part of a module."""
    return cast("Sequence[Learner]", nn.ModuleList([new(), new()]))


def both_ways(pair: Sequence[T]) -> list[tuple[T, T]]:
    """Each of two with its peer."""
    first, second = pair
    return [(first, second), (second, first)]


@contextmanager
def evaluating(*modules: nn.Module) -> Iterator[None]:
    """Evaluation mode inside, each module's own mode again after."""
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(mode(module, False))
        yield


@contextmanager
def mode(module: nn.Module, training: bool) -> Iterator[None]:
    """A mode for a while; every part gets its own mode back, not the whole's."""
    before = [(part, part.training) for part in module.modules()]
    module.train(training)
    try:
        yield
    finally:
        for part, was in before:
            part.training = was


def mean_prediction(networks: Sequence[Classifier], inputs: Tensor) -> Tensor:
    """Class probabilities of one or two networks by their mean logits.

    The papers sum the logits; the mean has the same arg-max, and the class prior in it counts
    once, as `prior` at prediction time needs.
    """
    logits = torch.stack([network(inputs).logits for network in networks])
    return logits.mean(0).softmax(1)
