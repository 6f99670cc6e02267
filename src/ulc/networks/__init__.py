"""Networks: a backbone, built in or the user's own, with the heads that an algorithm needs."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from ulc.config import NetworkSpec
from ulc.errors import InputError, first_line
from ulc.importing import imported
from ulc.networks.classifier import Classifier, HeadSpec
from ulc.networks.mlp import MLP
from ulc.networks.narrow_resnet import NarrowResNet
from ulc.networks.preact_resnet import PreActResNet18
from ulc.networks.resnet50 import ResNet50
from ulc.networks.small import SmallCNN
from ulc.networks.weights import load_weights, set_weights

BACKBONES: dict[str, Callable[..., nn.Module]] = {
    "preact_resnet18": PreActResNet18,
    "narrow_resnet": NarrowResNet,
    "small_cnn": SmallCNN,
    "resnet50": ResNet50,
    "mlp": MLP,
}
# Narrower ones were seen to damage the memory of the process in torch's convolutions (oneDNN).
NARROWEST = {"preact_resnet18": 8}
NewNetwork = Callable[[HeadSpec], Classifier]
NewBackbone = Callable[[], nn.Module]


def network_maker(
    backbone: NetworkSpec | NewBackbone,
    shape: tuple[int, ...],
    classes: int,
    device: torch.device,
) -> NewNetwork:
    """A function that makes a network with new initial weights at each call.

    backbone: spec of the backbone, or a class or function of the user's own that makes it
    shape: of one input, without the batch dimension; classes: number of classes
    """
    new_backbone = (
        backbone_maker(backbone, shape)
        if isinstance(backbone, NetworkSpec)
        else own_module(backbone, getattr(backbone, "__qualname__", repr(backbone)))
    )

    # Made on the CPU, so that all devices start from the same weights; but "meta" has no memory.
    made_on = device if device.type == "meta" else torch.device("cpu")

    def new_network(heads: HeadSpec) -> Classifier:
        with made_on:
            backbone = new_backbone()
            # A trial of batch norm on "meta" would import torch's compiler, a second of work.
            mlp = backbone if type(backbone) is MLP else None
            features = mlp.width if mlp is not None else feature_count(backbone, shape)
            check_no_logits(backbone, features, classes)
            network = Classifier(backbone, features, classes, heads)
        return network.to(device)

    return new_network


def built_name(spec: NetworkSpec, shape: tuple[int, ...]) -> str:
    """The name of the network that is built for inputs of a shape: `auto` becomes another name."""
    automatic = "small_cnn" if len(shape) == 3 else "mlp"
    return automatic if spec.name == "auto" else spec.name


def backbone_maker(spec: NetworkSpec, shape: tuple[int, ...]) -> NewBackbone:
    """A function that makes the backbone; `auto` is small_cnn for images and mlp for vectors."""
    if ":" in spec.name:
        return own_module(imported_class(spec.name, "network"), spec.name, spec.options)
    name = built_name(spec, shape)
    if name not in BACKBONES:
        raise InputError(
            f"unknown network '{name}'; known: {', '.join(BACKBONES)}, or your own module:Class"
        )
    if (name == "mlp") != (len(shape) == 1):
        raise InputError(
            f"the network '{name}' does not take inputs of shape {shape}; "
            "use mlp for vectors, the others for images, or 'auto'"
        )
    if spec.width is not None and spec.width < NARROWEST.get(name, 1):
        raise InputError(
            f"{name} with width {spec.width} can crash torch on a CPU; "
            f"give a width of at least {NARROWEST[name]}"
        )
    width = {} if spec.width is None else {"width": spec.width}
    if spec.weights is None:
        return lambda: BACKBONES[name](shape, **width)
    if name != "resnet50":
        raise InputError(f"weights are for the network 'resnet50', not for '{name}'; drop them")
    weights, where = load_weights(spec.weights), spec.weights

    def with_weights() -> nn.Module:
        backbone = BACKBONES[name](shape, **width)
        set_weights(backbone, weights, where)
        return backbone

    return with_weights


def imported_class(name: str, what: str) -> type[nn.Module]:
    """Import the class `name` ("module:Class") of a network; nothing else is ever called.

    what: noun for it in an error
    """
    found = imported(name, what)
    if isinstance(found, type) and issubclass(found, nn.Module):
        return found
    raise InputError(
        f"{what} '{name}' is no torch Module class; name a class derived from torch.nn.Module"
    )


def own_module(
    constructor: Callable[..., nn.Module], name: str, options: Mapping[str, Any] | None = None
) -> NewBackbone:
    """A function that makes a backbone: it calls the user's class or function with `options`.

    name: of the network, for messages
    """

    def new_backbone() -> nn.Module:
        try:
            backbone = constructor(**(options or {}))
        except Exception as error:
            # The user's constructor may raise anything; Python shows it as the cause.
            given = ", ".join(f"{key}={value!r}" for key, value in (options or {}).items())
            raise InputError(
                f"network '{name}' cannot be made with the arguments ({given}): "
                f"{first_line(error)}; set them with --set network.NAME=VALUE or "
                "NetworkSpec(options=…)"
            ) from error
        if not isinstance(backbone, nn.Module):
            raise InputError(
                f"network '{name}' makes no torch Module; name a class derived from torch.nn.Module"
            )
        return backbone

    return new_backbone


def feature_count(backbone: nn.Module, shape: tuple[int, ...]) -> int:
    """Number of features that the backbone returns, found by a trial on inputs of this shape."""
    name, training = type(backbone).__name__, backbone.training
    try:
        with torch.no_grad():
            features = backbone.eval()(torch.zeros(2, *shape))
    except Exception as error:
        # The user's network may raise anything; Python shows it as the cause.
        raise InputError(
            f"{name} does not take inputs of shape {shape} ({first_line(error)}); "
            "use another network"
        ) from error
    backbone.train(training)
    tensor = isinstance(features, torch.Tensor)
    found = tuple(features.shape) if tensor else type(features).__name__
    if not (tensor and len(found) == 2 and found[0] == 2):
        raise InputError(
            f"{name} gives {found} for 2 inputs, not pooled features (B, D); {shape_remedy(found)}"
        )
    return int(found[1])


def shape_remedy(found: tuple[int, ...] | str) -> str:
    """What to change in a network whose output is not of shape (B, D), as a message.

    found: shape of its output, or the name of its type if it is not a tensor
    """
    if isinstance(found, str):
        return "let forward return one tensor"
    if len(found) == 4:
        return "pool over height and width, such as with .mean((2, 3))"
    if len(found) == 3:
        return "pool over the second dimension, such as with .mean(1)"
    return "keep the batch as the first of two dimensions, such as with .flatten(1)"


def check_no_logits(backbone: nn.Module, features: int, classes: int) -> None:
    """Raise an InputError if the backbone ends in a layer with one output for each class.

    A backbone with as many features as classes is allowed if its last layer is another one.
    """
    if features != classes:
        return
    last = [part for part in backbone.modules() if not list(part.children())][-1]
    if isinstance(last, nn.Linear) and last.out_features == classes:
        raise InputError(
            f"{type(backbone).__name__} ends in a linear layer with one output for each of the "
            f"{classes} classes, so it gives logits, not features; remove that layer (such as "
            "self.fc = nn.Identity()), the classifier adds its own"
        )
