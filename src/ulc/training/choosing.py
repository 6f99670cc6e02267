"""Which epoch of a training counts: the last one, or the best by held-out or validation rows."""

from typing import Any

from ulc.algorithms.base import Algorithm
from ulc.config import RunSpec
from ulc.data.prepare import Prepared
from ulc.training.best_epoch import BestEpoch, Snapshot
from ulc.training.best_networks import BestNetworks
from ulc.training.collapse import CollapseMonitor
from ulc.training.inference import judge_labels
from ulc.training.scores import score_test


def keep_best(
    spec: RunSpec, prepared: Prepared, best: Snapshot | None
) -> BestEpoch | BestNetworks | None:
    """The observer that keeps the best epoch; None: the last one counts.

    best: what a resumed training has kept so far; None: nothing
    """
    if prepared.validation is not None:
        return BestNetworks(prepared.validation, prepared.training.preprocessing, best)
    monitor = monitor_collapse(spec, prepared)
    return None if monitor is None else BestEpoch(monitor, best=best)


def monitor_collapse(spec: RunSpec, prepared: Prepared) -> CollapseMonitor | None:
    """A monitor that measures the training on the held-out rows; None if there are none."""
    if prepared.held_out is None:
        return None
    first = min(warm_up_of(spec) or 0, spec.epochs - 1)
    return CollapseMonitor(prepared.held_out, prepared.class_names, first)


def warm_up_of(spec: RunSpec) -> int | None:
    """Number of epochs of the warm-up; None: the algorithm has none."""
    warm_up = spec.options.get("warmup_epochs")
    return warm_up if isinstance(warm_up, int) else None


def summarise_chosen(
    algorithm: Algorithm, prepared: Prepared, best: BestNetworks
) -> dict[str, Any]:
    """What a summary says of networks that a validation set has chosen.

    Their test scores take the place of those of the last epochs.
    """
    prior = algorithm.learned_prior(judge_labels(algorithm))
    found = score_test(algorithm, prepared.truth, prepared.training.preprocessing, prior)
    scores = {name: {"last": each} for name, each in found.items()}
    return scores | {"last_epochs": 1, "chosen": best.chosen}
