"""A folder of images; its corrected copy is a table of paths and labels."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from ulc.applying.image_paths import path_in_table
from ulc.applying.original import NewLabels
from ulc.applying.table_file import refuse_missing_names
from ulc.config import DataSpec
from ulc.data.sources.annotations import number_labels
from ulc.data.sources.folder import split_images
from ulc.data.sources.pictures import printable_path
from ulc.labels.table import as_csv, as_objects


class ImageFolder:
    """Images in class folders, without the broken images that the run left out."""

    suffix = ".csv"

    def __init__(self, spec: DataSpec, skipped: Iterable[str]) -> None:
        self.spec = spec
        train, test = split_images(Path(spec.path or ""))
        names, numbers = number_labels({"given": train.labels, "test": test.labels})
        broken = set(skipped)
        kept = [i for i, path in enumerate(train.paths) if printable_path(path) not in broken]
        self.paths = [train.paths[i] for i in kept]
        self.labels = as_objects(names)[numbers["given"][kept]]
        self.verified = np.zeros(len(kept), bool)
        self.note = "The images of the folder 'test' are not in the file." if test.paths else None

    @property
    def ids(self) -> Sequence[str]:
        """Return the full path of each image."""
        return list(map(printable_path, self.paths))

    def copy(self, new_labels: NewLabels, out: Path) -> bytes:
        """Return a CSV with the columns image, label, verified."""
        refuse_missing_names(new_labels.labels, out)
        columns = {
            "image": as_objects([path_in_table(path, out.parent) for path in self.paths]),
            "label": new_labels.labels,
            "verified": new_labels.decided.astype(int),
        }
        return as_csv({name: column[new_labels.kept] for name, column in columns.items()})

    def options(self) -> list[str]:
        """Return the command-line options for the column names and the image size."""
        size = [] if self.spec.size is None else ["--size", str(self.spec.size)]
        return ["--image", "image", "--label", "label", "--verified", "verified", *size]
