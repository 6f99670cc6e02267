"""The divergence check of every training."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from ulc.blocks.averages import Averages
from ulc.data.training import TrainingData
from ulc.errors import InputError
from ulc.typing import Floats

REMEDY = (
    "the training diverged; lower the learning rate (in a command: --set sgd.lr=… or adam.lr=…; "
    "in an estimator: options={'sgd': {'lr': …}} or {'adam': {'lr': …}})"
)

EVERY = 100  # steps; to look at each step would make a GPU wait
SHOWN = 8  # examples that a message names


class StepCheck:
    """Raises an InputError that names epoch, step and examples if a value stops being finite.

    It looks at the values of a step up to EVERY steps later. A step is what an algorithm computes
    from the batches that it draws together; it may report values more than once.

    pending: sums of the values, number of the step and positions of its examples, of each report
        that was not looked at
    """

    def __init__(self, epoch: int, data: TrainingData) -> None:
        self.epoch = epoch
        self.drawn: list[Tensor] = getattr(data, "drawn", [])
        self.drawn.clear()
        self.step = 0
        self.examples: list[Tensor] = []
        self.pending: list[tuple[dict[str, Tensor | float], int, list[Tensor]]] = []

    def on_step(self, averages: Averages) -> None:
        """Keep the sums after a step."""
        if self.drawn:
            self.step += 1
            self.examples = self.drawn.copy()
            self.drawn.clear()
        self.pending.append((dict(averages.sums), self.step, self.examples))
        if len(self.pending) >= EVERY:
            self.look()

    def look(self) -> None:
        """Raise for the first sum that is not finite: a sum never becomes finite again."""
        for sums, step, examples in self.pending:
            for name, total in sums.items():
                if not math.isfinite(float(total)):
                    where = f"epoch {self.epoch}, step {step}{name_examples(examples)}"
                    raise InputError(f"{where}: {name} is not finite: {REMEDY}")
        self.pending.clear()


def name_examples(examples: list[Tensor]) -> str:
    """Return the positions of examples as text in brackets; empty: nothing is known of them."""
    if not examples:
        return ""
    positions = torch.cat(examples).tolist()
    more = f" and {len(positions) - SHOWN} more" if len(positions) > SHOWN else ""
    named = ", ".join(map(str, positions[:SHOWN]))
    return f" (training examples {named}{more}, counted from 0)"


def check_values(values: Mapping[str, float], epoch: int) -> None:
    """Raise an InputError unless every value that an epoch reports is finite."""
    for name, value in values.items():
        if not np.isfinite(value):
            raise InputError(f"epoch {epoch}: {name} is {value}: {REMEDY}")


def check_predictions(probability: Floats) -> Floats:
    """Return the predictions; raise an InputError unless all are finite."""
    # A mask of N × K would be needed to look at each number alone.
    if not np.isfinite([probability.min(initial=0), probability.max(initial=0)]).all():
        raise InputError(f"predictions are not finite: {REMEDY}")
    return probability
