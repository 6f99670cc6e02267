"""The `network` parameter of an estimator: a name, a class or a function."""

from torch import nn

from ulc.config import NetworkSpec, checked
from ulc.errors import InputError
from ulc.networks import NewBackbone

Network = str | NewBackbone


def choose_backbone(network: Network, width: int | None) -> NetworkSpec | NewBackbone:
    """The spec of a named network, or the user's class or function that makes the backbone."""
    if isinstance(network, str):
        return checked(NetworkSpec, {"name": network, "width": width}, where="network")
    if isinstance(network, nn.Module) or not callable(network):
        raise InputError(
            f"network is a {type(network).__name__}; give a name, a Module class, or a "
            "function that makes a new Module"
        )
    if width is not None:
        raise InputError(
            f"width = {width} is for built-in networks; set the width of "
            f"'{network_name(network)}' in the class or function itself"
        )
    return network


def network_name(network: Network) -> str:
    """The name of the network; for a class or a function its module:name."""
    if isinstance(network, str):
        return network
    module = getattr(network, "__module__", "?")
    return f"{module}:{getattr(network, '__qualname__', type(network).__name__)}"


def is_importable(network: Network) -> bool:
    """Whether another process can import the network by its name: it is a class of a module."""
    if isinstance(network, str):
        return True
    if not isinstance(network, type):
        return False
    name = network_name(network)
    return not (name.startswith("__main__:") or "." in name.partition(":")[2] or "<" in name)
