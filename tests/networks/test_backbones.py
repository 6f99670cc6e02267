"""The backbones: their shapes, their sizes, and what makes PreAct ResNet-18 the paper's."""

import pytest
import torch
from torch import nn

from ulc import networks
from ulc.config import NetworkSpec, checked
from ulc.errors import InputError
from ulc.networks import BACKBONES, backbone_maker, feature_count, network_maker
from ulc.networks.classifier import Classifier, HeadSpec
from ulc.networks.mlp import MLP
from ulc.networks.narrow_resnet import NarrowResNet
from ulc.networks.preact_resnet import Block, PreActResNet18
from ulc.networks.small import SmallCNN

CPU = torch.device("cpu")


def new_network(shape, *, name="auto", width=None, classes=3, options=None):
    spec = NetworkSpec(name=name, width=width, options=options or {})
    maker = network_maker(spec, shape, classes, CPU)
    return maker(HeadSpec())


@pytest.mark.parametrize(("classes", "parameters"), [(10, 11_171_274), (100, 11_217_444)])
def test_preact_resnet18_has_as_many_parameters_as_dividemix_s(classes, parameters):
    with torch.device("meta"):
        backbone = PreActResNet18((3, 32, 32))
    head = 512 * classes + classes
    assert sum(each.numel() for each in backbone.parameters()) + head == parameters


def test_a_classifier_adds_a_linear_head_and_nothing_else():
    """The whole network once for real: 11,171,274 parameters at ten classes."""
    network = new_network((3, 32, 32), name="preact_resnet18", classes=10)
    assert sum(each.numel() for each in network.parameters()) == 11_171_274
    assert network.head.in_features == 512


def test_the_shortcut_carries_the_activated_input():
    """With the convolutions at nought only the shortcut is left: it is ReLU(norm(x)), not x."""
    block = Block(2, 2, stride=1).eval()
    nn.init.zeros_(block.conv2.weight)
    values = torch.tensor([-3.0, 3.0]).repeat(4).view(1, 2, 2, 2)
    expected = values.clamp(min=0) / (1 + 1e-5) ** 0.5  # batch norm's own epsilon
    assert torch.allclose(block(values), expected)


def test_where_the_width_changes_the_shortcut_is_a_bare_convolution_of_the_activated_input():
    block = Block(1, 2, stride=2).eval()
    nn.init.zeros_(block.conv2.weight)
    assert isinstance(block.shortcut, nn.Conv2d)
    assert block.shortcut.bias is None
    with torch.no_grad():
        block.shortcut.weight.copy_(torch.tensor([1.0, -2.0]).view(2, 1, 1, 1))
    values = torch.tensor([[-1.0, 5.0], [5.0, 5.0]]).view(1, 1, 2, 2).repeat(1, 1, 2, 2)
    values[0, 0, 2, 2] = 4.0
    seen = torch.tensor([[0.0, 0.0], [0.0, 4.0]]) / (1 + 1e-5) ** 0.5
    assert torch.allclose(block(values), torch.stack([seen, -2 * seen])[None])


def test_nothing_comes_after_the_last_addition():
    """Doubling the last convolution doubles its part of the features, below zero too.

    A norm or an activation behind the sum would not be linear in it.
    """
    torch.manual_seed(0)
    network = PreActResNet18((1, 8, 8), width=2)
    images = torch.randn(3, 1, 8, 8)
    last = network.stages[-1][-1].conv2.weight
    original = last.detach().clone()
    seen = []
    with torch.no_grad():
        for factor in (0, 20, 40):
            last.copy_(factor * original)
            seen.append(network(images))
    assert torch.allclose(seen[2] - seen[1], seen[1] - seen[0], atol=1e-4)
    assert seen[2].min() < 0


def test_norms_are_two_a_block_and_one_in_the_stem():
    with torch.device("meta"):
        parts = list(PreActResNet18((3, 32, 32)).modules())
    assert sum(isinstance(part, nn.BatchNorm2d) for part in parts) == 1 + 2 * 8
    assert sum(isinstance(part, nn.Conv2d) for part in parts) == 1 + 2 * 8 + 3


def test_three_stages_halve_the_image():
    network = PreActResNet18((3, 32, 32), width=2)
    early = network.early_stages(torch.zeros(2, 3, 32, 32))
    assert early.shape == (2, 8, 8, 8)
    assert network.stages[-1](early).shape == (2, 16, 4, 4)


@pytest.mark.parametrize("kind", [PreActResNet18, NarrowResNet, SmallCNN])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (4, 5, 9), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("width", [2, 3])
def test_images_of_any_size_become_eight_widths_of_features(kind, shape, width):
    assert kind(shape, width=width)(torch.randn(2, *shape)).shape == (2, 8 * width)


@pytest.mark.parametrize("size", [1, 3, 500])
def test_vectors_of_any_length_become_as_many_features_as_the_width(size):
    assert MLP((size,), width=5)(torch.randn(4, size)).shape == (4, 5)
    assert MLP((size,))(torch.randn(4, size)).shape == (4, 512)


@pytest.mark.parametrize(("name", "shape"), [
    ("preact_resnet18", (1, 8, 8)), ("narrow_resnet", (1, 8, 8)), ("small_cnn", (1, 8, 8)),
    ("mlp", (4,)),
])  # fmt: skip
def test_a_name_of_ours_gives_logits_of_every_class(name, shape):
    network = new_network(shape, name=name, width=8, classes=7)
    assert network(torch.randn(3, *shape)).logits.shape == (3, 7)
    assert name in BACKBONES


def test_auto_picks_by_the_kind_of_input():
    assert isinstance(new_network((1, 8, 8)).backbone, SmallCNN)
    assert isinstance(new_network((8,)).backbone, MLP)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("mlp", (1, 8, 8)), ("small_cnn", (8,)), ("narrow_resnet", (8,)), ("preact_resnet18", (8,))],
)
def test_a_network_for_another_kind_of_input_is_refused(name, shape):
    with pytest.raises(InputError, match=f"'{name}' does not take inputs .*use mlp for vectors"):
        new_network(shape, name=name)


def test_an_unknown_network_is_told_the_known_ones():
    with pytest.raises(InputError, match="unknown network 'resnet'; known: preact_resnet18, "):
        new_network((3, 8, 8), name="resnet")


def test_every_network_starts_with_weights_of_its_own():
    maker = network_maker(NetworkSpec(), (8,), 3, CPU)
    first, second = maker(HeadSpec()), maker(HeadSpec())
    assert not torch.equal(first.head.weight, second.head.weight)
    assert not torch.equal(
        first.backbone.last_stage[0].weight, second.backbone.last_stage[0].weight
    )


def test_an_mlp_is_made_without_a_trial(monkeypatch):
    """A trial on "meta" would import torch's compiler; the width is what a trial would find."""
    assert feature_count(MLP((5,), width=7), (5,)) == MLP((5,), width=7).width

    def trial(*_):
        raise AssertionError

    monkeypatch.setattr(networks, "feature_count", trial)
    make = network_maker(NetworkSpec(name="mlp", width=7), (5,), 3, torch.device("meta"))
    assert make(HeadSpec()).head.in_features == 7


def test_asking_for_the_feature_count_leaves_no_trace():
    """No batch statistics are gathered, no random number is drawn, and training goes on."""
    backbone = MLP((3,), width=4)
    drawn = torch.get_rng_state()
    assert feature_count(backbone, (3,)) == 4
    assert backbone.last_stage[1].num_batches_tracked == 0
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(part.training for part in backbone.modules())


OWN = """
import torch
from torch import nn

class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(1, 6, 3)
    def forward(self, images):
        return self.layer(images).mean((2, 3))

class Unpooled(Pooled):
    def forward(self, images):
        return self.layer(images)

class Flat(Pooled):
    def forward(self, images):
        return self.layer(images).flatten()

class Folded(Pooled):
    def forward(self, images):
        return super().forward(images).view(1, -1)

class Several(Pooled):
    def forward(self, images):
        return images, images

class Failing(Pooled):
    def forward(self, images):
        raise RuntimeError("first line\\nsecond line")

class Demanding(Pooled):
    def __init__(self, depth):
        super().__init__()

class Tokens(Pooled):
    def forward(self, images):
        return self.layer(images).flatten(2)

class Deep(nn.Module):
    def __init__(self, depth, width=4):
        super().__init__()
        layers = [nn.Conv2d(1 if i == 0 else width, width, 3, padding=1) for i in range(depth)]
        self.layers = nn.Sequential(*layers)
    def forward(self, images):
        return self.layers(images).mean((2, 3))

class Logits(Pooled):
    def __init__(self, outputs=3):
        super().__init__()
        self.fc = nn.Linear(6, outputs)
    def forward(self, images):
        return self.fc(super().forward(images))

class ThreeFeatures(Logits):
    def __init__(self):
        super().__init__()
        self.activation = nn.ReLU()
    def forward(self, images):
        return self.activation(super().forward(images))

number = 3
nothing = dict
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "own_networks.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("own_module")
def test_a_network_of_the_user_s_own():
    network = new_network((1, 8, 8), name="own_networks:Pooled")
    assert type(network.backbone).__name__ == "Pooled"
    assert network.head.in_features == 6
    assert network(torch.zeros(4, 1, 8, 8)).logits.shape == (4, 3)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_network_of_the_user_s_own_may_view_what_its_layers_give(channels):
    """Data keep their channels last in memory, `view` wants them first."""

    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution = nn.Conv2d(channels, 4, 3)

        def forward(self, images):
            return self.convolution(images).view(len(images), -1)

    network = Classifier(LeNet(), 4 * 6 * 6, 3, HeadSpec(dropout=0.3))
    images = torch.randn(5, channels, 8, 8)
    as_stored = images.contiguous(memory_format=torch.channels_last)
    assert torch.equal(network.trunk(as_stored), network.trunk(images))


@pytest.mark.usefixtures("own_module")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "Unpooled",
            r"Unpooled gives \(2, 6, 6, 6\) .* features \(B, D\); pool over height and width",
        ),
        ("Flat", r"Flat gives \(432,\) .*pooled features \(B, D\); keep the batch"),
        ("Folded", r"Folded gives \(1, 12\) .*pooled features \(B, D\); keep the batch"),
        (
            "Several",
            r"Several gives tuple .*pooled features \(B, D\); let forward return one tensor",
        ),
        ("Tokens", r"Tokens gives \(2, 6, 36\) .*; pool over the second dimension"),
        ("Logits", r"Logits ends in a linear layer .* 3 classes, so it gives logits.*remove that"),
        ("Failing", r"Failing does not take inputs of shape \(1, 8, 8\) \(first line\); use"),
        ("Demanding", "own_networks:Demanding' cannot be made .*'depth'.*--set network.NAME=VALUE"),
        ("number", "own_networks:number' is no torch Module class"),
        ("nothing", "own_networks:nothing' is no torch Module class; name a class derived from"),
        ("Missing", "own_networks:Missing' cannot be imported .*PYTHONPATH"),
    ],
)
def test_a_network_of_the_user_s_own_that_does_not_fit_is_refused(name, message):
    with pytest.raises(InputError, match=message):
        new_network((1, 8, 8), name=f"own_networks:{name}")


@pytest.mark.usefixtures("own_module")
def test_a_network_of_one_s_own_gets_its_constructor_arguments():
    network = new_network((1, 8, 8), name="own_networks:Deep", options={"depth": 2, "width": 5})
    assert (len(network.backbone.layers), network.head.in_features) == (2, 5)


@pytest.mark.usefixtures("own_module")
def test_an_argument_that_the_constructor_does_not_take_is_named():
    with pytest.raises(InputError, match=r"Deep' cannot be made .*\(depth=2, height=3\).*'height'"):
        new_network((1, 8, 8), name="own_networks:Deep", options={"depth": 2, "height": 3})


@pytest.mark.usefixtures("own_module")
@pytest.mark.parametrize(("name", "options"), [("ThreeFeatures", {}), ("Logits", {"outputs": 4})])
def test_as_many_features_as_classes_and_a_linear_end_are_allowed_one_without_the_other(
    name, options
):
    network = new_network((1, 8, 8), name=f"own_networks:{name}", options=options)
    assert network(torch.zeros(4, 1, 8, 8)).logits.shape == (4, 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"name": "mlp", "options": {"depth": 2}}, "'mlp' has no option 'depth'; it has width"),
        ({"name": "own:Net", "width": 2}, "width is for built-in networks; give 'own:Net' its"),
    ],
)
def test_width_is_for_built_in_networks_and_options_for_one_s_own(content, message):
    with pytest.raises(InputError, match=message):
        checked(NetworkSpec, content, where="network")


@pytest.mark.parametrize("name", ["no_such_module:Net", ":Net", "no.such:Net"])
def test_a_module_that_is_not_there_is_refused_before_anything_is_made(name):
    with pytest.raises(InputError, match=f"'{name}' cannot be imported"):
        backbone_maker(NetworkSpec(name=name), (8,))
