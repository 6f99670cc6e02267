"""A slice of an epoch, and its bare arithmetic."""

import argparse
import copy
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from ulc.algorithms import configure, find_algorithm
from ulc.algorithms.base import Algorithm
from ulc.blocks.learner import evaluating, set_mode
from ulc.config import DataSpec, NetworkSpec, NoiseSpec, RunSpec
from ulc.data.prepare import prepare
from ulc.data.training import TensorData
from ulc.networks import network_maker
from ulc.networks.classifier import Classifier


@dataclass(frozen=True)
class Case:
    """Network, data, number of examples and batch size of a measurement."""

    title: str
    network: str
    source: str
    examples: int
    batch_size: int


def make_cases(examples: int, resnet_batch: int) -> list[Case]:
    """Return the three networks; PreAct ResNet-18 takes only one step for each network."""
    return [
        Case("PreAct ResNet-18", "preact_resnet18", "cifar10", 2 * resnet_batch, resnet_batch),
        Case("small network", "small_cnn", "cifar10", examples, 64),
        Case("MLP", "mlp", "npz", examples, 64),
    ]


def load_case(case: Case, options: argparse.Namespace) -> TensorData:
    """Load the first examples of the case's data; half of the labels are wrong."""
    path = options.cifar if case.source == "cifar10" else options.features
    if path is None:
        sys.exit("the data are missing; give --cifar DIR and --features FILE.npz")
    data = DataSpec(source=case.source, path=path)
    spec = RunSpec(data=data, noise=NoiseSpec(kind="symmetric", rate=0.5))
    whole = prepare(spec, torch.device("cpu")).training
    count = case.examples
    return replace(whole, stored=whole.stored[:count].clone(), given=whole.given[:count].clone())


@dataclass(frozen=True)
class Slice:
    """An epoch on few examples: training, judgement, and predictions for a fifth of them.

    Half of the examples are trusted, as in an epoch on the whole data set.
    """

    algorithm: Algorithm
    start: dict[str, Any]
    halves: tuple[Tensor, Tensor]

    @classmethod
    def of(cls, name: str, case: Case, data: TensorData) -> "Slice":
        options: dict[str, Any] = {"batch_size": case.batch_size}
        if name != "ce":
            options |= {"warmup_epochs": 1 if name == "ulc_plus" else 0}
        config = configure(name, options)
        new_network = network_maker(
            NetworkSpec(name=case.network),
            data.preprocessing.shape,
            data.num_classes,
            torch.device("cpu"),
        )
        algorithm = find_algorithm(name).build(config, data, new_network)
        trusted = torch.arange(len(data)) % 2 == 0
        start = copy.deepcopy(algorithm.state_dict())
        return cls(algorithm, start, (trusted, data.stored[: len(data) // 5]))

    def networks(self) -> list[Classifier]:
        """Return the networks that learn, and those that predict if these are averages."""
        learning = [each.network for each in self.algorithm.learners()]
        return list(dict.fromkeys([*learning, *self.algorithm.networks()]))

    def run(self) -> None:
        """Run the same epoch each time: same weights, same random numbers."""
        trusted, tested = self.halves
        self.algorithm.load_state_dict(self.start)
        with ExitStack() as stack:
            for module in ("ulc", "dividemix"):
                fixed = patch(f"ulc.algorithms.{module}.divide", lambda *_: trusted)
                stack.enter_context(fixed)
            self.algorithm.run_epoch(1)
        self.algorithm.judge()
        with torch.no_grad(), evaluating(self.algorithm):
            self.algorithm.predict_proba(self.algorithm.data.preprocessing.ready(tested))


@dataclass(frozen=True)
class Call:
    """One forward pass: rows, whether a backward pass follows, and the modes.

    Ten dropout passes count as one pass.
    """

    network: int
    rows: int
    learns: bool
    training: bool
    dropout: bool


def record_calls(piece: Slice) -> list[Call]:
    """Record every forward pass of the slice, in order."""
    calls: list[Call] = []
    networks = piece.networks()

    def make_hook(number: int) -> Callable[..., None]:
        def record(module: torch.nn.Module, inputs: tuple[Tensor, ...]) -> None:
            drops = networks[number].dropout
            dropout = module.training and drops is not None and drops.training
            learns = torch.is_grad_enabled()
            calls.append(Call(number, len(inputs[0]), learns, module.training, dropout))

        return record

    hooks = [
        each.backbone.register_forward_pre_hook(make_hook(number))
        for number, each in enumerate(networks)
    ]
    piece.run()
    for hook in hooks:
        hook.remove()
    return calls


class BarePasses:
    """The forward and backward passes of a slice, and nothing else.

    Inputs are in memory already. No weight is updated, no random number drawn.
    """

    def __init__(self, piece: Slice, calls: list[Call], memory_format: torch.memory_format) -> None:
        self.calls = calls
        networks = piece.networks()
        shape = piece.algorithm.data.preprocessing.shape
        self.networks = [
            copy.deepcopy(network).to(memory_format=memory_format) for network in networks
        ]
        self.inputs = torch.randn(max(call.rows for call in calls), *shape)
        if self.inputs.ndim == 4:
            self.inputs = self.inputs.contiguous(memory_format=memory_format)

    def run(self) -> None:
        for call in self.calls:
            network = self.networks[call.network]
            with set_mode(network, call.training), torch.set_grad_enabled(call.learns):
                if network.dropout is not None:
                    network.dropout.train(call.dropout)
                logits = network(self.inputs[: call.rows]).logits
                if call.learns:
                    logits.sum().backward()
        for network in self.networks:
            network.zero_grad(set_to_none=True)


def count_rows(calls: list[Call]) -> dict[str, int]:
    """Count the steps, the rows of backward passes and the rows of forward passes only."""
    return {
        "steps": sum(call.learns for call in calls),
        "rows_learned": sum(call.rows for call in calls if call.learns),
        "rows_predicted": sum(call.rows for call in calls if not call.learns),
    }
