"""How long an epoch of a training takes, measured on a part of its rows."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ulc.config import ImbalanceSpec, NoiseSpec, RunSpec
from ulc.data.prepare import Labelled, Prepared, label, prepare
from ulc.experiments.speed import epoch_seconds
from ulc.settings.presets import scale_epochs
from ulc.training.loop import Epoch, Observer, train
from ulc.training.run import build_algorithm
from ulc.training.scores import EpochScores
from ulc.typing import Integers

FEWEST = 32  # rows of the first measurement; a large network on a processor takes seconds for them
LONG = 10.0  # seconds: no measurement is planned to take longer
ENOUGH = 1.0  # seconds: a measurement that takes longer is not repeated with more rows
EPOCHS = 3  # a short epoch of each stage of a training


@dataclass(frozen=True)
class Pace:
    """Seconds an epoch for one row, in the warm-up and later."""

    warm_up: float
    later: float


def measure_pace(spec: RunSpec, device: torch.device) -> tuple[Pace, int]:
    """The pace of a training, and its number of rows, by three short epochs on a part of the rows.

    A first training of few rows does what is done once, such as choosing kernels; it counts only if
    it takes long. Then the part has two full batches, or what takes about ten seconds, and grows
    until it takes a second. The first epoch stands for the warm-up, the last one for all others.
    """
    labelled = label(spec)
    total = len(labelled.given)
    rows = min(FEWEST, total)
    first = train_part(spec, labelled, rows, device)
    if sum(first) > LONG:
        return Pace(first[0] / rows, first[-1] / rows), total
    most = int(rows * LONG / sum(first))
    rows = min(max(FEWEST, min(2 * largest_batch(spec), most)), total)
    while True:
        seconds = train_part(spec, labelled, rows, device)
        if sum(seconds) > ENOUGH or rows == total:
            return Pace(seconds[0] / rows, seconds[-1] / rows), total
        rows = min(4 * rows, total)


def largest_batch(spec: RunSpec) -> int:
    """The largest batch of a training in rows; 0: its options name none."""
    sizes = [value for name, value in spec.options.items() if name.endswith("batch_size")]
    return max(sizes, default=0)


def train_part(spec: RunSpec, labelled: Labelled, rows: int, device: torch.device) -> list[float]:
    """Train shortened stages on so many rows, with scores; return the seconds of each epoch."""
    options = scale_epochs(spec.options, EPOCHS / spec.epochs)
    short = spec.model_copy(update={"options": options, "epochs": EPOCHS})
    prepared = prepare_part(short, labelled, rows, device)
    algorithm = build_algorithm(short, prepared, device)
    scores = EpochScores(prepared.truth, prepared.training.preprocessing)
    return [epoch_seconds(each) for each in train(algorithm, range(EPOCHS), [scores, ScoreTimer()])]


class ScoreTimer(Observer):
    """Adds the seconds since the end of an epoch's training to its record."""

    def on_epoch(self, epoch: Epoch) -> None:
        """Add them as seconds of its scores."""
        epoch.record["seconds"]["score"] = time.perf_counter() - epoch.trained_at


def prepare_part(spec: RunSpec, labelled: Labelled, rows: int, device: torch.device) -> Prepared:
    """The data of a run, with only so many of its rows, and as large a share of its test set."""
    source, share = labelled.source, rows / len(labelled.given)
    kept = spread_rows(len(labelled.given), rows)
    test: dict[str, Any] = {}
    if source.test_inputs is not None and source.test_labels is not None:
        tested = spread_rows(len(source.test_labels), round(share * len(source.test_labels)))
        test = {
            "test_inputs": source.test_inputs[tested],
            "test_labels": source.test_labels[tested],
        }
    part = replace(
        source,
        inputs=source.inputs[kept],
        labels=labelled.given[kept],
        true=None if labelled.true is None else labelled.true[kept],
        ids=None,
        verified=None,
        **test,
    )
    plain = {"imbalance": ImbalanceSpec(), "noise": NoiseSpec()}
    return prepare(spec.model_copy(update=plain), device, source=part)


def spread_rows(total: int, count: int) -> Integers:
    """`count` positions, at least one, evenly spread over `total` rows."""
    return np.linspace(0, total - 1, max(1, count)).astype(np.int64)
