"""Backbones, ours and the user's, and the heads an algorithm wants on them."""

from collections.abc import Callable

import torch
from torch import nn

from ulc.config import NetworkSpec
from ulc.errors import InputError, first_line
from ulc.importing import imported
from ulc.networks.classifier import Classifier, HeadSpec
from ulc.networks.mlp import MLP
from ulc.networks.preact_resnet import PreActResNet18
from ulc.networks.small import SmallCNN

BACKBONES: dict[str, Callable[..., nn.Module]] = {
    "preact_resnet18": PreActResNet18,
    "small_cnn": SmallCNN,
    "mlp": MLP,
}
NewNetwork = Callable[[HeadSpec], Classifier]
NewBackbone = Callable[[], nn.Module]


def network_maker(
    backbone: NetworkSpec | NewBackbone,
    shape: tuple[int, ...],
    classes: int,
    device: torch.device,
) -> NewNetwork:
    """A function that makes a new network, each time with new initial weights.

    `backbone` describes one, or is a user's own class or function that makes one.
    """
    new_backbone = (
        backbone_maker(backbone, shape)
        if isinstance(backbone, NetworkSpec)
        else own_module(backbone, getattr(backbone, "__qualname__", repr(backbone)))
    )

    def new_network(heads: HeadSpec) -> Classifier:
        backbone = new_backbone()
        return Classifier(backbone, feature_count(backbone, shape), classes, heads).to(device)

    return new_network


def backbone_maker(spec: NetworkSpec, shape: tuple[int, ...]) -> NewBackbone:
    """The backbone's class with its arguments; `auto` picks by the kind of input."""
    if ":" in spec.name:
        return own_module(imported(spec.name, "network"), spec.name)
    name = spec.name if spec.name != "auto" else ("small_cnn" if len(shape) == 3 else "mlp")
    if name not in BACKBONES:
        raise InputError(
            f"unknown network '{name}'; known: {', '.join(BACKBONES)}, or your own module:Class"
        )
    if (name == "mlp") != (len(shape) == 1):
        raise InputError(
            f"the network '{name}' does not take inputs of shape {shape}; "
            "use mlp for vectors, the others for images, or 'auto'"
        )
    width = {} if spec.width is None else {"width": spec.width}
    return lambda: BACKBONES[name](shape, **width)


def own_module(made: Callable[[], nn.Module], name: str) -> NewBackbone:
    """A user's class or function for a Module that maps a batch to pooled features."""

    def new_backbone() -> nn.Module:
        try:
            backbone = made()
        except TypeError as error:
            raise InputError(
                f"network '{name}' cannot be made ({error}); let it need no arguments"
            ) from error
        if not isinstance(backbone, nn.Module):
            raise InputError(f"network '{name}' makes no torch Module; name a class that is one")
        return backbone

    return new_backbone


def feature_count(backbone: nn.Module, shape: tuple[int, ...]) -> int:
    """How many features the backbone gives, found by asking it."""
    name, training = type(backbone).__name__, backbone.training
    try:
        with torch.no_grad():
            features = backbone.eval()(torch.zeros(2, *shape))
    except Exception as error:
        # A user's own network may raise anything; Python shows it as the cause.
        raise InputError(
            f"{name} does not take inputs of shape {shape} ({first_line(error)}); "
            "use another network"
        ) from error
    backbone.train(training)
    found = tuple(features.shape) if isinstance(features, torch.Tensor) else type(features).__name__
    if not (isinstance(found, tuple) and len(found) == 2 and found[0] == 2):
        raise InputError(
            f"{name} gives {found} for 2 inputs; it should map a batch to pooled features (B, D)"
        )
    return int(found[1])
