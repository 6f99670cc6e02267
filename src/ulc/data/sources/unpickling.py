"""Read pickled arrays of whole numbers, lists and texts; nothing in the pickle is called.

A pickle is a program for a stack machine. Python's own unpickler runs it with real classes: a
forged type description then makes NumPy read bytes of the file as pointers, and a forged memo
number takes gigabytes. This reader executes only the instructions that a dictionary of plain
values needs, and makes arrays of known types itself.
"""

import pickletools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ulc.errors import InputError, first_line
from ulc.storage.memory import read_file

MOST_STEPS = 5_000_000  # instructions; the largest official file, of CIFAR-100, needs 400,000
DTYPES = {"u1", "i1", "i2", "i4", "i8"}
MARK = object()
# The functions and classes that pickled arrays name, in NumPy 1 and 2.
NAMES = {
    "numpy ndarray": "ndarray",
    "numpy dtype": "dtype",
    "numpy.core.multiarray _reconstruct": "array",
    "numpy._core.multiarray _reconstruct": "array",
    "numpy.core.numeric _frombuffer": "buffer",
    "numpy._core.numeric _frombuffer": "buffer",
    "_codecs encode": "encode",
}


class PickleError(ValueError):
    """The file holds something other than plain arrays; the message says what."""


@dataclass(frozen=True)
class Name:
    """A function or class that the pickle names, as one of the values of `NAMES`."""

    kind: str


@dataclass
class Dtype:
    """A type of array elements, such as u1."""

    code: str


@dataclass
class Array:
    """An array whose content follows; values is None until then."""

    values: NDArray[Any] | None = None


@dataclass
class Machine:
    """The stack and the memo of a pickle that is being read."""

    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def most_steps(self) -> int:
        """Return how many instructions a pickle may have."""
        return MOST_STEPS

    def steps(self) -> Mapping[str, Callable[["Machine", Any], Any]]:
        """Return the instructions that are executed, by name."""
        return STEPS

    def find(self, module: Any, name: Any) -> Any:
        """Return what stands for a function or class that the pickle names."""
        return find_name(module, name)

    def reducer(self, kind: str) -> Callable[..., Any]:
        """Return what a call of the name of this kind does."""
        return REDUCERS.get(kind, refuse_call)

    def is_key(self, value: Any) -> bool:
        """Whether a value may be a key; nested tuples not: their hash takes exponential time."""
        return isinstance(value, str)

    def pop(self) -> Any:
        """Take the topmost value from the stack."""
        if not self.stack or self.stack[-1] is MARK:
            raise PickleError("a value is missing")
        return self.stack.pop()

    def pop_to_mark(self) -> list[Any]:
        """Take all values above the last mark, and the mark, from the stack."""
        place = next((i for i in range(len(self.stack) - 1, -1, -1) if self.stack[i] is MARK), None)
        if place is None:
            raise PickleError("a mark is missing")
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values

    def top(self, *kinds: type[Any]) -> Any:
        """Return the topmost value, which must be of one of these classes."""
        if not self.stack or type(self.stack[-1]) not in kinds:
            raise PickleError(f"no {kinds[0].__name__} where one belongs")
        return self.stack[-1]

    def append(self, values: list[Any]) -> None:
        """Append values to the list on top of the stack."""
        self.top(list).extend(values)

    def set_items(self, values: list[Any]) -> None:
        """Put keys and values, in turn, into the dictionary on top of the stack."""
        keys = values[::2]
        if len(values) % 2 or not all(map(self.is_key, keys)):
            raise PickleError("a key is no text")
        self.top(dict, OrderedDict).update(zip(keys, values[1::2], strict=True))

    def make_dict(self) -> None:
        """Replace the keys and values above the last mark by a dictionary."""
        values = self.pop_to_mark()
        self.stack.append({})
        self.set_items(values)

    def remember(self, number: int) -> None:
        """Put the topmost value into the memo."""
        value = self.pop()
        self.stack.append(value)
        self.memo[number] = value

    def reduce(self) -> None:
        """Replace a named function and its arguments by what it would return."""
        arguments, name = self.pop(), self.pop()
        if not isinstance(name, Name) or not isinstance(arguments, tuple):
            raise PickleError("it calls something")
        self.stack.append(self.reducer(name.kind)(*arguments))

    def build(self) -> None:
        """Fill the array on top of the stack; a type keeps its code, whatever its state says."""
        state = self.pop()
        if self.stack and type(self.stack[-1]) is Dtype:
            if state[1] not in ("<", "|", "="):
                raise PickleError("the bytes of its numbers are in another order")
            return
        array, (_, shape, dtype, fortran, content) = self.top(Array), state
        array.values = make_array(content, dtype, shape, "F" if fortran else "C")


def make_array(content: Any, dtype: Any, shape: Any, order: Any = "C") -> NDArray[Any]:
    """Make an array of a known type from its bytes, which Python 2 stored as text."""
    if not isinstance(dtype, Dtype) or not isinstance(shape, tuple):
        raise PickleError("an array has no type or shape")
    raw = content.encode("latin1") if isinstance(content, str) else content
    if not isinstance(raw, bytes | bytearray):
        raise PickleError("an array is not made of bytes")
    order = "F" if order == "F" else "C"
    return np.frombuffer(raw, f"<{dtype.code}").reshape(tuple(map(whole, shape)), order=order)


def whole(value: Any) -> int:
    """Return a length that is a whole number, not below 0."""
    if type(value) is not int or value < 0:
        raise PickleError(f"an array has the length {value!r}")
    return value


def make_dtype(code: Any = "", *_: Any) -> Dtype:
    """Return the type for its code; raise for any but whole numbers, smallest byte first."""
    text = code.decode("latin1") if isinstance(code, bytes) else code
    short = text.lstrip("<|=") if isinstance(text, str) else ""
    if short not in DTYPES:
        raise PickleError(f"an array has the type {str(code)[:20]!r}")
    return Dtype(short)


def encode(text: Any, encoding: Any = "latin1") -> bytes:
    """Return the bytes that Python 3 stores as text in old protocols."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise PickleError("it encodes something other than bytes")
    return text.encode("latin1")


def refuse_call(*_: Any) -> Any:
    """Raise: the pickle calls a class that may only be named."""
    raise PickleError("it calls numpy.ndarray")


def find_name(module: Any, name: Any) -> Name:
    """Return the function or class of this name; raise for a name that arrays do not need."""
    found = NAMES.get(f"{module} {name}")
    if found is None:
        raise PickleError(f"it asks for {str(module)[:50]}.{str(name)[:50]}")
    return Name(found)


REDUCERS: dict[str, Callable[..., Any]] = {
    "dtype": make_dtype,
    "array": lambda *_: Array(),
    "buffer": lambda content, dtype, shape, order: Array(make_array(content, dtype, shape, order)),
    "encode": encode,
}
CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "MARK": lambda: MARK,
}
VALUES = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "STRING", "BINSTRING",
    "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES",
    "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
}  # fmt: skip
STEPS: dict[str, Callable[[Machine, Any], Any]] = {
    "PROTO": lambda *_: None,
    "FRAME": lambda *_: None,
    "TUPLE": lambda m, _: m.stack.append(tuple(m.pop_to_mark())),
    "TUPLE1": lambda m, _: m.stack.append((m.pop(),)),
    "TUPLE2": lambda m, _: m.stack.append((m.pop(), m.pop())[::-1]),
    "TUPLE3": lambda m, _: m.stack.append((m.pop(), m.pop(), m.pop())[::-1]),
    "LIST": lambda m, _: m.stack.append(m.pop_to_mark()),
    "DICT": lambda m, _: m.make_dict(),
    "APPEND": lambda m, _: m.append([m.pop()]),
    "APPENDS": lambda m, _: m.append(m.pop_to_mark()),
    "SETITEM": lambda m, _: m.set_items([m.pop(), m.pop()][::-1]),
    "SETITEMS": lambda m, _: m.set_items(m.pop_to_mark()),
    "POP": lambda m, _: m.pop(),
    "GLOBAL": lambda m, name: m.stack.append(m.find(*name.split(" ", 1))),
    "STACK_GLOBAL": lambda m, _: m.stack.append(m.find(*(m.pop(), m.pop())[::-1])),
    "REDUCE": lambda m, _: m.reduce(),
    "BUILD": lambda m, _: m.build(),
    "MEMOIZE": lambda m, _: m.remember(len(m.memo)),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), Machine.remember),
    **dict.fromkeys(
        ("GET", "BINGET", "LONG_BINGET"), lambda m, number: m.stack.append(m.memo[number])
    ),
    **dict.fromkeys(VALUES, lambda m, value: m.stack.append(value)),
}


def run_pickle(content: bytes | BinaryIO, machine: Machine | None = None) -> Any:
    """Return the object that a pickle describes; raise if it needs more than plain values.

    content: a stream is read to the end of the pickle
    machine: what executes the instructions; None: one for plain values
    """
    machine = machine or Machine()
    most, steps = machine.most_steps(), machine.steps()
    for count, (step, argument, _) in enumerate(pickletools.genops(content)):
        if count >= most:
            raise PickleError(f"it has more than {most:,} instructions")
        if step.name == "STOP":
            return machine.pop()
        if step.name in CONSTANTS:
            machine.stack.append(CONSTANTS[step.name]())
        elif step.name in steps:
            steps[step.name](machine, argument)
        else:
            raise PickleError(f"it uses {step.name}")
    raise PickleError("it has no end")


def unpickle_arrays(path: Path) -> Any:
    """Read a pickle of lists, texts and arrays of whole numbers; strings of Python 2 become str."""
    try:
        return plain(run_pickle(read_file(path)))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; download the data set there") from None
    except InputError:
        raise
    except Exception as error:
        # A damaged pickle can raise any error.
        raise InputError(
            f"{path}: not a pickle of plain arrays ({first_line(error)}); use the official file"
        ) from None


def plain(content: Any) -> Any:
    """Return the content with arrays in place of `Array`, as values of a dictionary."""
    if not isinstance(content, dict):
        return content
    return {k: v.values if isinstance(v, Array) else v for k, v in content.items()}
