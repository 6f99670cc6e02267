"""Epochs, batch sizes and loss weights by the size of the data, where the user sets none."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ulc.algorithms import configure
from ulc.config import DataSpec, RunSpec
from ulc.errors import InputError
from ulc.settings.presets import find_preset, with_preset

STEPS = 600  # least number of optimiser steps, unless that takes more than MOST_EPOCHS
MOST_EPOCHS = 100
SMALLEST_BATCH = 16
BATCHES = 10  # a small data set is split into about so many batches
# On few vectors a weight λ_u of 25 for the doubtful rows, as in the papers, is too large: λ_u = 1
# was as good or better on iris (accuracy 0.90 against 0.75), wine and 600 digits, with correct
# labels and with 30 % wrong ones (one seed). The preset has 5.
FEW_VECTORS = 5_000
LOW_DOUBTFUL_WEIGHT = 1.0
# Of few rows, half are too few to learn from. Of 2,000 rows of CIFAR-10 features with 20 % wrong
# labels, audits doubted 5.4 % of the correct labels with two folds and 4.1 % with five; of 4,000
# rows 4.0 % with both, and five folds take twice the time (development rows, three seeds).
FEW_FOR_TWO_FOLDS, FOLDS_OF_FEW = 3_000, 5
# Of 1,000 classes of four rows, 10 % of them wrong, an audit doubted 32 % of the labels with two
# folds and 13 % with five (synthetic clusters, one seed).
FEW_OF_A_CLASS = 20


@dataclass(frozen=True)
class Size:
    """Size of the data to learn from; shape: of one input."""

    shape: tuple[int, ...]
    rows: int
    classes: int


def settings(
    algorithm: str, size: Size, epochs: int | None, options: Mapping[str, Any] | None
) -> RunSpec:
    """A spec with the preset for inputs of this shape, adapted to the number of rows and classes.

    epochs, options: values of the user, which override the others; None: the user sets none
    """
    if options is not None and not isinstance(options, Mapping):
        raise InputError(f"options is {options!r}; give a dict from names to values")
    own = dict(options or {})
    rows, source = size.rows, "fashion" if len(size.shape) == 3 else "npz"
    spec = RunSpec(data=DataSpec(source=source), algorithm=algorithm)
    preset = find_preset(spec)
    defaults = configure(algorithm, preset.options).model_dump()
    wanted = max(SMALLEST_BATCH, rows // BATCHES)
    sized = {
        name: min(usual, wanted) for name, usual in defaults.items() if name.endswith("batch_size")
    }
    batch = own.get("batch_size", sized.get("batch_size", wanted))
    if "doubtful_weight" in defaults and len(size.shape) == 1 and rows < FEW_VECTORS:
        sized["doubtful_weight"] = LOW_DOUBTFUL_WEIGHT
    if "cross_fitted" in defaults and rows < max(FEW_FOR_TWO_FOLDS, FEW_OF_A_CLASS * size.classes):
        sized["folds"] = FOLDS_OF_FEW
    if epochs is None:
        configure(algorithm, own)  # validates the user's batch size before it is used
        steps = max(1, math.ceil(rows / batch))
        epochs = max(preset.epochs, min(MOST_EPOCHS, math.ceil(STEPS / steps)))
    elif not isinstance(epochs, int | np.integer) or epochs < 1:
        raise InputError(f"epochs is {epochs}; give a whole number above 0, or None")
    return with_preset(spec, epochs=int(epochs), options=sized | own)
