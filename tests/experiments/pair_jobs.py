"""What two processes compute together in the tests, and one alone for comparison."""

import os
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import nn
from unfit_algorithms import DrawsByProcess, MixesInsideTheBackbone

from ulc.algorithms import ALGORITHMS
from ulc.algorithms.base import Algorithm
from ulc.blocks.learner import Learner
from ulc.errors import InputError
from ulc.networks import network_maker
from ulc.networks.data_parallel import by_rows
from ulc.networks.gradient_scale import Scaled
from ulc.networks.processes import by_first, current, from_first
from ulc.testing import SHAPES, Case, numbers_in, train_cases
from ulc.training.loop import Epoch, TrainingProgress
from ulc.training.processes import StateAgreement, check_same_data
from ulc.training.run import resume, run

EPOCHS = 2


class double_precision:  # noqa: N801 (a context manager)
    """Context manager: floats have 64 bits, also those that `Tensor.float` makes."""

    def __enter__(self):
        self.single = torch.Tensor.float
        torch.set_default_dtype(torch.float64)
        torch.Tensor.float = torch.Tensor.double

    def __exit__(self, *_):
        torch.set_default_dtype(torch.float32)
        torch.Tensor.float = self.single


class PlainMLP(nn.Module):
    """A multilayer perceptron without batch norm, in 64 bits."""

    def __init__(self, inputs=6, norm=False):
        super().__init__()
        self.early_stages = nn.Linear(inputs, 8)
        normalise = nn.BatchNorm1d(8) if norm else nn.Identity()
        self.last_stage = nn.Sequential(normalise, nn.Tanh(), nn.Linear(8, 5), nn.Tanh())

    def forward(self, vectors):
        return self.last_stage(self.early_stages(vectors.double()))


class NormMLP(PlainMLP):
    """The same with batch norm."""

    def __init__(self):
        super().__init__(norm=True)


def trained(backbone, name, options=None):
    """All numbers of an algorithm after training with this backbone."""
    case = Case(ALGORITHMS[name], "vector", options or {})
    data = case.data()
    data = replace(data, stored=data.stored.double())
    new = network_maker(backbone, SHAPES["vector"], data.num_classes, torch.device("cpu"))
    algorithm = case.algorithm.build(case.config, data, new)
    records = [algorithm.run_epoch(epoch) for epoch in range(EPOCHS)]
    return numbers_in([records, algorithm.judge().arrays(), algorithm.state_dict()])


AT_ONCE = {"delay_epochs": 0, "pretrain_epochs": 0}
VARIANTS = {
    "second order": (
        "meta_learning",
        {"second_order": True, "delay_epochs": 0, "pretrain_epochs": 0},
    ),
    "last stage": ("ulc", {"dropout_place": "last_stage"}),
    "fixmatch": ("ulc", {"semi_supervised": "fixmatch"}),
    "averaged weights": ("ce", {"sgd": {"average_epochs": 1.0}}),
}
WITH_NORM = ("ce", "ulc", "last stage", "second order")


def all_algorithms():
    """All numbers of every algorithm and variant; some also with batch norm."""
    names = {name: (name, {}) for name in ALGORITHMS} | VARIANTS
    plain = {name: trained(PlainMLP, *each) for name, each in names.items()}
    return plain | {f"{name} with norm": trained(NormMLP, *names[name]) for name in WITH_NORM}


def scaled_passes():
    """As `passes`, with gradients that are scaled inside."""
    return passes(lambda network: Scaled(network, torch.tensor(1024.0)))


def passes(wrapped=lambda network: network):
    """Outputs, gradients and second derivatives of passes with several numbers of rows."""
    found = {}
    for rows in (2, 3, 4, 7, 16):
        torch.manual_seed(rows)
        network = NormMLP()
        unused = nn.Parameter(torch.ones(3))
        network.register_parameter("unused", unused)
        inputs = torch.randn(rows, 6, requires_grad=True)
        outputs = by_rows(wrapped(network), inputs)
        loss = outputs.square().mean() + outputs.prod(1).amax()
        weights = [weight for weight in network.parameters() if weight is not unused]
        gradients = torch.autograd.grad(loss, [inputs, *weights], create_graph=True)
        sum(each.square().sum() for each in gradients).backward()
        found[rows] = numbers_in(
            [outputs, gradients, [each.grad for each in (inputs, *weights)], network.state_dict()]
        )
        assert unused.grad is None
    return found


def images():
    """Features and gradients of channels-last images in a network with batch norm."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten())
    inputs = torch.randn(7, 2, 5, 5).to(memory_format=torch.channels_last)
    features = by_rows(network, inputs)
    features.square().mean().backward()
    by_rows(network.eval(), inputs)
    return numbers_in(
        [features, [each.grad for each in network.parameters()], network.state_dict()]
    )


PASSES = (passes, scaled_passes, images)


def random_network():
    """Dropout inside a backbone: the values dropped in two passes, and the next random numbers."""
    torch.manual_seed(0)
    outputs = [by_rows(nn.Dropout(0.5), torch.ones(9, 50)) for _ in range(2)]
    return numbers_in([each == 0 for each in outputs] + [torch.rand(3)])


def agreement():
    """What the first process says: a value, a tensor, an error; and what must be the same in all.

    The errors are those of other data and of another state in the second process.
    """
    rank = current().rank
    fitted = nn.BatchNorm1d(2)
    fitted.running_mean.fill_(rank + 1)
    other = SimpleNamespace(state_dict=lambda: {"weights": [torch.ones(2), torch.tensor(rank)]})
    epoch = Epoch(other, [{"epoch": 7}], 0.0, is_last=False)
    return {
        "rank": rank,
        "value": by_first(lambda: f"by {rank}"),
        "tensor": float(from_first(fitted).running_mean[0]),
        "error": error_of(lambda: by_first(lambda: int("no") if rank else raise_input_error())),
        "data": error_of(lambda: check_same_data(f"digest {rank}")),
        "state": error_of(lambda: StateAgreement().on_epoch(epoch)),
        "same": error_of(lambda: check_same_data("digest")),
    }


def error_of(call):
    """The InputError that a call raises, as text; None: it raises none."""
    try:
        call()
    except InputError as error:
        return str(error)
    return None


def raise_input_error():
    raise InputError("as the first says")


class StoppedError(Exception):
    """Raised to stop a training between two epochs."""


class StopAfter(TrainingProgress):
    """Stops a training after an epoch."""

    def __init__(self, epoch):
        self.epoch = epoch

    def on_epoch(self, record):
        if record["epoch"] == self.epoch:
            raise StoppedError


def train_until(spec, out, epoch):
    """Train until the end of an epoch, whose checkpoint is written."""
    with suppress(StoppedError):
        run(spec, out, device="cpu", save_every=0.0, progress=StopAfter(epoch))


def everything(stopped, device, progress):
    """All of the above in one of two processes; and a stopped run is resumed."""
    with double_precision():
        found = {each.__name__: each() for each in (all_algorithms, *PASSES)}
        resume(stopped, device=device)
    cases = [Case(each, "vector") for each in (DrawsByProcess, MixesInsideTheBackbone)]
    return found | {
        "random_network": random_network(),
        "agreement": agreement(),
        "unfit": train_cases(cases),
    }


def train_and_die(spec, out, epoch, device, progress):
    """Train; the second process is killed at the third step of an epoch, and writes when."""
    descend, run_epoch, taken = Learner.descend, Algorithm.run_epoch, []

    def count_anew(self, number):
        taken[:] = [number]
        return run_epoch(self, number)

    def descend_or_die(self, loss):
        taken.append("step")
        if current().rank == 1 and taken == [epoch, "step", "step", "step"]:
            Path("died").write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        return descend(self, loss)

    Algorithm.run_epoch, Learner.descend = count_anew, descend_or_die
    with double_precision():
        run(spec, out, device=device, save_every=0.0)
