"""Read images from class folders, which may lie inside folders train and test."""

import os
from dataclasses import dataclass
from pathlib import Path

from ulc.config import DataSpec
from ulc.data.sources.annotations import Annotations, number_labels
from ulc.data.sources.pictures import SUFFIXES, Picture, Pictures
from ulc.data.sources.source import Source
from ulc.errors import InputError
from ulc.typing import CountCallback


@dataclass(frozen=True)
class LabelledPaths:
    """Paths of images, and the class name of each image."""

    paths: list[Path]
    labels: list[str]


def load(path: Path, spec: DataSpec, on_progress: CountCallback) -> Source:
    """Read every image in the class folders; a class has the name of its folder."""
    train, test = split_images(path)
    columns = {"given": train.labels} | ({"test": test.labels} if test.paths else {})
    names, labels = number_labels(columns)
    pictures = Pictures(
        list(map(Picture.from_path, train.paths)), list(map(Picture.from_path, test.paths))
    )
    notes = Annotations(
        class_names=names,
        labels=labels["given"],
        ids=tuple(picture.name for picture in pictures.train),
        test_labels=labels.get("test"),
    )
    return pictures.to_source(path.name, notes, spec, on_progress)


def split_images(path: Path) -> tuple[LabelledPaths, LabelledPaths]:
    """Find the images of the training set and of the test set, which may be empty."""
    if not path.is_dir():
        raise InputError(
            f"{path}: no such folder; give a folder that holds a folder for each class"
        )
    folders = {each.name: each for each in subfolders(path)}
    if set(folders) == {"train", "test"} and all(map(subfolders, folders.values())):
        return find_images(folders["train"]), find_images(folders["test"])
    return find_images(path), LabelledPaths([], [])


def find_images(path: Path) -> LabelledPaths:
    """Find the images of every class folder in `path`."""
    classes = subfolders(path)
    if not classes:
        raise InputError(
            f"{path}: holds no folders; give a folder that holds a folder of images for each class"
        )
    found = LabelledPaths([], [])
    root = path.resolve()
    for folder in classes:
        if root.is_relative_to(folder.resolve()):
            raise InputError(
                f"{folder}: a link to a folder above it, which holds the other classes; remove it"
            )
        images = images_below(folder)
        if not images:
            raise InputError(
                f"{folder}: holds no images ({', '.join(SUFFIXES)}); put some in or remove it"
            )
        found.paths.extend(images)
        found.labels.extend([class_name(folder)] * len(images))
    return found


def class_name(folder: Path) -> str:
    """Return the folder's name; raise if it is not valid text."""
    try:
        folder.name.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{folder.parent}: the name of the folder {os.fsencode(folder.name)!r} is not valid "
            "text; rename it"
        ) from None
    return folder.name


def subfolders(path: Path) -> list[Path]:
    """Return the folders in `path` that are not hidden, sorted."""
    return sorted(each for each in path.iterdir() if each.is_dir() and not is_hidden(each.name))


def images_below(folder: Path) -> list[Path]:
    """Return the paths of all images at any depth below the folder, sorted, without hidden ones."""
    found = []
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not is_hidden(name)]
        found += [
            Path(root, name)
            for name in files
            if name.lower().endswith(SUFFIXES) and not is_hidden(name)
        ]
    return sorted(found)


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name is hidden; macOS adds __MACOSX to archives."""
    return name.startswith((".", "__MACOSX"))
