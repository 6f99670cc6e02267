"""Rows that a finished run has not seen: read as its own were, with labels or without."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ulc.config import DataSpec
from ulc.data.arrays import as_given, as_images
from ulc.data.sources import Progress, checked_reader, load_source, npz, silent
from ulc.data.sources.annotations import WHOLE
from ulc.data.sources.source import check_inputs
from ulc.errors import InputError
from ulc.judgement import Integers

if TYPE_CHECKING:
    import pandas as pd

    from ulc.data.sources.pictures import Picture
    from ulc.data.table_encoding import TableEncoding

Labels = list[str | None]
GREY = np.array([19595, 38470, 7471])  # Pillow's weights of red, green and blue, in 65536ths


@dataclass(frozen=True)
class Takes:
    """What a run's model takes.

    image: (channels, height, width) that pictures are brought to, channels 0: grey or colour, as
        they come; None where it takes no pictures
    vector: how many numbers a row of X has; None where it takes no vectors of an npz file
    encoding: how columns become vectors; None where it takes no table
    trained: the data it was trained on; its columns' names serve where no option names others
    """

    class_names: tuple[str, ...]
    trained: DataSpec
    image: tuple[int, int, int] | None = None
    vector: int | None = None
    encoding: "TableEncoding | None" = None

    def __str__(self) -> str:
        """For the sentence that refuses other data."""
        if self.encoding is not None:
            return "a table; give one with the same columns"
        if self.image is not None:
            return "images; give a folder of them, or a table with a column of their paths"
        return f"vectors of {self.vector} numbers; give them as X of an npz file"


@dataclass(frozen=True)
class NewRows:
    """New data, read.

    inputs: (N, C, H, W) uint8 images or (N, D) vectors
    ids: (N,) what names each row; None: its position
    labels: (N,) the class that somebody gave each row, None where nobody did; None: no labels
    skipped: what was left out because it cannot be read
    embedding: how `ulc embed` made the vectors, where it did
    """

    name: str
    inputs: NDArray[Any]
    ids: tuple[str, ...] | None = None
    labels: Labels | None = None
    skipped: tuple[str, ...] = ()
    embedding: dict[str, NDArray[Any]] | None = None

    def __post_init__(self) -> None:
        check_inputs(self.inputs, f"{self.name}: inputs")
        for what in ("ids", "labels"):
            values = getattr(self, what)
            if values is not None and len(values) != len(self.inputs):
                raise InputError(
                    f"{self.name}: {len(values)} {what} for {len(self.inputs)} rows; "
                    "give one for each"
                )


def load_new(spec: DataSpec, takes: Takes, on_progress: Progress | None = None) -> NewRows:
    """Read what `spec` names for a model that takes `takes`."""
    checked_reader(spec)
    path, on_progress = Path(spec.path or ""), on_progress or silent
    if spec.source in READERS:
        return READERS[spec.source](path, spec, takes, on_progress)
    source = load_source(spec)
    labels: Labels = [source.class_names[label] for label in source.labels]
    return from_inputs(source.inputs, takes, spec.source, labels)


def from_folder(path: Path, spec: DataSpec, takes: Takes, on_progress: Progress) -> NewRows:
    """Every image below; folders are labels where at least one is called as a class."""
    from ulc.data.sources.folder import images_below, subfolders
    from ulc.data.sources.pictures import SUFFIXES, Picture

    if not path.is_dir():
        raise InputError(f"{path}: no such folder; give a folder of images")
    folders = {each.name for each in subfolders(path)}
    root = path / "train" if folders == {"train", "test"} else path
    found = images_below(root)
    if not found:
        raise InputError(f"{path}: holds no images ({', '.join(SUFFIXES)}); put some in")
    ways = [each.relative_to(root).parts for each in found]
    labels: Labels = [way[0] if len(way) > 1 else None for way in ways]
    known = not set(takes.class_names).isdisjoint(labels)
    pictures = [Picture.at(each) for each in found]
    names = tuple(each.name for each in pictures)
    return from_pictures(
        NewPictures(str(path), pictures, names, labels if known else None), spec, takes, on_progress
    )


def from_table(path: Path, spec: DataSpec, takes: Takes, on_progress: Progress) -> NewRows:
    """The images that the table lists, or its columns as vectors."""
    from ulc.data.sources.table import read_table

    return from_frame(NewTable(str(path), read_table(path), path.parent), spec, takes, on_progress)


@dataclass(frozen=True)
class NewTable:
    """A data frame; paths of images in it are relative to `folder`."""

    where: str
    frame: "pd.DataFrame"
    folder: Path


def from_frame(
    table: NewTable, spec: DataSpec, takes: Takes, on_progress: Progress = silent
) -> NewRows:
    """Its columns as vectors, or the images that it lists."""
    from ulc.data.sources.frame import image_column, image_paths
    from ulc.data.sources.pictures import Picture

    where, frame = table.where, table.frame
    notes = noted(frame, spec, takes, where)
    if takes.encoding is not None:
        return NewRows(where, takes.encoding.transform(frame, where), notes.ids, notes.labels)
    if takes.image is None:
        raise InputError(f"{where}: a table, but the run learned from {takes}")
    image = image_column(frame, with_columns(spec, takes.trained, list(frame.columns)))
    if image is None:
        raise InputError(
            f"{where}: no column of image paths, but the run learned from images; "
            "name it with --image"
        )
    paths = image_paths(frame[image], table.folder, f"{where}: column '{image}'")
    pictures = [Picture.at(each) for each in paths]
    ids = notes.ids or tuple(each.name for each in pictures)
    return from_pictures(NewPictures(where, pictures, ids, notes.labels), spec, takes, on_progress)


def from_huggingface(path: Path, spec: DataSpec, takes: Takes, on_progress: Progress) -> NewRows:
    """The split `train`, or the only one."""
    from ulc.data.sources import huggingface

    split, where = only_split(huggingface.stored(path), path), str(path)
    features = split.features
    images = [name for name in features if huggingface.is_image(features[name])]
    table = huggingface.frame(split, [name for name in features if name not in images])
    if takes.encoding is not None or not images:
        return from_frame(NewTable(where, table, path), spec, takes, on_progress)
    image = spec.image or with_columns(spec, takes.trained, images).image or images[0]
    if image not in images:
        raise InputError(f"{where}: the column '{image}' holds no images; name another")
    notes = noted(table, spec.model_copy(update={"image": None}), takes, where)
    pictures = huggingface.listed(split, image, where)
    return from_pictures(
        NewPictures(where, pictures, notes.ids, notes.labels), spec, takes, on_progress
    )


def only_split(content: Any, path: Path) -> Any:
    """The data set, or of several splits that of training, or the only one."""
    if not isinstance(content, dict):
        return content
    if "train" not in content and len(content) > 1:
        splits = ", ".join(content)
        raise InputError(f"{path}: which split of {splits}? give its folder, such as {path}/SPLIT")
    return content.get("train", next(iter(content.values())))


def from_npz(path: Path, _: DataSpec, takes: Takes, __: Progress) -> NewRows:
    """X, and where they are there y, class_names and ids."""
    arrays, where = npz.read_arrays(path), str(path)
    if "X" not in arrays:
        raise InputError(f"{path}: no array 'X' in it; save the inputs there")
    return from_inputs(
        npz.as_inputs(arrays["X"], f"{path}: X"),
        takes,
        where,
        npz_labels(arrays, takes.class_names, where),
        ids=npz.as_text(arrays["ids"], f"{path}: ids") if "ids" in arrays else None,
        embedding=npz.embedding_arrays(arrays),
    )


READERS: dict[str, Callable[[Path, DataSpec, Takes, Progress], NewRows]] = {
    "folder": from_folder,
    "table": from_table,
    "huggingface": from_huggingface,
    "npz": from_npz,
}


def from_array(inputs: Any, takes: Takes, labels: Sequence[Any] | None = None) -> NewRows:
    """An array of a program's own: vectors, or uint8 images."""
    array = np.asarray(as_given(inputs))
    given: Labels | None = None if labels is None else [as_label(each) for each in labels]
    return from_inputs(as_images(array) if array.ndim > 2 else array, takes, "data", given)


def as_label(value: Any) -> str | None:
    """A label as text; None and NaN are none."""
    return None if value is None or value != value else str(value)


def from_inputs(
    inputs: NDArray[Any], takes: Takes, where: str, labels: Labels | None, **others: Any
) -> NewRows:
    """Arrays, if the model takes such, in the shape it takes."""
    rows = NewRows(where, inputs, labels=labels, **others)
    if inputs.ndim == 4:
        return NewRows(where, brought(inputs, takes, where), labels=labels, **others)
    if takes.vector is None:
        raise InputError(f"{where}: vectors, but the run learned from {takes}")
    if inputs.shape[1] != takes.vector:
        raise InputError(
            f"{where}: {inputs.shape[1]} numbers a row, but the run learned from {takes.vector}; "
            "make them as those were made"
        )
    return rows


def npz_labels(
    arrays: dict[str, NDArray[Any]], class_names: Sequence[str], where: str
) -> Labels | None:
    """The names of y, if there is one; -1 means no label.

    Whole numbers are places in the file's class_names, or where it has none names of classes that
    are called by numbers, else places among the run's classes.
    """
    if "y" not in arrays:
        return None
    if arrays["y"].dtype.kind in npz.TEXT:
        return list(npz.as_text(arrays["y"], f"{where}: y"))
    numbers = npz.whole_numbers(arrays["y"], f"{where}: y").tolist()
    names: Sequence[str] = ()
    if "class_names" in arrays:
        names = npz.as_text(arrays["class_names"], f"{where}: class_names")
    elif not all(map(WHOLE.fullmatch, class_names)):
        names = class_names
    called = [names[i] if 0 <= i < len(names) else str(i) for i in numbers]
    return [None if i == -1 else name for i, name in zip(numbers, called, strict=True)]


@dataclass(frozen=True)
class NewPictures:
    """Images still to be read, with what is known of them."""

    where: str
    pictures: "Sequence[Picture]"
    ids: tuple[str, ...] | None
    labels: Labels | None


def from_pictures(new: NewPictures, spec: DataSpec, takes: Takes, on_progress: Progress) -> NewRows:
    """Read them at the size that the model takes; what is broken is left out if `spec` says so."""
    from ulc.data.sources.pictures import read_at

    if takes.image is None:
        raise InputError(f"{new.where}: images, but the run learned from {takes}")
    _, height, width = takes.image
    images, broken = read_at(new.pictures, (width, height), spec, on_progress)
    kept = [row for row in range(len(images)) if row not in broken]
    return NewRows(
        new.where,
        brought(images[kept], takes, new.where),
        ids=None if new.ids is None else tuple(new.ids[row] for row in kept),
        labels=None if new.labels is None else [new.labels[row] for row in kept],
        skipped=tuple(new.pictures[row].name for row in broken),
    )


def brought(images: NDArray[np.uint8], takes: Takes, where: str) -> NDArray[np.uint8]:
    """(N, C, H, W) images in the size and the channels that the model takes."""
    if takes.image is None:
        raise InputError(f"{where}: images, but the run learned from {takes}")
    channels, *size = takes.image
    found = images.shape[1]
    if found != channels and not {found, channels} <= {0, 1, 3}:
        raise InputError(
            f"{where}: images have {found} channels; give {channels or '1 (grey) or 3 (colour)'}"
        )
    if channels == 3 and found == 1:
        images = np.repeat(images, 3, axis=1)
    elif channels == 1 and found == 3:
        grey = np.einsum("nchw,c->nhw", images.astype(np.int64), GREY) + 0x8000
        images = (grey >> 16).astype(np.uint8)[:, None]
    return images if list(images.shape[2:]) == size else resized(images, (size[1], size[0]))


def resized(images: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """As files of images are: the shorter side brought to size, the middle cut out."""
    from PIL import Image, ImageOps

    def fitted(channel: NDArray[np.uint8]) -> NDArray[np.uint8]:
        one = ImageOps.fit(Image.fromarray(channel), size, Image.Resampling.BICUBIC)
        return np.asarray(one)

    return np.stack([np.stack([fitted(channel) for channel in image]) for image in images])


@dataclass(frozen=True)
class Noted:
    """What a table says of its rows beside their inputs."""

    ids: tuple[str, ...] | None
    labels: Labels | None


def noted(table: "pd.DataFrame", spec: DataSpec, takes: Takes, where: str) -> Noted:
    """Ids and labels: by the options, by the run's own columns, else by usual names."""
    from ulc.data.columns import as_text
    from ulc.data.sources.frame import ID, LABEL, check_columns, filled, first

    columns = list(table.columns)
    check_columns(columns, spec, where)
    spec = with_columns(spec, takes.trained, columns)
    encoding = takes.encoding
    learned = {each.name for each in encoding.columns} | set(encoding.left_out) if encoding else {}
    others = [name for name in columns if name not in learned]
    label, name = spec.label or first(LABEL, others), spec.id or first(ID, others)
    ids = None if name is None else filled(table[name], f"{where}: column '{name}'", "id")
    labels: Labels | None = (
        None if label is None else [each or None for each in as_text(table[label])]
    )
    if labels is not None and all(each is None for each in labels):
        labels = None
    return Noted(None if ids is None else tuple(ids), labels)


def with_columns(spec: DataSpec, trained: DataSpec, columns: Sequence[str]) -> DataSpec:
    """The options, with the names of the training's columns where these are here too."""
    named = {
        option: getattr(trained, option)
        for option in ("label", "image", "id")
        if getattr(spec, option) is None and getattr(trained, option) in columns
    }
    return spec.model_copy(update=named)


def class_numbers(labels: Labels, class_names: Sequence[str]) -> Integers:
    """(N,) the labels' places among the classes; -1: none, or no class of the run.

    3.0 is 3 where no class is called 3.0.
    """
    places: dict[str | None, int] = {name: place for place, name in enumerate(class_names)}

    def place(label: str | None) -> int:
        if label in places or label is None:
            return places.get(label, -1)
        whole = WHOLE.fullmatch(label)
        return places.get(whole[1], -1) if whole else -1

    return np.array([place(label) for label in labels], np.int64)
