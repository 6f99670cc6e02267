"""Running means of the values that training steps report."""

from collections import defaultdict
from collections.abc import Callable

from torch import Tensor

Record = dict[str, float]


class Averages:
    """Mean of each named value over the steps of an epoch.

    Values stay on their device until `record` is called.

    on_step: called with this object after each step; None: nothing is called
    """

    def __init__(self, on_step: Callable[["Averages"], None] | None = None) -> None:
        self.sums: dict[str, Tensor | float] = defaultdict(float)
        self.counts: dict[str, int] = defaultdict(int)
        self.on_step = on_step

    def add(self, **values: Tensor | float) -> None:
        """Add the values of one step."""
        for name, value in values.items():
            self.sums[name] = self.sums[name] + value
            self.counts[name] += 1
        if self.on_step is not None:
            self.on_step(self)

    def record(self) -> Record:
        """The mean of each value so far, by name."""
        return {name: float(total) / self.counts[name] for name, total in self.sums.items()}
