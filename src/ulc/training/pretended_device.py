"""A pretended device: a test of code for GPUs on a machine without a GPU.

Its tensors say that they are on another device and hold their values on the CPU. An operation that
a GPU would refuse, because its tensors are on different devices, raises `DeviceMismatchError`. What
would make the processor wait for a GPU is counted. Errors of kernels, time and memory do not show.

It uses private functions of torch, and registers the device for the whole process.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Self

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ulc.data.float64 import WITHOUT_FLOAT64
from ulc.training.no_devices import NoDevices

NAME = "pretended"
CPU = torch.device("cpu")
aten = torch.ops.aten
INDEXING = {aten.index.Tensor, aten.index_put_.default, aten.index_put.default}
# Operations whose result, or its shape, is needed on the CPU before the program can go on.
WAITING = {
    aten._local_scalar_dense.default,
    aten._unique2.default,
    aten.bincount.default,
    aten.equal.default,
    aten.masked_select.default,
    aten.nonzero.default,
}
FUSED = {aten._fused_sgd_.default, aten._fused_adam_.default}


class DeviceMismatchError(RuntimeError):
    """Tensors of one operation are on different devices, which a GPU refuses."""


def can_pretend() -> bool:
    """Whether this version of torch lets a program register a device."""
    return hasattr(backend_registration, "_setup_privateuseone_for_python_backend")


@cache
def register() -> torch.device:
    """Register the device at the first call; return it."""
    backend_registration._setup_privateuseone_for_python_backend(NAME, NoDevices())
    return torch.device(NAME, 0)


class Elsewhere(Tensor):
    """A tensor that says it is on the pretended device; its values are in `on_cpu`."""

    on_cpu: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, values: Tensor) -> "Elsewhere":
        """Make it from a tensor on the CPU, whose memory it shares."""
        made = Tensor._make_wrapper_subclass(
            cls,
            values.size(),
            strides=values.stride(),
            storage_offset=values.storage_offset(),
            dtype=values.dtype,
            device=register(),
        )
        made.on_cpu = values
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run an operation that torch itself calls outside of the modes below."""
        return Operations.active.run(func, args, kwargs or {})

    def __deepcopy__(self, memo: dict[int, Any]) -> "Elsewhere":
        made = Elsewhere(self.on_cpu.detach().clone())
        made.requires_grad_(self.requires_grad)
        made._is_param = getattr(self, "_is_param", False)  # else it would be no Parameter
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.on_cpu.detach().__reduce_ex__(protocol)


class Operations(TorchDispatchMode):
    """Runs every operation, below autograd, on the values of the tensors.

    waits: number of waits so far by line of the program and by kind
    """

    active: "Operations"

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.waits: Counter[tuple[str, str]] = Counter()

    def __enter__(self) -> Self:
        super().__enter__()  # type: ignore[no-untyped-call]
        Operations.active = self
        return self

    @property
    def device(self) -> torch.device:
        """The pretended device."""
        return register()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation."""
        return self.run(func, args, kwargs or {})

    def wait(self, kind: str) -> None:
        """Count a wait."""
        self.waits[calling_line(), kind] += 1

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Check an operation, run it on the CPU, and wrap what it returns."""
        tensors = tensors_in([*args, *kwargs.values()])
        away = any(isinstance(each, Elsewhere) for each in tensors)
        asked = kwargs.get("device")
        if asked is not None:
            kwargs = kwargs | {"device": CPU}
        if away:
            self.check(func, args, tensors)
        returns_away = away if asked is None else asked.type == NAME
        if away and not returns_away:
            self.wait("copy to the processor")
        made = func(*unwrap_all(args), **{key: unwrap_all(each) for key, each in kwargs.items()})
        # What an operation changes in place, it returns; the caller gets the tensor that it gave.
        known = {id(unwrap(each)): each for each in tensors}
        return wrap_all(made, known, wrap if returns_away else unwrap)

    def check(self, func: Any, args: Any, tensors: list[Tensor]) -> None:
        """Raise an error if a GPU would refuse the operation; count it if it waits."""
        here = [each for each in tensors if not isinstance(each, Elsewhere)]
        if func is aten.copy_.default and here:
            self.wait("copy between devices")
            return
        if func in INDEXING and isinstance(args[0], Elsewhere):
            here = self.check_index(func, args, here)
        if any(each.ndim for each in here):  # a GPU takes single numbers from the processor
            raise DeviceMismatchError(f"{calling_line()}: {func} has tensors of two devices")
        if func in WAITING:
            self.wait(func.__name__)
        if func in FUSED:
            check_layout(func, args)

    def check_index(self, func: Any, args: Any, here: list[Tensor]) -> list[Tensor]:
        """Count the waits of indexing; return the tensors on the CPU that are no index."""
        indices = [each for each in args[1] if each is not None]
        if any(not isinstance(each, Elsewhere) for each in indices):
            self.wait("index on the processor")
        filled = func is not aten.index.Tensor and len(indices) == 1 and args[2].numel() == 1
        if any(each.dtype == torch.bool for each in indices) and not filled:
            self.wait("index by a mask")
        return [each for each in here if not any(each is index for index in indices)]


class Calls(TorchFunctionMode):
    """Replaces calls that name the device, before torch looks for its generators and kernels."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a call."""
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if name in ("to", "cpu"):
            return move(args[0], *(args[1:] if name == "to" else (CPU,)), **kwargs)
        if name == "numpy" and isinstance(args[0], Elsewhere):
            raise DeviceMismatchError(f"{calling_line()}: numpy() of a tensor on the device")
        if name == "tolist" and isinstance(args[0], Elsewhere):
            Operations.active.wait("tolist")
            return args[0].on_cpu.tolist()
        if name == "new_tensor" and isinstance(args[0], Elsewhere):
            func, name, args = torch.tensor, "tensor", args[1:]
            kwargs["device"] = register()
        asked = kwargs.get("device")
        if asked is None or torch.device(asked).type != NAME:
            return func(*args, **kwargs)
        return make(func, name, args, kwargs)


def make(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    """Make a tensor on the device by a function of torch, such as zeros or rand."""
    if kwargs.get("generator") is not None:
        raise DeviceMismatchError(f"{calling_line()}: {name} has a generator of the processor")
    if name in ("tensor", "as_tensor"):
        Operations.active.wait("copy to the device")
    del kwargs["device"]
    if any(isinstance(each, Elsewhere) for each in tensors_in(args)):
        return func(*args, **kwargs)
    with _disable_current_modes():
        made = func(*args, **kwargs)
    return wrap(made)


def move(value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`Tensor.to` with the same arguments."""
    for each in args:
        if isinstance(each, Tensor):
            kwargs |= {"device": each.device, "dtype": each.dtype}
        elif isinstance(each, torch.device | str):
            kwargs["device"] = each
        elif isinstance(each, torch.dtype):
            kwargs["dtype"] = each
    device = kwargs.pop("device", None)
    away = device is not None and torch.device(device).type == NAME
    if device is not None and away != isinstance(value, Elsewhere):
        Operations.active.wait("copy between devices")
        copied = unwrap(value.detach()).clone()
        value = wrap(copied) if away else copied
    kwargs = {name: each for name, each in kwargs.items() if name != "non_blocking"}
    kwargs = {name: each for name, each in kwargs.items() if each is not None}
    return Tensor.to(value, **kwargs) if kwargs else value


def check_layout(func: Any, args: Any) -> None:
    """Raise an error unless weights, gradients and momenta have the same strides, as CUDA needs."""
    for weight, *others in zip(*[each for each in args[:4] if each], strict=True):
        long = [side for side, size in enumerate(weight.shape) if size > 1]
        if any(each.stride(side) != weight.stride(side) for each in others for side in long):
            raise DeviceMismatchError(f"{calling_line()}: {func} has tensors of different strides")


def unwrap(value: Any) -> Any:
    """The values of a tensor on the device; anything else as it is."""
    return value.on_cpu if isinstance(value, Elsewhere) else value


def wrap(value: Any) -> Any:
    """A tensor on the device from one on the CPU; anything else as it is."""
    if not isinstance(value, Tensor) or isinstance(value, Elsewhere):
        return value
    if value.dtype == torch.float64 and NAME in WITHOUT_FLOAT64:
        raise DeviceMismatchError(f"{calling_line()}: float64 on a device that has none")
    return Elsewhere(value)


# torch's own functions for nested values take most of the time of a small training.


def tensors_in(content: Any) -> list[Tensor]:
    """All tensors in nested lists and tuples."""
    found = []
    for each in content:
        if isinstance(each, Tensor):
            found.append(each)
        elif isinstance(each, list | tuple):
            found += tensors_in(each)
    return found


def unwrap_all(content: Any) -> Any:
    """Nested lists and tuples with the values of the tensors in them."""
    if isinstance(content, list | tuple):
        return type(content)(map(unwrap_all, content))
    return unwrap(content)


def wrap_all(made: Any, known: dict[int, Tensor], change: Callable[[Any], Any]) -> Any:
    """Nested lists and tuples of results: a known tensor as it was given, others by `change`."""
    if isinstance(made, list | tuple):
        return type(made)(wrap_all(each, known, change) for each in made)
    return known[id(made)] if id(made) in known else change(made)


def calling_line() -> str:
    """File and line that called torch: the innermost frame that is not in torch or in this file."""
    frame = sys._getframe()
    while frame.f_back and is_torch(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return f"{frame.f_globals.get('__name__')}:{frame.f_lineno}"


def is_torch(module: str) -> bool:
    """Whether a module is part of torch, of the standard library's contexts, or this one."""
    return module in (__name__, "contextlib") or module.partition(".")[0] == "torch"


@contextmanager
def pretended_device() -> Iterator[Operations]:
    """Context manager: inside, tensors can be on `device` of the result, which counts waits."""
    register()
    # In one thread, because the modes are those of the thread that entered them.
    with torch.autograd.set_multithreading_enabled(False), Calls(), Operations() as operations:
        yield operations
