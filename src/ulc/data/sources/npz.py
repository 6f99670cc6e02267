"""Arrays in one npz file: X, y, and optionally y_true, X_test, y_test, class_names."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.data.sources.source import Source
from ulc.errors import InputError


def load(path: Path) -> Source:
    """Read vectors (N, D) or uint8 images (N, H, W), (N, C, H, W) or (N, H, W, C)."""
    arrays = read_arrays(path)
    missing = {"X", "y"} - arrays.keys()
    if missing:
        raise InputError(f"{path}: no array '{min(missing)}' in it; save X and y in the file")
    labels = whole_numbers(arrays["y"], f"{path}: y")
    known = [
        labels,
        *(whole_numbers(arrays[k], f"{path}: {k}") for k in ("y_true", "y_test") if k in arrays),
    ]
    names = arrays.get("class_names")
    count = max((int(each.max()) + 1 for each in known if each.size), default=0)
    class_names = tuple(map(str, names)) if names is not None else tuple(map(str, range(count)))
    has_test = {"X_test", "y_test"} <= arrays.keys()
    return Source(
        name=path.stem,
        inputs=as_inputs(arrays["X"], f"{path}: X"),
        labels=labels,
        true=whole_numbers(arrays["y_true"], f"{path}: y_true") if "y_true" in arrays else None,
        class_names=class_names,
        test_inputs=as_inputs(arrays["X_test"], f"{path}: X_test") if has_test else None,
        test_labels=whole_numbers(arrays["y_test"], f"{path}: y_test") if has_test else None,
    )


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an npz file; an object array would need a pickle and is refused."""
    try:
        with np.load(path, allow_pickle=False) as content:
            return {name: content[name] for name in content.files}
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; give the path of an npz file") from None
    except AttributeError:
        raise InputError(
            f"{path}: a single array; save X and y together with numpy.savez"
        ) from None
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        if "pickle" in str(error).lower():
            raise InputError(
                f"{path}: it holds pickled objects, which could run code; "
                "save plain numeric arrays with numpy.savez"
            ) from None
        raise InputError(f"{path}: not a readable npz file ({error}); save it again") from None


def as_inputs(array: NDArray[Any], what: str) -> NDArray[Any]:
    """Images as (N, C, H, W) uint8, vectors as (N, D) float32."""
    if array.dtype == np.uint8 and array.ndim == 3:
        return array[:, None]
    if (
        array.dtype == np.uint8
        and array.ndim == 4
        and array.shape[-1] in (1, 3, 4)
        and array.shape[1] > 4
    ):
        return np.ascontiguousarray(array.transpose(0, 3, 1, 2))
    if array.ndim == 2:
        if not (np.issubdtype(array.dtype, np.number) or array.dtype == np.bool_):
            raise InputError(f"{what} has type {array.dtype}; give numbers")
        return array.astype(np.float32)
    return array


def whole_numbers(array: NDArray[Any], what: str) -> NDArray[np.int64]:
    """Labels as whole numbers; 3.0 is one, 3.5 is not."""
    if not np.issubdtype(array.dtype, np.number) and array.dtype != np.bool_:
        raise InputError(f"{what} has type {array.dtype}; give labels as whole numbers from 0")
    whole = array.astype(np.int64)
    if not np.array_equal(whole, array):
        row = int((whole != array).argmax())
        raise InputError(
            f"{what}: row {row} is {array.flat[row]}; give labels as whole numbers from 0"
        )
    return whole
