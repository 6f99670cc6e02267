"""Selected rows of a large file, read block by block."""

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ulc.data.sources.npz import as_inputs
from ulc.errors import InputError
from ulc.storage.files import read_npy_header
from ulc.typing import Integers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pandas as pd

    from ulc.config import DataSpec

BLOCK = 20_000  # rows of a table in memory at a time
BYTES = 16_000_000  # size of the part of an array in memory at a time


def array_rows(path: Path, name: str, rows: Integers, total: int | None) -> NDArray[Any]:
    """The rows of an array in an npz file, as images (n, C, H, W) or vectors (n, D).

    rows: (n,) positions; total: number of rows in the run; None: not checked
    """
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as member:
        shape, fortran, kind = read_npy_header(member)
        check_total(path, shape[0], total)
        if kind.hasobject or fortran:
            raise InputError(f"{path}: {name} is not stored row by row")
        width = int(np.prod(shape[1:], dtype=np.int64)) * kind.itemsize
        found = np.empty((len(rows), *shape[1:]), kind)
        step = max(1, BYTES // max(width, 1))
        for start in range(0, shape[0], step):
            content = member.read(width * min(step, shape[0] - start))
            block = np.frombuffer(content, kind).reshape(-1, *shape[1:])
            here = (rows >= start) & (rows < start + step)
            found[here] = block[rows[here] - start]
    return as_inputs(found, f"{path}: {name}")


def table_rows(
    path: Path,
    rows: Integers,
    total: int | None,
    spec: "DataSpec | None" = None,
    keep: "Callable[[pd.DataFrame], NDArray[np.bool_]] | None" = None,
) -> "pd.DataFrame":
    """The rows of a table at positions `rows`, in that order.

    total: number of rows in the run; None: not checked
    spec: of the data, with the table's separator and encoding; None: both are found in the file
    keep: function from a block to the mask of its rows that count, as positions and for `total`;
        None: all rows count
    """
    import pandas as pd

    parts, places, seen = [], [], 0
    for block in table_blocks(path, spec):
        counted = block if keep is None else block[keep(block)]
        here = np.flatnonzero((rows >= seen) & (rows < seen + len(counted)))
        parts.append(counted.iloc[rows[here] - seen])
        places.append(here)
        seen += len(counted)
    check_total(path, seen, total)
    order = np.argsort(np.concatenate(places))
    return pd.concat(parts, ignore_index=True).iloc[order]


def table_blocks(path: Path, spec: "DataSpec | None" = None) -> "Iterator[pd.DataFrame]":
    """The table block by block, read as `ulc.data.sources.table` reads it."""
    import pandas as pd

    from ulc.data.sources.table import read_header, read_table, text_options
    from ulc.data.sources.text_format import SEPARATORS, find_format

    suffix = path.suffix.lower()
    if suffix == ".parquet":
        import pyarrow.parquet as pq

        for batch in pq.ParquetFile(path).iter_batches(BLOCK):
            block = batch.to_pandas()
            yield block.set_axis(block.columns.map(str), axis=1)
    elif path.is_file() and suffix in SEPARATORS:
        form = find_format(path, spec)
        names = read_header(path, form)
        with pd.read_csv(path, chunksize=BLOCK, **text_options(names, form)) as read:
            for block in read:
                yield block.set_axis(names, axis=1)
    else:
        yield read_table(path)  # raises an error that names the remedy


def check_total(path: Path, found: int, total: int | None) -> None:
    """Raise an InputError if the file has another number of rows than in the run.

    found: number of rows now; total: number in the run; None: nothing is checked
    """
    if total is not None and found != total:
        raise InputError(
            f"{path} has {found} rows now and had {total} in the run; train again to see them"
        )
