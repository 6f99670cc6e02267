"""The machine that executes pickles of `torch.save`: only what tensors and plain values need."""

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ulc.data.sources.pickle_machine import STEPS, VALUE_BYTES, Name, PickleError
from ulc.data.sources.unpickling import REDUCERS, ArrayMachine, refuse_call, whole
from ulc.storage.memory import check_memory, memory_limit

MOST_DIMENSIONS = 64
LARGEST_KEY = 2**53
STORAGES = {
    "torch BFloat16Storage": torch.bfloat16,
    "torch BoolStorage": torch.bool,
    "torch ByteStorage": torch.uint8,
    "torch CharStorage": torch.int8,
    "torch ComplexDoubleStorage": torch.complex128,
    "torch ComplexFloatStorage": torch.complex64,
    "torch DoubleStorage": torch.float64,
    "torch FloatStorage": torch.float32,
    "torch HalfStorage": torch.float16,
    "torch IntStorage": torch.int32,
    "torch LongStorage": torch.int64,
    "torch ShortStorage": torch.int16,
    "torch.storage UntypedStorage": torch.uint8,
}
# The functions and classes that state dicts and the like name, in Python 2 and 3.
STATES = {
    "torch._utils _rebuild_tensor": "tensor",
    "torch._utils _rebuild_tensor_v2": "tensor",
    "torch._utils _rebuild_tensor_v3": "typed tensor",
    "torch._utils _rebuild_parameter": "parameter",
    "torch Size": "size",
    "torch device": "device",
    "collections Counter": "counter",
    "collections OrderedDict": "ordered",
    "_codecs encode": "encode",
    **{
        f"{module} {name}": name
        for module in ("builtins", "__builtin__")
        for name in ("bytearray", "complex", "set")
    },
}
Load = Callable[[str, int, int], Tensor]


@dataclass(frozen=True)
class Storage:
    """The bytes of one or more tensors, and the type of their elements."""

    raw: Tensor
    dtype: torch.dtype


@dataclass
class TorchMachine(ArrayMachine):
    """The stack and the memo of a pickle by `torch.save`.

    load: function from the key of a storage, the number of its elements and the size of each to its
        bytes
    names: the functions and classes that the pickle may name
    size: of all tensors so far, in bytes; several can have the same storage
    """

    load: Load = field(kw_only=True)
    names: Mapping[str, str] = field(kw_only=True)
    storages: dict[str, Tensor] = field(default_factory=dict)
    size: int = 0

    def most_steps(self) -> int:
        """Return how many instructions fit the bound of memory."""
        return min(super().most_steps(), memory_limit() // VALUE_BYTES)

    def steps(self) -> Mapping[str, Callable[[Any, Any], Any]]:
        """Return the instructions that are executed, by name."""
        return TORCH_STEPS

    def find(self, module: str, name: str) -> Any:
        """Return a type of elements, or what stands for a function or class."""
        place = f"{module} {name}"
        if place in STORAGES:
            return STORAGES[place]
        found = vars(torch).get(name) if module == "torch" else None
        if isinstance(found, torch.dtype):
            return found
        if place not in self.names:
            raise PickleError(f"it asks for {module[:50]}.{name[:50]}")
        return Name(self.names[place])

    def reducer(self, kind: str) -> Callable[..., Any]:
        """Return what a call of the name of this kind does."""
        own: dict[str, Callable[..., Any]] = {
            "tensor": self.make_tensor,
            "typed tensor": self.make_typed_tensor,
            "counter": self.make_counter,
            "ordered": self.make_ordered,
            "set": self.make_set,
        }
        return own.get(kind) or CALLS.get(kind, refuse_call)

    def is_key(self, value: Any) -> bool:
        """Whether a value may be a key; large numbers not: they can have equal hashes."""
        if isinstance(value, int | float):
            return abs(value) < LARGEST_KEY
        return value is None or isinstance(value, str | bytes)

    def build(self) -> None:
        """Fill an array, or keep what a state dict says of its modules."""
        if len(self.stack) < 2 or type(self.stack[-2]) is not OrderedDict:
            super().build()
            return
        told = self.pop()
        modules = told.get("_metadata") if isinstance(told, dict) else None
        if isinstance(modules, dict) and all(isinstance(each, dict) for each in modules.values()):
            self.stack[-1]._metadata = modules

    def fetch(self) -> None:
        """Replace the description of a storage by the storage."""
        told = self.pop()
        if not isinstance(told, tuple) or not 5 <= len(told) <= 6 or told[0] != "storage":
            raise PickleError("it refers to something other than numbers")
        dtype, key, count = told[1], told[2], whole(told[4])
        part = any(each is not None for each in told[5:])  # only files before 2018 have it
        if not isinstance(dtype, torch.dtype) or not isinstance(key, str) or part:
            raise PickleError("it refers to something other than numbers")
        if key not in self.storages:
            self.storages[key] = self.load(key, count, dtype.itemsize)
        self.stack.append(Storage(self.storages[key], dtype))

    def make_tensor(self, storage: Any, *told: Any) -> Tensor:
        """Return a tensor of the type of its storage, as `_rebuild_tensor_v2` does."""
        if not isinstance(storage, Storage) or len(told) < 3 or any(told[5:]):
            raise PickleError("a tensor has no numbers, or more than numbers")
        offset, shape, strides = told[:3]
        dtype = storage.dtype
        check_view(len(storage.raw) // dtype.itemsize, offset, shape, strides)
        self.size += math.prod(shape) * dtype.itemsize
        check_memory(self.size, f"{self.file}: its tensors")
        made = torch.empty(0, dtype=dtype, device="cpu")
        made.set_(storage.raw.untyped_storage(), offset, shape, strides)
        if told[3:] and told[3] is True:
            made.requires_grad_()
        return made

    def make_typed_tensor(self, storage: Any, *told: Any) -> Tensor:
        """Return a tensor of a type of its own, as `_rebuild_tensor_v3` does."""
        if not isinstance(storage, Storage) or len(told) < 6:
            raise PickleError("a tensor has no numbers")
        if not isinstance(told[5], torch.dtype):
            raise PickleError("a tensor has no type")
        return self.make_tensor(Storage(storage.raw, told[5]), *told[:5], *told[6:])

    def make_ordered(self, pairs: Any = ()) -> OrderedDict[Any, Any]:
        """Return an ordered dictionary; files of Python 2 give its items at once."""
        made: OrderedDict[Any, Any] = OrderedDict()
        for key, value in pairs:
            if not self.is_key(key):
                raise PickleError("a key is no text")
            made[key] = value
        return made

    def make_counter(self, counts: Any = ()) -> Counter[Any]:
        """Return a counter, as the state of a schedule has; counts: a dictionary."""
        if counts and not isinstance(counts, dict):
            raise PickleError("a counter is not made of a dictionary")
        return Counter(counts)

    def add_items(self) -> None:
        """Put all values above the last mark into the set below it."""
        values = self.make_set(self.pop_to_mark())
        self.top(set).update(values)

    def make_set(self, values: Any) -> set[Any]:
        """Return a set of values that may be keys."""
        if not isinstance(values, list) or not all(map(self.is_key, values)):
            raise PickleError("a set holds more than texts and numbers")
        return set(values)


def check_view(count: int, offset: Any, shape: Any, strides: Any) -> None:
    """Raise a PickleError unless a tensor lies within `count` elements, and has at most as many."""
    if not isinstance(shape, tuple) or not isinstance(strides, tuple):
        raise PickleError("a tensor has no shape")
    if len(shape) != len(strides) or len(shape) > MOST_DIMENSIONS:
        raise PickleError("a tensor has no shape")
    steps = zip(map(whole, shape), map(whole, strides), strict=True)
    last = whole(offset) + sum((length - 1) * stride for length, stride in steps)
    if math.prod(shape) > (count if last < count else 0):
        raise PickleError("a tensor has more numbers than its storage")


def make_parameter(content: Any, needs_gradient: Any, *_: Any) -> torch.nn.Parameter:
    """Return a parameter of a network."""
    if not isinstance(content, Tensor):
        raise PickleError("a parameter is no tensor")
    return torch.nn.Parameter(content, needs_gradient is True)


def make_device(kind: Any, number: Any = None) -> torch.device:
    """Return the name of a device; nothing is looked for."""
    if not isinstance(kind, str) or not isinstance(number, int | None):
        raise PickleError("a device has no name")
    return torch.device(kind) if number is None else torch.device(kind, number)


def make_complex(real: Any, imaginary: Any) -> complex:
    """Return a complex number."""
    if not isinstance(real, float) or not isinstance(imaginary, float):
        raise PickleError("a complex number is not made of numbers")
    return complex(real, imaginary)


def make_bytearray(content: Any = b"") -> bytearray:
    """Return bytes; a number, of which Python would make zeros, is refused."""
    if not isinstance(content, bytes):
        raise PickleError("an array of bytes is not made of bytes")
    return bytearray(content)


CALLS: dict[str, Callable[..., Any]] = REDUCERS | {
    "parameter": make_parameter,
    "size": lambda lengths: torch.Size(map(whole, lengths)),
    "device": make_device,
    "complex": make_complex,
    "bytearray": make_bytearray,
}
TORCH_STEPS: Mapping[str, Callable[[Any, Any], Any]] = STEPS | {
    "BINFLOAT": lambda m, value: m.stack.append(value),
    "BINPERSID": lambda m, _: m.fetch(),
    "EMPTY_SET": lambda m, _: m.stack.append(set()),
    "ADDITEMS": lambda m, _: m.add_items(),
}
