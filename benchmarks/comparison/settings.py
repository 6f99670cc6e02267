"""The compared settings: imbalance and label noise."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ulc.config import ImbalanceSpec, NoiseSpec
from ulc.data.imbalance import choose_rows
from ulc.data.label_files import read_label_file
from ulc.data.noise import corrupt
from ulc.data.sources.npz import load
from ulc.data.sources.source import Source
from ulc.data.truth import small_classes
from ulc.errors import InputError
from ulc.typing import Floats, Integers

CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
# The class that each class is confused with: the pairs of the literature (`ulc.data.noise`) in both
# directions, else a frequent confusion of people (CIFAR-10N).
LOOK_ALIKE = (8, 9, 0, 5, 7, 3, 2, 4, 0, 1)
LEAST_RATE, GREATEST_RATE = 0.05, 0.8

IMBALANCES = {
    "balanced": ImbalanceSpec(kind="none"),
    "half10": ImbalanceSpec(kind="half", ratio=10),
}
SYMMETRIC = {f"symmetric{percent}": percent / 100 for percent in (0, 2, 5, 20, 50)}
HUMAN = ("aggre", "random1", "worse")
NOISES = (*SYMMETRIC, "by_class", *HUMAN)
SETTINGS = tuple(f"{imbalance}-{noise}" for imbalance in IMBALANCES for noise in NOISES)

IMBALANCE_TITLES = {"balanced": "balanced", "half10": "1:10"}
NOISE_TITLES = {
    **{name: f"symmetric {100 * rate:g} %" for name, rate in SYMMETRIC.items()},
    "by_class": "5 to 80 % by class",
    "aggre": "people, aggre",
    "random1": "people, random1",
    "worse": "people, worse",
}


@dataclass(frozen=True)
class Rows:
    """Training and test rows of a features file.

    human: file of people's labels for the same images; None: not available
    test: (first, end) of the test rows; None: the file's own test set
    """

    features: Path
    human: Path | None
    offset: int = 0
    count: int = 10_000
    test: tuple[int, int] | None = None


@dataclass(frozen=True)
class Cut:
    """Data of one setting and seed; a method gets only inputs, given labels and ids.

    ids: (N,) row numbers in the file; small: (K,) which classes are small
    """

    inputs: Floats
    given: Integers
    ids: Integers
    true: Integers
    small: NDArray[np.bool_]
    test_inputs: Floats
    test_labels: Integers


def cut(rows: Rows, setting: str, seed: int) -> Cut:
    """Make the data of a setting; the seed draws small classes, wrong labels and rates."""
    imbalance, noise = setting.split("-")
    source = read_features(rows.features)
    check_rows(rows, len(source.labels), len(source.class_names))
    # The random streams of `ulc train` with this seed, and one more.
    of_imbalance, of_noise, of_rates = map(
        np.random.default_rng, np.random.SeedSequence(seed).spawn(3)
    )
    ids = np.arange(rows.offset, rows.offset + rows.count)
    ids = ids[choose_rows(source.labels[ids], len(CLASSES), IMBALANCES[imbalance], of_imbalance)]
    true = source.labels[ids]
    if noise in HUMAN:
        given = human_labels(rows, noise, len(source.labels))[ids]
    else:
        given = corrupt(true, CLASSES, noise_spec(noise, of_rates), of_noise)
    if rows.test is None:
        test_inputs, test_labels = source.test_inputs, source.test_labels
    else:
        test = slice(*rows.test)
        test_inputs, test_labels = source.inputs[test], source.labels[test]
    if test_inputs is None or test_labels is None:
        raise InputError(f"{rows.features}: no test set in it; name rows for it with --test-rows")
    small = small_classes(true, len(CLASSES))
    return Cut(source.inputs[ids], given, ids, true, small, test_inputs, test_labels)


@lru_cache(maxsize=1)
def read_features(features: Path) -> Source:
    """Read the whole file, once a process."""
    return load(features)


def noise_spec(noise: str, of_rates: np.random.Generator) -> NoiseSpec:
    """Return the noise of a setting."""
    if noise == "by_class":
        matrix = look_alike_matrix(of_rates)
        return NoiseSpec(kind="matrix", matrix=tuple(map(tuple, matrix.tolist())))
    rate = SYMMETRIC[noise]
    return NoiseSpec(kind="symmetric", rate=rate) if rate else NoiseSpec(kind="none")


def look_alike_matrix(rng: np.random.Generator) -> Floats:
    """Return the (K, K) transition matrix: row true class, column given class.

    Error rates go from 5 % to 80 % in equal steps, in random order. All errors of a class go to
    one other class, so above 50 % most labels of the class are the same wrong one.
    """
    rates = rng.permutation(np.linspace(LEAST_RATE, GREATEST_RATE, len(CLASSES)))
    matrix = np.diag(1 - rates)
    matrix[np.arange(len(CLASSES)), LOOK_ALIKE] = rates
    return matrix


def human_labels(rows: Rows, key: str, count: int) -> Integers:
    """Read people's labels of all training images."""
    if rows.human is None:
        raise InputError(
            f"the setting '{key}' needs the labels of CIFAR-10N; name their file with --human or "
            "leave it out with --settings"
        )
    labels = read_label_file(rows.human, key)
    if len(labels) != count:
        raise InputError(
            f"{rows.human}: {len(labels)} labels for {count} rows; give the file of these rows"
        )
    return labels


def check_rows(rows: Rows, count: int, classes: int) -> None:
    """Raise if rows are missing, classes are not ten, or training and test rows overlap."""
    end = rows.offset + rows.count
    if classes != len(CLASSES):
        raise InputError(f"{rows.features}: {classes} classes; give features of CIFAR-10")
    if rows.count < 1 or rows.offset < 0 or end > count:
        raise InputError(
            f"{rows.features}: has {count} rows; --offset {rows.offset} --rows {rows.count} are "
            "not among them"
        )
    if rows.test is None:
        return
    first, last = rows.test
    if not 0 <= first < last <= count:
        raise InputError(f"--test-rows {first}:{last} are not in {rows.features}; it has 0:{count}")
    if first < end and rows.offset < last:
        raise InputError(
            f"--test-rows {first}:{last} overlap the training rows {rows.offset}:{end}; "
            "choose others"
        )
