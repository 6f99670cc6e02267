"""Initial weights of a network: those of ImageNet, or those of a local file."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Size, Tensor, nn

from ulc.data.sources.pickle_machine import PickleError
from ulc.data.torch_file import read_torch
from ulc.errors import InputError, first_line
from ulc.storage.memory import check_file

IMAGENET = "imagenet"
Weights = dict[str, Tensor]


def load_weights(name: str) -> Weights:
    """Return the weights of a ResNet-50 without its last layer; name: "imagenet" or a file."""
    found = imagenet_weights() if name == IMAGENET else read_weights(Path(name))
    return {
        key.removeprefix("module."): value
        for key, value in found.items()
        if not key.removeprefix("module.").startswith("fc.")
    }


def set_weights(backbone: nn.Module, weights: Mapping[str, Tensor], name: str) -> None:
    """Put the weights into a backbone; raise an InputError unless they fit."""
    wanted = {key: value.shape for key, value in backbone.state_dict().items()}
    given = {key: value.shape for key, value in weights.items()}
    for key in wanted.keys() | given.keys():
        if wanted.get(key) != given.get(key):
            raise InputError(
                f"{name}: '{key}' does not fit {type(backbone).__name__} (wanted "
                f"{describe(wanted.get(key))}, found {describe(given.get(key))}); give weights of "
                "torchvision's resnet50"
            )
    backbone.load_state_dict(weights)


def describe(shape: Size | None) -> str:
    """Return a shape as text; None: nothing is there."""
    return "nothing" if shape is None else str(tuple(shape))


def imagenet_weights() -> Weights:
    """Return the weights that torchvision or timm have, perhaps by downloading them."""
    reasons = []
    for library, load in (("torchvision", from_torchvision), ("timm", from_timm)):
        try:
            return load()
        except Exception as error:  # an import or a download can raise any error
            reasons.append(f"{library}: {first_line(error)}")
    raise InputError(
        f"no ImageNet weights of resnet50 were found ({'; '.join(reasons)}); install torchvision "
        "or timm, or give a file such as torchvision's resnet50-0676ba61.pth with --weights FILE"
    )


def from_torchvision() -> Weights:
    """Return torchvision's first weights, those of the papers."""
    models = import_module("torchvision.models")
    made: Weights = models.resnet50(weights="IMAGENET1K_V1").state_dict()
    return made


def from_timm() -> Weights:
    """Return the same weights from timm."""
    made: Weights = import_module("timm").create_model("resnet50.tv_in1k", True).state_dict()
    return made


def read_weights(path: Path) -> Weights:
    """Read a state dict from a .safetensors file, or from one of `torch.save`; no code is run."""
    if not path.is_file():
        raise InputError(f"--weights {path}: no such file; give weights of torchvision's resnet50")
    load: Callable[[Path], Any] = (
        safetensors.torch.load_file if path.suffix == ".safetensors" else load_pickled
    )
    try:
        check_file(path)
        content = load(path)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # safetensors raises many kinds of errors
        reason = str(error) if isinstance(error, PickleError) else type(error).__name__
        raise InputError(
            f"--weights {path}: no readable weights ({reason}); save network.state_dict() by "
            "torch.save or safetensors"
        ) from None
    content = content.get("state_dict", content) if isinstance(content, dict) else content
    if not isinstance(content, dict) or not all(
        isinstance(each, Tensor) for each in content.values()
    ):
        raise InputError(f"--weights {path}: holds no state dict; save network.state_dict()")
    return content


def load_pickled(path: Path) -> Any:
    """Read what `torch.save` wrote; a pickle that could run code is refused."""
    with path.open("rb") as stream:
        return read_torch(stream, str(path))
