"""Read new data for a finished run, with labels or without."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ulc.config import DataSpec
from ulc.data.arrays import as_images, tensor_to_array
from ulc.data.sources import checked_reader, ignore_count, load_source, npz
from ulc.data.sources.source import check_inputs
from ulc.errors import InputError
from ulc.prediction.input_spec import ModelInput, resize_to_model
from ulc.prediction.new_labels import Labels, fill_in_columns, find_ids_and_labels, read_npz_labels
from ulc.typing import CountCallback

if TYPE_CHECKING:
    import pandas as pd

    from ulc.data.lazy.images import LazyImages
    from ulc.data.sources.pictures import Picture


@dataclass(frozen=True)
class NewRows:
    """New data.

    name: name of the data in error messages
    inputs: (N, C, H, W) uint8 images or (N, D) vectors; `LazyImages` are images that do not fit
        into memory
    ids: (N,) names of the rows; None: rows are named by position
    labels: (N,) given class names, None for a row without a label; None: no row has a label
    skipped: names of images that could not be read
    embedding: arrays by which `ulc embed` describes how images became vectors; None: no embedding
    """

    name: str
    inputs: "NDArray[Any] | LazyImages"
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


def load_new_rows(
    spec: DataSpec, model_input: ModelInput, on_progress: CountCallback | None = None
) -> NewRows:
    """Read the data that `spec` names as input for the model."""
    checked_reader(spec)
    path, on_progress = Path(spec.path or ""), on_progress or ignore_count
    if spec.source in READERS:
        return READERS[spec.source](path, spec, model_input, on_progress)
    source = load_source(spec)
    labels: Labels = [source.class_names[label] for label in source.labels]
    return rows_from_inputs(np.asarray(source.inputs), model_input, spec.source, labels)


def rows_from_folder(
    path: Path, spec: DataSpec, model_input: ModelInput, on_progress: CountCallback
) -> NewRows:
    """Read every image below `path`.

    Names of the folders in `path` are labels if at least one of them is a class of the run.
    """
    from ulc.data.sources.folder import images_below, subfolders
    from ulc.data.sources.pictures import SUFFIXES, Picture

    if not path.is_dir():
        raise InputError(f"{path}: no such folder; give a folder of images")
    folders = {each.name for each in subfolders(path)}
    root = path / "train" if folders == {"train", "test"} else path
    found = images_below(root)
    if not found:
        raise InputError(f"{path}: holds no images ({', '.join(SUFFIXES)}); add some")
    parts = [each.relative_to(root).parts for each in found]
    labels: Labels = [each[0] if len(each) > 1 else None for each in parts]
    known = not set(model_input.class_names).isdisjoint(labels)
    pictures = [Picture.from_path(each) for each in found]
    names = tuple(each.name for each in pictures)
    return rows_from_pictures(
        NewPictures(str(path), pictures, names, labels if known else None),
        spec,
        model_input,
        on_progress,
    )


def rows_from_table(
    path: Path, spec: DataSpec, model_input: ModelInput, on_progress: CountCallback
) -> NewRows:
    """Read a table file: the images that it lists, or its columns as vectors."""
    from ulc.data.sources.table import read_table

    return rows_from_frame(
        NewTable(str(path), read_table(path, spec), path.parent), spec, model_input, on_progress
    )


@dataclass(frozen=True)
class NewTable:
    """A data frame, whose name in error messages is `where`; image paths start from `folder`."""

    where: str
    frame: "pd.DataFrame"
    folder: Path


def rows_from_frame(
    table: NewTable,
    spec: DataSpec,
    model_input: ModelInput,
    on_progress: CountCallback = ignore_count,
) -> NewRows:
    """Read a data frame: its columns as vectors, or the images that it lists."""
    from ulc.data.sources.frame import image_column, image_paths
    from ulc.data.sources.pictures import Picture

    where, frame = table.where, table.frame
    notes = find_ids_and_labels(frame, spec, model_input, where)
    if model_input.vectors is not None:
        return NewRows(where, model_input.vectors.transform(frame, where), notes.ids, notes.labels)
    if model_input.image is None:
        raise InputError(f"{where}: a table, but the run learned from {model_input}")
    image = image_column(frame, fill_in_columns(spec, model_input.trained, list(frame.columns)))
    if image is None:
        raise InputError(
            f"{where}: no column of image paths, but the run learned from images; "
            "name it with --image"
        )
    paths = image_paths(frame[image], table.folder, f"{where}: column '{image}'")
    pictures = [Picture.from_path(each) for each in paths]
    ids = notes.ids or tuple(each.name for each in pictures)
    return rows_from_pictures(
        NewPictures(where, pictures, ids, notes.labels), spec, model_input, on_progress
    )


def rows_from_huggingface(
    path: Path, spec: DataSpec, model_input: ModelInput, on_progress: CountCallback
) -> NewRows:
    """Read the split `train` of a Hugging Face folder, or its only split."""
    from ulc.data.sources import huggingface

    split, where = choose_split(huggingface.load_from_disk(path), path), str(path)
    features = split.features
    images = [name for name in features if huggingface.is_image(features[name])]
    table = huggingface.to_frame(split, [name for name in features if name not in images])
    if model_input.vectors is not None or not images:
        return rows_from_frame(NewTable(where, table, path), spec, model_input, on_progress)
    image = spec.image or fill_in_columns(spec, model_input.trained, images).image or images[0]
    if image not in images:
        raise InputError(
            f"{where}: the column '{image}' holds no images; name another with --image"
        )
    notes = find_ids_and_labels(table, spec.model_copy(update={"image": None}), model_input, where)
    pictures = huggingface.list_pictures(split, image, where)
    return rows_from_pictures(
        NewPictures(where, pictures, notes.ids, notes.labels), spec, model_input, on_progress
    )


def choose_split(content: Any, path: Path) -> Any:
    """Return the data set itself if it has no splits, else its split `train`, or its only one."""
    if not isinstance(content, dict):
        return content
    if "train" not in content and len(content) > 1:
        splits = ", ".join(content)
        raise InputError(f"{path}: has the splits {splits}; give the folder of one of them")
    return content.get("train", next(iter(content.values())))


def rows_from_npz(path: Path, _: DataSpec, model_input: ModelInput, __: CountCallback) -> NewRows:
    """Read X of an npz file, and y, class_names and ids if it has them."""
    arrays, where = npz.read_arrays(path, npz.is_known), str(path)
    if "X" not in arrays:
        raise InputError(f"{path}: has no array 'X'; save the inputs there")
    return rows_from_inputs(
        npz.as_inputs(arrays["X"], f"{path}: X"),
        model_input,
        where,
        read_npz_labels(arrays, model_input.class_names, where),
        ids=npz.read_texts(arrays["ids"], f"{path}: ids") if "ids" in arrays else None,
        embedding=npz.embedding_arrays(arrays),
    )


READERS: dict[str, Callable[[Path, DataSpec, ModelInput, CountCallback], NewRows]] = {
    "folder": rows_from_folder,
    "table": rows_from_table,
    "huggingface": rows_from_huggingface,
    "npz": rows_from_npz,
}


def rows_from_array(
    inputs: Any, model_input: ModelInput, labels: Sequence[Any] | None = None
) -> NewRows:
    """Make rows of an array of vectors or of uint8 images; `labels` None: no labels."""
    array = np.asarray(tensor_to_array(inputs))
    given: Labels | None = None if labels is None else [label_as_text(each) for each in labels]
    return rows_from_inputs(
        as_images(array) if array.ndim > 2 else array, model_input, "data", given
    )


def label_as_text(value: Any) -> str | None:
    """Return a label as text; None and NaN mean no label."""
    return None if value is None or value != value else str(value)


def rows_from_inputs(
    inputs: NDArray[Any], model_input: ModelInput, where: str, labels: Labels | None, **others: Any
) -> NewRows:
    """Make rows of inputs; images are converted to the model's size, other vectors raise an error.

    others: further fields of `NewRows`
    """
    rows = NewRows(where, inputs, labels=labels, **others)
    if inputs.ndim == 4:
        return NewRows(where, resize_to_model(inputs, model_input, where), labels=labels, **others)
    if model_input.vector is None:
        raise InputError(f"{where}: vectors, but the run learned from {model_input}")
    if inputs.shape[1] != model_input.vector:
        raise InputError(
            f"{where}: vectors of {inputs.shape[1]} numbers, but the run learned from vectors of "
            f"{model_input.vector}; make them in the same way"
        )
    return rows


@dataclass(frozen=True)
class NewPictures:
    """Images that are not read yet, with their ids and labels."""

    where: str
    pictures: "Sequence[Picture]"
    ids: tuple[str, ...] | None
    labels: Labels | None


def rows_from_pictures(
    new: NewPictures, spec: DataSpec, model_input: ModelInput, on_progress: CountCallback
) -> NewRows:
    """Read images at the model's size, lazily if they do not fit into memory.

    `spec.skip_broken` leaves out unreadable ones.
    """
    from ulc.data.sources.pictures import read_pictures

    if model_input.image is None:
        raise InputError(f"{new.where}: images, but the run learned from {model_input}")
    _, height, width = model_input.image
    size = (width, height)
    images, broken = read_pictures(new.pictures, spec, on_progress, size=size, survey=False)
    kept = [row for row in range(len(images)) if row not in broken]
    return NewRows(
        new.where,
        resize_to_model(images[kept], model_input, new.where),
        ids=None if new.ids is None else tuple(new.ids[row] for row in kept),
        labels=None if new.labels is None else [new.labels[row] for row in kept],
        skipped=tuple(new.pictures[row].name for row in broken),
    )
