"""A slice of an epoch, and the arithmetic in it."""

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
from ulc.blocks.learner import evaluating, mode
from ulc.config import DataSpec, NetworkSpec, NoiseSpec, RunSpec
from ulc.data.prepare import prepare
from ulc.data.training import TensorData
from ulc.networks import network_maker


@dataclass(frozen=True)
class Case:
    """Which network learns from what, and how much of it."""

    title: str
    network: str
    source: str
    examples: int
    batch_size: int


def cases(examples: int, resnet_batch: int) -> list[Case]:
    """The three networks; PreAct ResNet-18 gets one step for each network."""
    return [
        Case("PreAct ResNet-18", "preact_resnet18", "cifar10", 2 * resnet_batch, resnet_batch),
        Case("small network", "small_cnn", "cifar10", examples, 64),
        Case("MLP", "mlp", "npz", examples, 64),
    ]


def load(case: Case, options: argparse.Namespace) -> TensorData:
    """The first examples of the case's data, half of the labels wrong."""
    path = options.cifar if case.source == "cifar10" else options.features
    if path is None:
        sys.exit("say where the data lie: --cifar DIR --features FILE.npz (see --help)")
    data = DataSpec(source=case.source, path=path)
    spec = RunSpec(data=data, noise=NoiseSpec(kind="symmetric", rate=0.5))
    whole = prepare(spec, torch.device("cpu")).training
    count = case.examples
    return replace(whole, stored=whole.stored[:count].clone(), given=whole.given[:count].clone())


@dataclass(frozen=True)
class Slice:
    """An epoch on few examples, half of them trusted: training, judgement, and a fifth tested.

    With half of the examples trusted, an epoch has the proportions that it has on the whole set.
    """

    algorithm: Algorithm
    start: dict[str, Any]
    halves: tuple[Tensor, Tensor]

    @classmethod
    def of(cls, name: str, case: Case, data: TensorData) -> "Slice":
        options: dict[str, Any] = {"batch_size": case.batch_size}
        if name != "ce":
            options |= {"warmup_epochs": 0}
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

    def run(self) -> None:
        """The same epoch each time: the same start and the same random numbers."""
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
    """One use of a network: on how many rows, whether for learning, in which modes.

    Dropout passes count as one plain pass.
    """

    network: int
    rows: int
    learns: bool
    training: bool
    dropout: bool


def calls_of(piece: Slice) -> list[Call]:
    """Every forward pass of the slice, in order."""
    calls: list[Call] = []
    networks = piece.algorithm.networks()

    def watch(number: int) -> Callable[..., None]:
        def note(module: torch.nn.Module, inputs: tuple[Tensor, ...]) -> None:
            drops = networks[number].dropout
            dropout = module.training and drops is not None and drops.training
            learns = torch.is_grad_enabled()
            calls.append(Call(number, len(inputs[0]), learns, module.training, dropout))

        return note

    hooks = [
        each.backbone.register_forward_pre_hook(watch(number))
        for number, each in enumerate(networks)
    ]
    piece.run()
    for hook in hooks:
        hook.remove()
    return calls


class Bare:
    """The same passes through the same networks on tensors that are in place, and nothing else.

    Forward, and backward where the slice learns; no weight is updated, nothing drawn or recorded.
    """

    def __init__(self, piece: Slice, calls: list[Call], memory_format: torch.memory_format) -> None:
        self.calls = calls
        networks = piece.algorithm.networks()
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
            with mode(network, call.training), torch.set_grad_enabled(call.learns):
                if network.dropout is not None:
                    network.dropout.train(call.dropout)
                logits = network(self.inputs[: call.rows]).logits
                if call.learns:
                    logits.sum().backward()
        for network in self.networks:
            network.zero_grad(set_to_none=True)


def rows_of(calls: list[Call]) -> dict[str, int]:
    """How many rows went forward only, and how many forward and backward."""
    return {
        "steps": sum(call.learns for call in calls),
        "rows_learned": sum(call.rows for call in calls if call.learns),
        "rows_predicted": sum(call.rows for call in calls if not call.learns),
    }
