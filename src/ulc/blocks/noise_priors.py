"""Priors of the confusion model: what is believed of label noise before any label is seen."""

import math
from dataclasses import dataclass, replace

TEMPERATURES = (0.25, 4.0)  # lowest and highest temperature of predictions
# Of predictions by networks in training. Lower temperatures reject the right labels of small
# classes that look like others. Networks confuse many classes; an affinity would take that for
# noise.
LOWEST_OF_NETWORKS, MOST_CLASSES_FOR_AFFINITY = 0.5, 50


@dataclass(frozen=True)
class Priors:
    """Priors of `AnchoredConfusion`.

    Predictions are a little wrong about difficult rows, too: without priors, clean data would seem
    to have noise there.

    slope, affinity: precision of the Gaussian priors around 0, for each row; None: it stays 0
    low_temperature: T falls below it only as far as that raises the mean log-likelihood of the
        labels by `reluctance` for each unit of −log T
    """

    slope: float | None = 1e-3
    affinity: float | None = 0.1
    low_temperature: float = TEMPERATURES[0]
    reluctance: float = 0.0


def priors_of_networks(classes: int, *, row_noise: bool) -> Priors:
    """Priors for predictions by networks in training.

    row_noise: whether noise depends on the row; False: one confusion matrix for all rows
    """
    priors = Priors(low_temperature=LOWEST_OF_NETWORKS, reluctance=math.inf)
    if not row_noise:
        return replace(priors, slope=None, affinity=None)
    return priors if classes <= MOST_CLASSES_FOR_AFFINITY else replace(priors, affinity=None)
