"""ResNet-50 and its initial weights."""

import sys

import pytest
import torch
from safetensors.torch import save_file

from ulc.config import NetworkSpec
from ulc.errors import InputError
from ulc.networks import backbone_maker
from ulc.networks.resnet50 import ResNet50

SHAPE = (3, 32, 32)


def make(**options):
    return backbone_maker(NetworkSpec(name="resnet50", **options), SHAPE)()


def test_names_and_sizes_are_those_of_torchvision_without_the_last_layer():
    """torchvision's resnet50 has 25,557,032 parameters, 2,049,000 of them in `fc`; 320 entries."""
    with torch.device("meta"):
        backbone = ResNet50((3, 224, 224))
    state = backbone.state_dict()
    assert sum(each.numel() for each in backbone.parameters()) == 25_557_032 - 2_049_000
    assert len(state) == 320 - 2
    assert state["layer1.0.downsample.0.weight"].shape == (256, 64, 1, 1)
    assert state["layer3.5.conv2.weight"].shape == (256, 256, 3, 3)
    assert state["layer4.2.bn3.running_var"].shape == (2048,)


def test_pooled_features_are_32_times_the_width():
    assert make(width=2).eval()(torch.zeros(2, *SHAPE)).shape == (2, 64)


@pytest.mark.parametrize("kind", ["plain", "wrapped", "safetensors"])
def test_weights_of_a_file_are_the_initial_weights(kind):
    torch.manual_seed(1)
    wanted = make(width=2).state_dict()
    whole = wanted | {"fc.weight": torch.zeros(1000, 64), "fc.bias": torch.zeros(1000)}
    if kind == "safetensors":
        name = "weights.safetensors"
        save_file({key: value.contiguous() for key, value in whole.items()}, name)
    else:
        name = "weights.pth"
        wrapped = {"state_dict": {f"module.{key}": value for key, value in whole.items()}}
        torch.save(whole if kind == "plain" else wrapped, name)
    found = make(width=2, weights=name).state_dict()
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[key], wanted[key]) for key in wanted)


def test_two_networks_do_not_share_their_weights():
    torch.save(make(width=2).state_dict(), "weights.pth")
    maker = backbone_maker(NetworkSpec(name="resnet50", width=2, weights="weights.pth"), SHAPE)
    one, other = maker(), maker()
    with torch.no_grad():
        one.conv1.weight.zero_()
    assert other.conv1.weight.abs().sum() > 0


def test_weights_of_another_size_are_refused_by_name():
    torch.save(make(width=4).state_dict(), "weights.pth")
    with pytest.raises(InputError, match=r"weights.pth: '.*' does not fit ResNet50 \(wanted"):
        make(width=2, weights="weights.pth")


def test_a_file_that_is_missing_or_no_state_dict_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"--weights nowhere.pth: no such file"):
        make(weights="nowhere.pth")
    (tmp_path / "text.pth").write_text("no weights")
    with pytest.raises(InputError, match=r"text.pth: no readable weights"):
        make(weights="text.pth")
    torch.save([1, 2], "list.pth")
    with pytest.raises(InputError, match=r"list.pth: holds no state dict"):
        make(weights="list.pth")


def test_without_torchvision_and_timm_the_message_names_both_and_the_remedy(monkeypatch):
    for name in ("torchvision", "torchvision.models", "timm"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"torchvision: .*; timm: .*--weights FILE") as caught:
        make(weights="imagenet")
    assert "\n" not in str(caught.value)


def test_imagenet_weights_come_from_torchvision_where_it_is(monkeypatch):
    from types import SimpleNamespace

    def resnet50(weights):
        assert weights == "IMAGENET1K_V1"
        return ResNet50(SHAPE, width=2)

    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "torchvision.models", SimpleNamespace(resnet50=resnet50))
    assert make(width=2, weights="imagenet")


@pytest.mark.parametrize("name", ["small_cnn", "auto"])
def test_other_networks_have_no_weights(name):
    with pytest.raises((InputError, ValueError), match="weights are for the network 'resnet50'"):
        backbone_maker(NetworkSpec(name=name, weights="imagenet"), SHAPE)
