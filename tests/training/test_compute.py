"""Precision, accumulated gradients, compiled networks, and how often a run is scored."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ulc.algorithms import ALGORITHMS
from ulc.algorithms.cross_entropy import CrossEntropy
from ulc.blocks.learner import Learner
from ulc.cli import parse
from ulc.config import SGD, ComputeSpec, DataSpec, RunSpec
from ulc.errors import InputError
from ulc.networks.classifier import Classifier, HeadSpec
from ulc.testing import Case, require_same, through_a_file
from ulc.training.compute import apply_compute, choose_precision
from ulc.training.inference import judge_labels
from ulc.training.run import run


def new_learner(accumulate=1):
    torch.manual_seed(0)
    learner = Learner(Classifier(nn.Linear(4, 5), 5, 3, HeadSpec()), SGD(lr=0.1))
    learner.accumulate = accumulate
    return learner


def learn(learner, inputs, given):
    learner.descend(F.cross_entropy(learner(inputs).logits, given))


def test_two_accumulated_halves_make_the_step_of_the_whole_batch():
    inputs, given = torch.randn(6, 4), torch.tensor([0, 1, 2, 2, 1, 0])
    whole, halves = new_learner(), new_learner(accumulate=2)
    before = halves.network.head.weight.clone()
    for _ in range(2):
        learn(whole, inputs, given)
        learn(halves, inputs[:3], given[:3])
        if _ == 0:
            assert torch.equal(halves.network.head.weight, before)
        learn(halves, inputs[3:], given[3:])
    torch.testing.assert_close(halves.network.state_dict(), whole.network.state_dict())


def test_a_batch_left_over_at_the_end_of_an_epoch_makes_a_step_of_its_own():
    inputs, given = torch.randn(3, 4), torch.tensor([0, 1, 2])
    whole, alone = new_learner(), new_learner(accumulate=2)
    learn(whole, inputs, given)
    learn(alone, inputs, given)
    alone.finish_epoch()
    alone.finish_epoch()
    require_same(alone.network.state_dict(), whole.network.state_dict(), "the step differs")


TYPES = [("bfloat16", name) for name in ("ce", "meta_learning", "ulc")]
TYPES += [("float16", name) for name in ALGORITHMS]


@pytest.mark.parametrize(("precision", "name"), TYPES)
def test_resuming_with_half_of_the_bits_and_accumulation_changes_nothing(precision, name):
    case = Case(ALGORITHMS[name], "vector")
    compute = ComputeSpec(precision=precision, accumulate=2)

    def build():
        algorithm = case.build(case.data())
        apply_compute(algorithm, compute)
        return algorithm

    straight, stopped, resumed = build(), build(), build()
    records = [straight.run_epoch(epoch) for epoch in range(3)]
    for epoch in range(2):
        stopped.run_epoch(epoch)
    resumed.load_state_dict(through_a_file(stopped.state_dict()))
    assert resumed.run_epoch(2) == records[2]
    assert all(np.isfinite(list(record.values())).all() for record in records)
    require_same(straight.state_dict(), resumed.state_dict(), "the state differs")


class Watched(nn.Module):
    """A backbone that notes the type in which its layer computes."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 5)

    def forward(self, values):
        values = self.layer(values)
        self.seen = values.dtype
        return values


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_the_backbone_computes_with_half_of_the_bits_and_the_rest_in_float32(precision):
    torch.manual_seed(0)
    network = Classifier(Watched(), 5, 3, HeadSpec(logit_noise=True))
    inputs = torch.randn(6, 4)
    exact = network(inputs)
    network.precision = precision
    output = network(inputs)
    assert network.backbone.seen == getattr(torch, precision)
    assert {each.dtype for each in output} == {torch.float32}
    assert not torch.equal(output.logits, exact.logits)
    torch.testing.assert_close(output.logits, exact.logits, rtol=0.03, atol=0.03)


@pytest.mark.parametrize(("new", "expected"), [(True, "bfloat16"), (False, "float16")])
def test_the_precision_is_chosen_by_the_device(new, expected, monkeypatch):
    assert choose_precision(torch.device("cpu")) == "float32"
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: new)
    assert choose_precision(torch.device("cuda", 1)) == expected


def test_a_run_can_be_resumed_with_another_precision_that_its_device_has():
    case = Case(CrossEntropy, "vector")
    stopped, resumed = (case.build(case.data()) for _ in range(2))
    apply_compute(stopped, ComputeSpec(precision="auto"))
    apply_compute(resumed, ComputeSpec(precision="float16"))
    for one, other in [(stopped, resumed), (resumed, stopped)]:
        one.run_epoch(0)
        other.load_state_dict(through_a_file(one.state_dict()))


@pytest.mark.parametrize("name", ["dividemix", "elr_plus"])
def test_networks_with_batch_norm_learn_images_in_float16(name):
    case = Case(ALGORITHMS[name], "image")
    algorithm = case.build(case.data())
    apply_compute(algorithm, ComputeSpec(precision="float16"))
    for epoch in range(3):
        record = algorithm.run_epoch(epoch)
    assert np.isfinite(list(record.values())).all()
    scales = [learner.network.gradient_scale.scale for learner in algorithm.learners()]
    assert len({id(scale) for scale in scales}) == len(scales) == 2
    assert min(scales) > 1


def test_all_networks_are_compiled_teachers_too(monkeypatch):
    compiled = []
    monkeypatch.setattr(nn.Module, "compile", lambda module: compiled.append(module))
    algorithm = Case(ALGORITHMS["elr_plus"], "vector").build(Case(CrossEntropy, "vector").data())
    apply_compute(algorithm, ComputeSpec(compiled=True))
    assert len(compiled) == 4


def test_settings_of_computing_come_from_the_command_line():
    settings = parse.settings(["compute.accumulate=2", "compute.precision=bfloat16"])
    assert parse.compute(settings["compute"]) == ComputeSpec(precision="bfloat16", accumulate=2)
    with pytest.raises(InputError, match=r"--set compute: unknown key 'accumlate'; known here:"):
        parse.compute({"accumlate": 2})


def test_a_spec_without_these_settings_has_the_folder_name_that_it_had_before():
    assert "compute" not in RunSpec().content
    assert RunSpec(compute=ComputeSpec(accumulate=2)).folder_name != RunSpec().folder_name


@pytest.mark.slow
def test_a_run_is_scored_every_second_epoch_and_at_its_end(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(2), 20)
    inputs = rng.normal(size=(40, 3)) + labels[:, None]
    np.savez(tmp_path / "toy.npz", X=inputs, y=labels, X_test=inputs, y_test=labels)
    spec = RunSpec(
        data=DataSpec(source="npz", path=str(tmp_path / "toy.npz")),
        algorithm="ce",
        epochs=5,
        compute=ComputeSpec(score_every=2),
    )
    folder = run(spec, tmp_path / "runs")
    assert [each["epoch"] for each in folder.records if "test" in each] == [1, 3, 4]
    assert folder.spec == run(spec, tmp_path / "runs").spec
    summary = folder.read_json("summary.json")
    assert summary["training"]["best_epoch_on_test"] in (1, 3, 4)


@pytest.mark.slow
def test_labels_are_judged_only_in_epochs_that_need_it(tmp_path, monkeypatch):
    judged = []

    def count(algorithm):
        judged.append(algorithm)
        return judge_labels(algorithm)

    monkeypatch.setattr("ulc.training.loop.judge_labels", count)
    labels = np.repeat(np.arange(2), 20)
    inputs = np.random.default_rng(0).normal(size=(40, 3)) + labels[:, None]
    np.savez(tmp_path / "toy.npz", X=inputs, y=labels)
    spec = RunSpec(
        data=DataSpec(source="npz", path=str(tmp_path / "toy.npz")),
        noise=parse.noise("symmetric:0.2"),
        algorithm="ulc_plus",
        options={"warmup_epochs": 2, "cross_epochs": 5},
        epochs=6,
        compute=ComputeSpec(score_every=6),
    )
    folder = run(spec, tmp_path / "runs")
    assert folder.has("after_warmup.npz")
    # the last epoch of the warm-up, the one after it, and the last, which is scored
    assert len(judged) == 3
