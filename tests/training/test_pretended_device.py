"""The pretended device finds what a GPU refuses, and counts what makes the processor wait."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from ulc.algorithms import ALGORITHMS
from ulc.algorithms.cross_entropy import CrossEntropy
from ulc.algorithms.ulc import ULC
from ulc.auditing.trainings import train_and_measure
from ulc.config import ComputeSpec, NetworkSpec, RunSpec
from ulc.data.float64 import WITHOUT_FLOAT64
from ulc.data.held_out import HeldOutRows
from ulc.data.randaugment import cutout, rand_augment
from ulc.testing import EPOCHS, Case, data_on, works_on_another_device
from ulc.training.compute import apply_compute
from ulc.training.model import Model
from ulc.training.pretended_device import DeviceMismatchError, can_pretend, pretended_device

pytestmark = pytest.mark.skipif(not can_pretend(), reason="this torch registers no device")

MOST_WAITS = {name: (cls, {}, 2) for name, cls in ALGORITHMS.items()} | {
    "coteaching_plus": (ALGORITHMS["coteaching_plus"], {}, 4),
    "ulc-fixmatch": (ULC, {"semi_supervised": "fixmatch"}, 4),
    "ce-averaged": (CrossEntropy, {"sgd": {"average_epochs": 1.0}}, 2),
}


def waits_of_steps(case, compute=None):
    """The waits between one step and the next step of the same learner, in the last phase."""
    counts = {}
    with pretended_device() as seen:
        algorithm = case.build(data_on(seen.device, case.data((36, 24, 12))))
        apply_compute(algorithm, compute)
        for number, learner in enumerate(algorithm.learners()):

            def step(number=number, take=learner.optimiser.step):
                counts.setdefault(number, []).append(Counter(seen.waits))
                take()

            learner.optimiser.step = step
        algorithm.run_epoch(EPOCHS)
    return [
        after - before for of_learner in counts.values() for before, after in pairwise(of_learner)
    ]


@pytest.mark.parametrize("name", MOST_WAITS)
def test_a_step_hardly_waits_for_the_device(name):
    cls, options, most = MOST_WAITS[name]
    steps = waits_of_steps(Case(cls, "image", options))
    assert len(steps) >= 2
    assert max(step.total() for step in steps) <= most, steps


@pytest.mark.parametrize("name", ["ce", "ulc"])
def test_a_gradient_scale_adds_no_wait(name, monkeypatch):
    # torch has no autocast for a device that a program registers.
    monkeypatch.setattr(torch, "autocast", lambda *_: nullcontext())
    case = Case(ALGORITHMS[name], "image")
    scaled = waits_of_steps(case, ComputeSpec(precision="float16"))
    assert [step.total() for step in scaled] == [step.total() for step in waits_of_steps(case)]


USE_FLOAT64 = {name: (ALGORITHMS[name], {}) for name in ("coteaching_plus", "dividemix", "ulc")} | {
    "m_correction": (ALGORITHMS["m_correction"], {"bootstrapping": "dynamic"}),
    "ulc-beta": (ULC, {"mixture": "beta", "one_component_guard": True}),
}


@pytest.fixture
def no_float64():
    """The pretended device has no float64, like those of Apple (mps)."""
    WITHOUT_FLOAT64.add("pretended")
    yield
    WITHOUT_FLOAT64.remove("pretended")


def test_weighted_rows_are_drawn_if_the_device_has_no_float64(no_float64):
    with pretended_device() as seen:
        data = data_on(seen.device, Case(CrossEntropy, "vector").data())
        weights = torch.ones(len(data), device=seen.device)
        batch = next(replace(data, weights=weights).batches(16))
        assert batch.index.device == seen.device


@pytest.mark.parametrize("name", USE_FLOAT64)
def test_mixtures_are_fitted_on_the_cpu_if_the_device_has_no_float64(name, no_float64):
    cls, options = USE_FLOAT64[name]
    case = Case(cls, "vector", options)
    with pretended_device() as seen:
        algorithm = case.build(data_on(seen.device, case.data((12, 6, 4))))
        algorithm.run_epoch(EPOCHS)
        algorithm.judge()


class StaysBehind(CrossEntropy):
    """Makes a tensor on the CPU."""

    def train_epoch(self, epoch):
        for batch in self.data.batches(16):
            weight = torch.ones(len(batch))
            losses = F.cross_entropy(
                self.learner(batch.inputs).logits, batch.given, reduction="none"
            )
            self.learner.descend((weight * losses).mean())
        return {"loss": 0.0}


class AsksNumPy(CrossEntropy):
    """Reads a tensor on the device as an array."""

    def judge(self):
        self.data.given.numpy()
        return super().judge()


class OwnGenerator(CrossEntropy):
    """Draws on the device with a generator of the CPU."""

    def train_epoch(self, epoch):
        torch.rand(3, generator=torch.Generator(), device=self.data.given.device)
        return super().train_epoch(epoch)


class KeepsABuffer(CrossEntropy):
    """Makes a buffer without a device, as an author may."""

    def __init__(self, config, data, new_network):
        super().__init__(config, data, new_network)
        self.register_buffer("seen", torch.zeros(len(data)))

    def train_epoch(self, epoch):
        for batch in self.data.batches(16):
            self.seen[batch.index] += F.one_hot(batch.given, 3).float().sum(1)
        return super().train_epoch(epoch)


class ForgetsOnResume(KeepsABuffer):
    """Replaces its buffer by one on the CPU after the first epoch."""

    def train_epoch(self, epoch):
        record = super().train_epoch(epoch)
        self.seen = torch.tensor(self.seen.tolist())
        return record


@pytest.mark.parametrize("cls", [StaysBehind, AsksNumPy, OwnGenerator, ForgetsOnResume])
def test_a_planted_mistake_is_found(cls):
    with pytest.raises(DeviceMismatchError, match="test_pretended_device"):
        works_on_another_device(Case(cls, "vector"))


def test_a_buffer_without_a_device_is_on_that_of_the_data():
    works_on_another_device(Case(KeepsABuffer, "vector"))


def read_item(tensor):
    tensor.sum().item()


def read_list(tensor):
    tensor.tolist()


def find_nonzero(tensor):
    tensor.nonzero()


def index_by_mask(tensor):
    tensor[tensor > 0]


def copy_to_processor(tensor):
    tensor.cpu()


def copy_to_device(tensor):
    torch.tensor([1.0], device=tensor.device)


def decide(tensor):
    bool(tensor.any())


@pytest.mark.parametrize(
    "read",
    [read_item, read_list, find_nonzero, index_by_mask, copy_to_processor, copy_to_device, decide],
)
def test_a_wait_is_counted_once_with_its_line(read):
    with pretended_device() as seen:
        tensor = torch.arange(3.0, device=seen.device)
        assert not seen.waits
        read(tensor * 2 + 1)
    ((line, _),) = seen.waits
    assert seen.waits.total() == 1
    assert "test_pretended_device" in line


def test_other_code_of_the_process_does_not_see_the_device():
    with pretended_device():
        pass
    before = torch.get_rng_state()
    with torch.random.fork_rng():  # of all devices that torch knows
        torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.pretended.is_available()


def test_values_and_gradients_are_those_of_the_cpu():
    weight = torch.arange(6.0).view(2, 3).requires_grad_()
    (weight.square().sum() / 2).backward()
    with pretended_device() as seen:
        moved = weight.detach().to(seen.device).requires_grad_()
        (moved.square().sum() / 2).backward()
        assert moved.grad.device == seen.device
        assert torch.equal(moved.grad.cpu(), weight.grad)


def test_strong_augmentation_gives_the_same_images_on_the_device():
    images = torch.randint(0, 256, (9, 3, 8, 8), dtype=torch.uint8)
    torch.manual_seed(0)
    expected = cutout(rand_augment(images))
    with pretended_device() as seen:
        moved = images.to(seen.device)
        torch.manual_seed(0)
        changed = cutout(rand_augment(moved)).cpu()
    assert torch.equal(changed, expected)


class ReadsItsLoss(CrossEntropy):
    """Reads the loss after each step."""

    def train_epoch(self, epoch):
        losses = []
        for batch in self.data.batches(16):
            loss = F.cross_entropy(self.learner(batch.inputs).logits, batch.given)
            losses.append(self.learner.descend(loss).item())
        return {"loss": sum(losses)}


def test_an_item_in_the_step_is_found():
    steps = waits_of_steps(Case(ReadsItsLoss, "image"))
    plain = waits_of_steps(Case(CrossEntropy, "image"))
    assert [step.total() for step in steps] == [step.total() + 1 for step in plain]


def test_an_audit_predicts_held_out_rows_on_its_device(monkeypatch):
    case = Case(CrossEntropy, "vector")
    with pretended_device() as seen:
        data = case.data()
        algorithm = case.build(data)
        model = Model.of_algorithm(
            algorithm, NetworkSpec(width=8), data.preprocessing, "abc", np.full(3, 1 / 3)
        )
        monkeypatch.setattr(Model, "load", lambda folder, trust: model)
        moved = data_on(seen.device, data)
        held_out = HeldOutRows(np.arange(5), moved.stored[:5], moved.given[:5], data.preprocessing)
        run = train_and_measure(
            SimpleNamespace(device=seen.device, train=lambda *_: None),
            "title",
            RunSpec(),
            SimpleNamespace(held_out=held_out),
        )
        assert run.probability.shape == (5, 3)
        assert next(model.networks.parameters()).device == seen.device
