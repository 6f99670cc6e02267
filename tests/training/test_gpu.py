"""What only a GPU can show; skipped where there is none."""

import pytest
import torch

from ulc.algorithms import ALGORITHMS
from ulc.config import ComputeSpec
from ulc.testing import KINDS, Case, data_on, require_same, through_a_file, works_on_another_device
from ulc.training.compute import apply_compute
from ulc.training.device import choose_device, reproducible
from ulc.training.environment import describe_environment

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU of CUDA"),
]
CUDA = torch.device("cuda")


def build(case, compute=None):
    algorithm = case.build(data_on(CUDA, case.data()))
    apply_compute(algorithm, compute)
    return algorithm


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_trains_judges_and_resumes_on_the_gpu(name, kind):
    works_on_another_device(Case(ALGORITHMS[name], kind))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_resumed_training_on_the_gpu_has_the_same_bits(name):
    case = Case(ALGORITHMS[name], "image")
    with reproducible(CUDA):
        straight, stopped, resumed = (build(case) for _ in range(3))
        for epoch in range(3):
            straight.run_epoch(epoch)
        for epoch in range(2):
            stopped.run_epoch(epoch)
        resumed.load_state_dict(through_a_file(stopped.state_dict()))
        resumed.run_epoch(2)
    require_same(resumed.state_dict(), straight.state_dict(), "the state differs")


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_half_of_the_bits_trains_to_finite_records(name, precision):
    algorithm = build(Case(ALGORITHMS[name], "image"), ComputeSpec(precision=precision))
    for epoch in range(3):
        record = algorithm.run_epoch(epoch)
        assert all(torch.tensor(list(record.values())).isfinite())


def test_a_compiled_network_trains():
    algorithm = build(Case(ALGORITHMS["ulc"], "image"), ComputeSpec(compiled=True))
    algorithm.run_epoch(0)
    algorithm.judge()


def test_auto_takes_the_gpu_and_the_environment_names_it():
    assert choose_device("auto") == CUDA
    assert describe_environment(CUDA)["gpu"] == torch.cuda.get_device_name(CUDA)
