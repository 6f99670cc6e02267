"""The device of a training: tried before it is chosen, reproducible, with full memory explained."""

import pytest
import torch

from ulc.algorithms.base import seeded
from ulc.config import NetworkSpec
from ulc.data.rows import rows_at_once
from ulc.errors import InputError
from ulc.experiments.side_by_side import least_used
from ulc.networks import network_maker
from ulc.storage.run_folder import RunFolder
from ulc.testing import toy_data
from ulc.training import device as devices
from ulc.training.device import choose_device, memory_explained, reproducible, split_devices
from ulc.training.environment import describe_environment, write_environment
from ulc.training.loop import train

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def broken(device):
    if device.type == "cuda":
        raise RuntimeError("CUDA error: no kernel image is available\nmore")


def test_auto_takes_the_cpu_with_a_warning_if_the_gpu_does_not_compute(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(devices, "try_device", broken)
    with pytest.warns(UserWarning, match=r"no kernel image is available\); the CPU is used"):
        assert choose_device("auto") == CPU


def test_auto_takes_a_gpu_that_computes(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(devices, "try_device", lambda device: None)
    assert choose_device("auto") == CUDA


@pytest.mark.parametrize("name", ["meta", "magic"])
def test_a_device_that_cannot_compute_is_refused(name):
    with pytest.raises(InputError, match=f"device '{name}' does not work here"):
        choose_device(name)


def test_training_on_a_cpu_does_not_ask_for_gpus(monkeypatch):
    """Asking would start CUDA, which fails on a machine with an old driver."""

    def fail():
        raise RuntimeError("the NVIDIA driver on your system is too old")

    monkeypatch.setattr(torch.cuda, "device_count", fail)
    with seeded(0, 0):
        torch.rand(1)


@pytest.mark.parametrize("kind", [torch.cuda.OutOfMemoryError, RuntimeError])
def test_full_memory_is_one_sentence_with_a_remedy(kind):
    class Fills:
        data = toy_data("vector")

        def run_epoch(self, epoch):
            raise kind("CUDA out of memory. Tried to allocate 2 GiB.\nSee documentation")

    with pytest.raises(InputError, match="out of memory") as caught:
        train(Fills(), range(1))
    assert "batch_size" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_errors_of_torch_stay_as_they_are():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), memory_explained():
        raise RuntimeError("shapes cannot be multiplied")


def test_a_gpu_trains_with_deterministic_algorithms_and_the_user_gets_his_back():
    before = torch.are_deterministic_algorithms_enabled()
    with reproducible(CUDA):
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.backends.cudnn.deterministic
    assert torch.are_deterministic_algorithms_enabled() == before
    assert not torch.backends.cudnn.deterministic
    with reproducible(CPU):
        assert torch.are_deterministic_algorithms_enabled() == before


def test_large_images_are_evaluated_in_smaller_batches():
    """As many pixels as 1,024 images of 32 pixels a side: 1,024 · (32 / 224)² = 20.9."""
    assert rows_at_once((3, 32, 32)) == 1024
    assert rows_at_once((1, 28, 28)) == 1024
    assert rows_at_once((3, 224, 224)) == 20
    assert rows_at_once((3, 10_000, 10_000)) == 1
    assert rows_at_once((100_000,)) == 1024


def test_a_pass_in_order_has_all_rows_in_batches_that_fit(monkeypatch):
    monkeypatch.setattr("ulc.data.rows.VALUES_AT_ONCE", 10 * 64)
    data = toy_data("image")
    batches = list(data.in_order())
    assert max(map(len, batches)) == 10
    assert torch.cat([batch.index for batch in batches]).tolist() == list(range(len(data)))


def test_the_first_environment_is_kept_and_another_one_is_added_once(tmp_path):
    folder = RunFolder(tmp_path)
    first, second = {"threads": 1, "gpu": "A"}, {"threads": 2, "gpu": "B"}
    for current in (first, first, second, second, first):
        write_environment(folder, current)
    assert folder.read_json("environment.json") == first | {"resumed": [second]}


def test_the_environment_names_gpu_cuda_and_cudnn(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Some GPU")
    found = describe_environment(CUDA)
    assert found["gpu"] == "Some GPU"
    assert {"cuda", "cudnn"} <= set(found)
    assert "gpu" not in describe_environment(CPU)


def test_trainings_are_spread_over_the_devices():
    names = split_devices("cuda:0, cuda:1")
    assert names == ["cuda:0", "cuda:1"]
    used = []
    for _ in range(4):
        used.append(least_used(names, used))
    assert used == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]
    with pytest.raises(InputError, match="names no device"):
        split_devices(" , ")


def test_a_narrow_preact_resnet_is_refused():
    with pytest.raises(InputError, match="width of at least 8"):
        network_maker(NetworkSpec(name="preact_resnet18", width=4), (3, 8, 8), 3, CPU)
