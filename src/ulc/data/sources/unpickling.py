"""Read pickled arrays without running what a pickle may ask to be run."""

import pickle
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ulc.errors import InputError

# All that a dictionary of NumPy arrays, lists, numbers and strings needs.
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
    """What stands for ndarray in a pickle: it cannot be called.

    A pickle needs the class only as an argument of _reconstruct. Called, ndarray would take any
    bytes for pointers to objects.
    """

    def __new__(cls, *_: object, **__: object) -> NoReturn:
        """Refuse."""
        raise pickle.UnpicklingError("it calls numpy.ndarray")


class ArrayUnpickler(pickle.Unpickler):
    """An unpickler that knows arrays and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse every name that is not part of an array."""
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        if (module, name) == ("numpy", "ndarray"):
            return Plain
        # The module's old name still answers in NumPy 2, with a warning that is not ours to give.
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def unpickle_arrays(path: Path) -> Any:
    """The content of a pickle of arrays; strings come as str, bytes keys as they are."""
    try:
        return ArrayUnpickler(BytesIO(path.read_bytes()), encoding="latin1").load()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; download the data set there") from None
    except Exception as error:
        # A damaged pickle can raise almost anything; the user needs one sentence.
        raise InputError(
            f"{path}: not a pickle of plain arrays ({error}); use the official file"
        ) from None
