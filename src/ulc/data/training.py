"""All that an algorithm may see of the data; no true label is in here."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ulc.data.augment import Augment
from ulc.data.preprocessing import Preprocessing
from ulc.data.rows import rows_at
from ulc.errors import InputError


@dataclass(frozen=True)
class Batch:
    """Some examples.

    index: (B,) positions in the training set
    views: each (B, …): independent augmentations of the same examples
    given: (B,) labels as they came, possibly wrong
    strong: further views, changed more
    """

    index: Tensor
    views: tuple[Tensor, ...]
    given: Tensor
    strong: tuple[Tensor, ...] = ()

    @property
    def inputs(self) -> Tensor:
        """The only view; an error if there are several."""
        (view,) = self.views
        return view

    def __len__(self) -> int:
        return len(self.index)


class TrainingData(Protocol):
    """A training set with given labels, wherever it is kept."""

    @property
    def num_classes(self) -> int:
        """K."""
        ...

    @property
    def seed(self) -> int:
        """Of the run."""
        ...

    @property
    def given(self) -> Tensor:
        """(N,) labels as they came."""
        ...

    @property
    def verified(self) -> Tensor | None:
        """(N,) mask of the labels that somebody checked; None: none is known to be."""
        ...

    def __len__(self) -> int: ...

    def batches(
        self, size: int, *, views: int = 1, strong: int = 0, among: Tensor | None = None
    ) -> Iterator[Batch]:
        """One shuffled pass over all examples, or over those `among` the given positions."""
        ...

    def in_order(self, size: int = 1024) -> Iterator[Batch]:
        """One pass in data set order, not augmented."""
        ...


@dataclass(frozen=True)
class TensorData:
    """Training data that fits in memory, kept as one tensor on the device.

    weights: (N,) how often an example is drawn, all positive; None: once in each pass
    verified: (N,) mask of the labels that somebody checked; None: none is known to be
    """

    stored: Tensor
    given: Tensor
    num_classes: int
    seed: int
    preprocessing: Preprocessing
    augment: Augment
    strong: Augment
    weights: Tensor | None = None
    verified: Tensor | None = None

    def __post_init__(self) -> None:
        if len(self.given) < 4:
            raise InputError(
                f"{len(self.given)} examples are too few to learn from; give at least 4"
            )

    def __len__(self) -> int:
        return len(self.given)

    def batches(
        self, size: int, *, views: int = 1, strong: int = 0, among: Tensor | None = None
    ) -> Iterator[Batch]:
        """One shuffled pass, each example augmented weakly `views` and strongly `strong` times.

        With weights, as many examples are drawn with replacement, each in proportion to its own.
        """
        positions = torch.arange(len(self), device=self.given.device) if among is None else among
        for index in split_batches(positions[self.draw_order(positions)], size):
            stored = rows_at(self.stored, index)
            ready = self.preprocessing.ready
            seen = tuple(ready(self.augment(stored)) for _ in range(views))
            changed = tuple(ready(self.strong(stored)) for _ in range(strong))
            yield Batch(index, seen, self.given[index], changed)

    def draw_order(self, positions: Tensor) -> Tensor:
        """Places in `positions`, in random order."""
        if self.weights is None:
            return torch.randperm(len(positions), device=positions.device)
        reached = self.weights[positions].double().cumsum(0)
        draws = torch.rand(len(positions), dtype=torch.double, device=positions.device)
        return torch.searchsorted(reached, draws * reached[-1]).clamp(max=len(positions) - 1)

    def in_order(self, size: int = 1024) -> Iterator[Batch]:
        """One pass in order, not augmented; draws no random number."""
        for index in torch.arange(len(self), device=self.given.device).split(size):
            ready = self.preprocessing.ready(rows_at(self.stored, index))
            yield Batch(index, (ready,), self.given[index])


def split_batches(order: Tensor, size: int) -> Iterator[Tensor]:
    """Pieces of `size`; a last piece of one joins its neighbour (batch norm needs two)."""
    pieces = list(order.split(size))
    if len(pieces) > 1 and len(pieces[-1]) == 1:
        pieces[-2:] = [torch.cat(pieces[-2:])]
    yield from pieces


def paired_batches(
    data: TrainingData, trusted: Tensor, size: int, *, views: int = 2, strong: int = 0
) -> Iterator[tuple[Batch, Batch]]:
    """One pass over the trusted examples, each batch beside one of doubtful ones.

    An epoch is one pass over the trusted set: the doubtful set repeats, or is
    not used up. `trusted` is an (N,) mask with examples on both sides; doubtful examples have
    `strong` further views.
    """
    doubtful = repeat_batches(data, (~trusted).nonzero().squeeze(1), size, views, strong)
    for known in data.batches(size, views=views, among=trusted.nonzero().squeeze(1)):
        yield known, next(doubtful)


def repeat_batches(
    data: TrainingData, among: Tensor, size: int, views: int, strong: int
) -> Iterator[Batch]:
    """Pass after pass, shuffled anew."""
    while True:
        yield from data.batches(size, views=views, strong=strong, among=among)
