"""Heads and dropout on a backbone."""

import pytest
import torch
from torch import nn

from ulc.errors import InputError
from ulc.networks.classifier import Classifier, HeadSpec
from ulc.networks.mlp import MLP
from ulc.networks.narrow_resnet import NarrowResNet
from ulc.networks.preact_resnet import PreActResNet18
from ulc.networks.small import SmallCNN

BACKBONES = {
    "mlp": (lambda: MLP((6,), width=8), 8, (6,)),
    "small_cnn": (lambda: SmallCNN((1, 8, 8), width=1), 8, (1, 8, 8)),
    "narrow_resnet": (lambda: NarrowResNet((1, 8, 8), width=1), 8, (1, 8, 8)),
    "preact_resnet18": (lambda: PreActResNet18((1, 8, 8), width=1), 8, (1, 8, 8)),
}
every_backbone = pytest.mark.parametrize("name", BACKBONES)
every_place = pytest.mark.parametrize("place", ["feature", "last_stage"])


def new_classifier(name="mlp", classes=3, **heads):
    torch.manual_seed(0)
    make, features, _ = BACKBONES[name]
    return Classifier(make(), features, classes, HeadSpec(**heads))


def batch(name="mlp"):
    return torch.randn(5, *BACKBONES[name][2], generator=torch.Generator().manual_seed(1))


@every_backbone
@every_place
@pytest.mark.parametrize("training", [True, False])
def test_forward_is_top_of_trunk(name, place, training):
    network = new_classifier(name, dropout=0.5, dropout_place=place, logit_noise=True)
    network.train(training)
    inputs = batch(name)
    torch.manual_seed(2)
    whole = network(inputs)
    torch.manual_seed(2)
    parts = network.top(network.trunk(inputs))
    for one, other in zip(whole, parts, strict=True):
        assert torch.equal(one, other)


@every_backbone
@every_place
def test_all_that_is_random_lies_in_the_top(name, place):
    """In evaluation with dropout on, the trunk is always the same and the top is not."""
    network = new_classifier(name, dropout=0.5, dropout_place=place).eval()
    network.dropout.train()
    inputs = batch(name)
    reached = network.trunk(inputs)
    assert torch.equal(network.trunk(inputs), reached)
    assert not torch.equal(network.top(reached).logits, network.top(reached).logits)


@every_backbone
def test_the_place_says_whether_the_last_stage_sees_dropout(name):
    for place, same in (("feature", True), ("last_stage", False)):
        network = new_classifier(name, dropout=0.5, dropout_place=place).eval()
        network.dropout.train()
        reached = network.trunk(batch(name))
        first, second = network.top(reached).features, network.top(reached).features
        assert torch.equal(first, second) == same


@every_backbone
def test_without_dropout_the_place_does_not_matter(name):
    feature = new_classifier(name, dropout_place="feature").eval()
    last = new_classifier(name, dropout_place="last_stage").eval()
    assert torch.equal(feature(batch(name)).logits, last(batch(name)).logits)


@every_backbone
def test_in_evaluation_dropout_does_nothing_at_either_place(name):
    plain = new_classifier(name).eval()(batch(name)).logits
    for place in ("feature", "last_stage"):
        dropped = new_classifier(name, dropout=0.5, dropout_place=place).eval()
        assert torch.allclose(dropped(batch(name)).logits, plain, atol=1e-6)


@pytest.mark.parametrize("training", [True, False])
@every_place
@every_backbone
def test_clean_logits_are_those_without_dropout(name, place, training):
    network = new_classifier(name, dropout=0.5, dropout_place=place, logit_noise=True)
    network.train(training)
    network.dropout.eval()
    expected = network(batch(name)).logits
    network.dropout.train()
    torch.testing.assert_close(network.clean_logits(batch(name)), expected)


def test_dropout_before_a_last_stage_that_is_not_there_is_refused():
    with pytest.raises(InputError, match=r"Linear has no `last_stage`.*dropout_place = 'feature'"):
        Classifier(nn.Linear(3, 4), 4, 2, HeadSpec(dropout=0.1, dropout_place="last_stage"))


def test_a_backbone_without_stages_will_do_with_dropout_on_the_feature():
    network = Classifier(nn.Linear(3, 4), 4, 2, HeadSpec(dropout=0.1))
    assert network(torch.zeros(5, 3)).logits.shape == (5, 2)


def test_logits_are_the_head_of_the_features():
    network = new_classifier().eval()
    output = network(batch())
    assert torch.allclose(output.logits, network.head(output.features))
    assert torch.equal(output.features, network.backbone(batch()))
    assert output.instance_std is None
    assert output.class_std is None


def test_logit_noise_starts_alike_for_every_example():
    """δ^x at the standard deviation asked for, an entry of δ at 1/√K of it: .6 / √4 = .3."""
    output = new_classifier(classes=4, logit_noise=True, instance_std=0.5, class_std=0.6)(batch())
    torch.testing.assert_close(output.instance_std, torch.full((5, 4), 0.5))
    torch.testing.assert_close(output.class_std, torch.full((4, 4), 0.3))


def test_the_noise_on_a_logit_starts_alike_for_any_number_of_classes():
    """K logits of 1 add K · (class_std / √K)² to the variance of a logit."""
    for classes in (2, 10, 100):
        output = new_classifier(classes=classes, logit_noise=True, class_std=0.4)(batch())
        assert float(output.class_std.square().sum(1)[0].detach()) == pytest.approx(0.16)


def test_the_standard_deviation_stays_in_bounds():
    network = new_classifier(logit_noise=True).eval()
    for bias, bound in ((-99.0, 1e-3), (99.0, 10.0)):
        nn.init.constant_(network.noise_head.bias, bias)
        assert torch.equal(network(batch()).instance_std, torch.full((5, 3), bound))


def test_only_noise_variances_are_not_decayed():
    network = new_classifier(logit_noise=True)
    names = {id(value): name for name, value in network.named_parameters()}
    decayed, free = (
        (group["weight_decay"], [names[id(each)] for each in group["params"]])
        for group in network.parameter_groups(5e-4)
    )
    assert decayed[0] == 5e-4
    assert free[0] == 0
    assert sorted(free[1]) == ["class_std", "noise_head.bias"]
    assert sorted(decayed[1] + free[1]) == sorted(names.values())


def test_without_logit_noise_everything_is_decayed():
    network = new_classifier()
    (group,) = network.parameter_groups(0.1)
    assert group["weight_decay"] == 0.1
    assert len(group["params"]) == len(list(network.parameters()))
