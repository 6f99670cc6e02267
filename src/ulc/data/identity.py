"""The identity of data: a digest of their content, and a quick one of their files."""

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from ulc.config import DataSpec, Spec
from ulc.data.lazy.images import LazyImages
from ulc.data.lazy.survey import digest_images
from ulc.data.sources.source import Source
from ulc.errors import InputError

# Sentences about the data are no data, and what matters of pictures is in the inputs.
NOT_CONTENT = {"name", "inputs", "notes", "warnings", "pictures"}
# Fields that came later: where they are empty, data keep the digest that they had before.
LATER = {"valid_inputs", "valid_labels", "crop"}
SETTLED = 1.0  # seconds; a file that changed later before it was read may be changing still


class DataIdentity(Spec):
    """Which data a folder was made from.

    content: digest of the arrays and names that were read, and of a file of initial weights
    inputs: digest of the inputs alone, which do not change with labels; None: unknown
    files: digest of the paths, sizes and times of their files; None: unknown
    images: whether the inputs are images
    """

    content: str
    files: str | None
    images: bool
    inputs: str | None = None


def identify(
    source: Source,
    data: DataSpec,
    label_file: str | None,
    began: float | None,
    weights: Path | None = None,
) -> DataIdentity:
    """Return the identity of data that were read from `data` and from the label file, if any.

    began: time when reading began, by `time.time`; None: unknown
    weights: file of the initial weights; None: there is none
    """
    images, files = source.inputs.ndim == 4, None
    if began is not None:
        files = digest_files(data, label_file, images, began - SETTLED, weights)
    inputs = digest_inputs(source)
    content = with_weights(digest_content(source, inputs), weights)
    return DataIdentity(content=content, files=files, images=images, inputs=inputs)


def files_unchanged(
    identity: DataIdentity, data: DataSpec, label_file: str | None, weights: Path | None = None
) -> bool:
    """Whether the files of the data are those of `identity`; False also if this is unknown."""
    if identity.files is None:
        return False
    found = digest_files(data, label_file, identity.images, time.time(), weights)
    return found == identity.files


def with_weights(content: str, weights: Path | None) -> str:
    """Return the digest `content`, changed by the content of a file of initial weights.

    A file that cannot be read does not count: reading the weights tells why.
    """
    with suppress(OSError):
        if weights is not None and weights.is_file():
            with weights.open("rb") as stream:
                found = hashlib.file_digest(stream, "sha256").hexdigest()
            return hashlib.sha256(f"{content}weights:{found}".encode()).hexdigest()
    return content


def digest_inputs(source: Source) -> str:
    """Return a digest of the inputs of a source.

    A million vectors of 256 numbers (1 GB) take about a second. Image files count by the digest of
    each image, so that they need not be in memory.
    """
    found = hashlib.sha256()
    add_value(found, digestible(source, "inputs"))
    return found.hexdigest()


def digestible(source: Source, name: str) -> Any:
    """Return the field `name` of a source; image files as (N, 16) digests of the images."""
    value = getattr(source, name)
    if isinstance(value, LazyImages):
        return value.digests
    if value is not None and name in ("inputs", "test_inputs") and source.pictures is not None:
        return digest_images(value.transpose(0, 2, 3, 1))
    return value


def digest_content(source: Source, inputs: str) -> str:
    """Return a digest of all that a source holds, except its name and sentences about it.

    inputs: digest of its inputs
    """
    found = hashlib.sha256(f"inputs:{inputs}".encode())
    for field in fields(source):
        value = None if field.name in NOT_CONTENT else digestible(source, field.name)
        if field.name not in NOT_CONTENT and not (value is None and field.name in LATER):
            found.update(f"{field.name}:".encode())
            add_value(found, value)
    return found.hexdigest()


def add_value(found: "hashlib._Hash", value: Any) -> None:
    """Add a value of a source to a digest: an array, names, a spec, or a dictionary of these."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        found.update(f"{value.dtype.str}{value.shape}".encode())
        found.update(np.ascontiguousarray(value).data.cast("B"))
    elif isinstance(value, dict):
        for name, each in sorted(value.items()):
            found.update(f"{name}:".encode())
            add_value(found, each)
    else:
        plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
        found.update(json.dumps(plain, default=repr).encode())


def digest_files(
    data: DataSpec,
    label_file: str | None,
    images: bool,
    latest: float,
    weights: Path | None = None,
) -> str | None:
    """Return a digest of the paths, sizes and times of all files that the data consist of.

    None: the files are not known, cannot be found, or one of them changed after `latest`.
    """
    found = hashlib.sha256()
    try:
        others = () if weights is None else (weights,)
        for path in chain(list_files(data, label_file, images), others):
            state = path.stat()
            changed = max(state.st_mtime_ns, state.st_ctime_ns)
            if changed > latest * 1e9:
                return None
            entry = [os.fsencode(path).hex(), state.st_size, state.st_mtime_ns, state.st_ctime_ns]
            found.update(json.dumps(entry).encode())
    except (OSError, InputError, LookupError):
        return None
    return found.hexdigest()


def list_files(data: DataSpec, label_file: str | None, images: bool) -> Iterator[Path]:
    """Yield all files that the data consist of; raise a LookupError if they are not known.

    images: whether the inputs are images
    """
    path = Path(data.path or "")
    if label_file is not None:
        yield Path(label_file)
    if data.test is not None or data.source == "huggingface":
        raise LookupError("its files may lie anywhere")
    if data.source == "folder":
        from ulc.data.sources.folder import split_images

        train, test = split_images(path)
        yield from (*train.paths, *test.paths)
    elif data.source == "clothing1m":
        from ulc.data.sources.clothing1m import LISTS

        yield from (path / name for name in LISTS)
    elif data.path is not None and path.is_dir():
        yield from (Path(root, name) for root, _, names in sorted(os.walk(path)) for name in names)
    elif data.path is not None:
        yield path
    if data.source == "table" and images:
        yield from listed_images(path, data)


def listed_images(path: Path, data: DataSpec) -> list[Path]:
    """Return the paths of the images that a table lists."""
    from ulc.data.sources.frame import image_column, image_paths
    from ulc.data.sources.table import read_table

    table = read_table(path, data)
    column = image_column(table, data)
    if column is None:
        raise LookupError(f"{path}: no column of images")
    return image_paths(table[column], path.parent, str(path))
