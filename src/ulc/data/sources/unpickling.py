"""Read pickled arrays without running code from the pickle."""

import pickle
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ulc.errors import InputError

# The names that a dictionary of NumPy arrays, lists, numbers and strings needs.
ALLOWED = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
    ("_codecs", "encode"),
}


class Plain(np.ndarray[Any, Any]):
    """Stand-in for ndarray in a pickle; it cannot be called.

    A pickle needs the class only as an argument of _reconstruct. A call of ndarray could interpret
    any bytes as pointers to objects.
    """

    def __new__(cls, *_: object, **__: object) -> NoReturn:
        """Raise an UnpicklingError in every case."""
        raise pickle.UnpicklingError("it calls numpy.ndarray")


class ArrayUnpickler(pickle.Unpickler):
    """An unpickler that accepts arrays and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the class or function; raise for a name that arrays do not need."""
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        if (module, name) == ("numpy", "ndarray"):
            return Plain
        # The old module name still works in NumPy 2, but gives a warning.
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def unpickle_arrays(path: Path) -> Any:
    """Read a pickle of arrays; strings of Python 2 become str."""
    try:
        return ArrayUnpickler(BytesIO(path.read_bytes()), encoding="latin1").load()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; download the data set there") from None
    except Exception as error:
        # A damaged pickle can raise any error.
        raise InputError(
            f"{path}: not a pickle of plain arrays ({error}); use the official file"
        ) from None
