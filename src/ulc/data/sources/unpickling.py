"""Read pickled arrays of whole numbers, lists and texts; nothing in the pickle is called."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.data.sources.pickle_machine import Machine, Name, PickleError, run_pickle
from ulc.errors import InputError, first_line
from ulc.storage.memory import read_file

DTYPES = {"u1", "i1", "i2", "i4", "i8"}
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


@dataclass
class Dtype:
    """A type of array elements, such as u1."""

    code: str


@dataclass
class Array:
    """An array whose content follows; values is None until then."""

    values: NDArray[Any] | None = None


class ArrayMachine(Machine):
    """A machine that makes arrays of whole numbers, too."""

    def find(self, module: str, name: str) -> Any:
        """Return what stands for a function or class that the pickle names."""
        found = NAMES.get(f"{module} {name}")
        return super().find(module, name) if found is None else Name(found)

    def reducer(self, kind: str) -> Callable[..., Any]:
        """Return what a call of the name of this kind does."""
        return REDUCERS.get(kind, refuse_call)

    def build(self) -> None:
        """Fill the array on top of the stack; a type keeps its code, whatever its state says."""
        state = self.pop()
        if self.stack and type(self.stack[-1]) is Dtype:
            if state[1] not in ("<", "|", "="):
                raise PickleError("the bytes of its numbers are in another order")
            return
        array, (_, shape, dtype, fortran, content) = self.top(Array), state
        self.charge((content,))
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
        raise PickleError("an array has a length that is no whole number")
    return value


def make_dtype(code: Any = "", *_: Any) -> Dtype:
    """Return the type for its code; raise for any but whole numbers, smallest byte first."""
    text = code.decode("latin1") if isinstance(code, bytes) else code
    if not isinstance(text, str) or text.lstrip("<|=") not in DTYPES:
        shown = repr(text[:20]) if isinstance(text, str) else "that is no text"
        raise PickleError(f"an array has a type other than whole numbers: {shown}")
    return Dtype(text.lstrip("<|="))


def encode(text: Any, encoding: Any = "latin1") -> bytes:
    """Return the bytes that Python 3 stores as text in old protocols."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise PickleError("it encodes something other than bytes")
    return text.encode("latin1")


def refuse_call(*_: Any) -> Any:
    """Raise: the pickle calls a class that may only be named."""
    raise PickleError("it calls numpy.ndarray")


REDUCERS: dict[str, Callable[..., Any]] = {
    "dtype": make_dtype,
    "array": lambda *_: Array(),
    "buffer": lambda content, dtype, shape, order: Array(make_array(content, dtype, shape, order)),
    "encode": encode,
}


def unpickle_arrays(path: Path) -> Any:
    """Read a pickle of lists, texts and arrays of whole numbers; strings of Python 2 become str."""
    try:
        return plain(run_pickle(read_file(path), ArrayMachine(file=str(path))))
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
