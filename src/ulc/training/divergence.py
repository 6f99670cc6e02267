"""The divergence check of every training."""

from collections.abc import Mapping

import numpy as np

from ulc.errors import InputError
from ulc.typing import Floats

REMEDY = (
    "the training diverged; lower the learning rate (in a command: --set sgd.lr=… or adam.lr=…; "
    "in an estimator: options={'sgd': {'lr': …}} or {'adam': {'lr': …}})"
)


def check_values(values: Mapping[str, float], epoch: int) -> None:
    """Raise an InputError unless every value that an epoch reports is finite."""
    for name, value in values.items():
        if not np.isfinite(value):
            raise InputError(f"epoch {epoch}: {name} is {value}: {REMEDY}")


def check_predictions(probability: Floats) -> Floats:
    """Return the predictions; raise an InputError unless all are finite."""
    if not np.isfinite(probability).all():
        raise InputError(f"predictions are not finite: {REMEDY}")
    return probability
