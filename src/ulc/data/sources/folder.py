"""Read images from class folders, which may lie inside folders train and test."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from ulc.config import DataSpec
from ulc.data.sources.annotations import Annotations, number_labels
from ulc.data.sources.pictures import SUFFIXES, Picture, Pictures
from ulc.data.sources.source import Source
from ulc.data.sources.warnings import SHOWN, name_some
from ulc.errors import InputError
from ulc.typing import CountCallback


@dataclass(frozen=True)
class LabelledPaths:
    """Paths of images, and the class name of each image.

    empty: names of class folders without images
    unread: number of other files, by ending
    """

    paths: list[Path]
    labels: list[str]
    empty: list[str] = field(default_factory=list)
    unread: Counter[str] = field(default_factory=Counter)

    def warnings(self) -> Iterator[str]:
        """Warn of empty class folders and of files that are not read."""
        if self.empty:
            what = (
                "1 class folder holds"
                if len(self.empty) == 1
                else (f"{len(self.empty)} class folders hold")
            )
            yield f"{what} no images and counts as no class: {name_some(self.empty)}"
        if self.unread:
            kinds = ", ".join(f"{count} {kind}" for kind, count in self.unread.most_common(SHOWN))
            yield (
                f"{self.unread.total()} files in the class folders are not read, because their "
                f"names do not end like images ({kinds})"
            )


def load(path: Path, spec: DataSpec, on_progress: CountCallback) -> Source:
    """Read every image in the class folders; a class has the name of its folder."""
    train, test = split_images(path)
    if spec.test is not None:
        test = find_test_images(Path(spec.test), path, test)
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
    source = pictures.to_source(path.name, notes, spec, on_progress)
    return replace(source, warnings=(*train.warnings(), *test.warnings()))


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


def find_test_images(path: Path, train: Path, inside: LabelledPaths) -> LabelledPaths:
    """Find the images of a test set in a folder of its own; inside: the test set in `train`."""
    if inside.paths:
        raise InputError(
            f"--test {path}: {train} holds a folder test already; leave out one of both"
        )
    if not path.is_dir():
        raise InputError(f"--test {path}: no such folder; give a folder of class folders")
    return find_images(path)


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
        found.unread.update(count_unread(folder))
        if not images:
            found.empty.append(folder.name)
            continue
        found.paths.extend(images)
        found.labels.extend([class_name(folder)] * len(images))
    if not found.paths:
        raise InputError(
            f"{path}: its folders hold no images ({', '.join(SUFFIXES)}); put some into them"
        )
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


def count_unread(folder: Path) -> Counter[str]:
    """Count the files at any depth below the folder that are no images, by ending."""
    found: Counter[str] = Counter()
    for _, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not is_hidden(name)]
        found.update(
            Path(name).suffix.lower() or "without ending"
            for name in files
            if not name.lower().endswith(SUFFIXES) and not is_hidden(name)
        )
    return found


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name is hidden; macOS adds __MACOSX to archives."""
    return name.startswith((".", "__MACOSX"))
