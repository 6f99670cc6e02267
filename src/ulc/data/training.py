"""Training data as an algorithm sees them, without any true label."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ulc.data.augment import Augment
from ulc.data.float64 import to_float64
from ulc.data.preprocessing import Preprocessing
from ulc.data.rows import rows_at, rows_at_once
from ulc.errors import InputError
from ulc.labels.duplicates import find_copies
from ulc.typing import Integers

if TYPE_CHECKING:
    from ulc.data.lazy.training import LazyData


@dataclass(frozen=True)
class Batch:
    """A batch of examples.

    index: (B,) positions in the training set
    views: independent weak augmentations of the same examples, each (B, …)
    given: (B,) given labels, possibly wrong
    strong: strong augmentations of the same examples, each (B, …)
    """

    index: Tensor
    views: tuple[Tensor, ...]
    given: Tensor
    strong: tuple[Tensor, ...] = ()

    @property
    def inputs(self) -> Tensor:
        """Return the only view; raise a ValueError if there are several."""
        (view,) = self.views
        return view

    def __len__(self) -> int:
        return len(self.index)


class TrainingData(Protocol):
    """Interface of a training set with given labels."""

    @property
    def num_classes(self) -> int:
        """Number of classes K."""
        ...

    @property
    def seed(self) -> int:
        """Seed of the run."""
        ...

    @property
    def given(self) -> Tensor:
        """(N,) given labels."""
        ...

    @property
    def verified(self) -> Tensor | None:
        """(N,) mask of the labels that somebody checked; None: unknown."""
        ...

    @property
    def first_copy(self) -> Tensor:
        """(N,) position of the first row with the same inputs; its own where there is none."""
        ...

    def __len__(self) -> int: ...

    def batches(
        self, size: int, *, views: int = 1, strong: int = 0, among: Tensor | None = None
    ) -> Iterator[Batch]:
        """Yield one shuffled pass in batches of `size`.

        views, strong: numbers of weak and of strong augmentations of each example
        among: positions of the examples; None: all examples
        """
        ...

    def in_order(self, size: int = 1024, *, among: Tensor | None = None) -> Iterator[Batch]:
        """Yield one pass in data set order, without augmentation, in batches of at most `size`.

        among: positions of the examples, whose order is kept; None: all examples
        """
        ...


@dataclass(frozen=True)
class TensorData:
    """Training data in memory, as one tensor on the device.

    stored: (N, …) inputs as `Preprocessing.stored` returns them
    given: (N,) given labels
    augment, strong: weak and strong augmentation
    weights: (N,) positive sampling weights; None: every pass has each example once
    verified: (N,) mask of the labels that somebody checked; None: unknown
    drawn: positions of each batch since somebody cleared the list, for messages
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
    drawn: list[Tensor] = field(default_factory=list, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_count(len(self.given))

    def __len__(self) -> int:
        return len(self.given)

    def batches(
        self, size: int, *, views: int = 1, strong: int = 0, among: Tensor | None = None
    ) -> Iterator[Batch]:
        """Yield one shuffled pass; the parameters are those of `TrainingData.batches`.

        With weights, a pass has as many examples, but they are drawn with replacement, with
        probabilities in proportion to the weights.
        """
        positions = torch.arange(len(self), device=self.given.device) if among is None else among
        for index in split_batches(positions[self.draw_order(positions)], size):
            yield augmented_batch(self, index, rows_at(self.stored, index), views, strong)

    @cached_property
    def first_copy(self) -> Tensor:
        """(N,) position of the first row with the same inputs; its own where there is none."""
        return first_copies(self.comparable()).to(self.given.device)

    def comparable(self) -> NDArray[Any]:
        """(N, …) array whose rows are equal where the inputs are."""
        return self.stored.cpu().numpy()

    def select(self, positions: Integers) -> Self:
        """Return the training data of the rows at `positions`."""
        return replace(
            self,
            stored=self.stored[positions],
            given=self.given[positions],
            weights=None if self.weights is None else self.weights[positions],
            verified=None if self.verified is None else self.verified[positions],
        )

    def draw_order(self, positions: Tensor) -> Tensor:
        """Return (M,) indices into (M,) positions: shuffled, or with weights drawn by weight."""
        if self.weights is None:
            return torch.randperm(len(positions), device=positions.device)
        cumulative = to_float64(self.weights[positions]).cumsum(0)
        draws = torch.rand(len(positions), dtype=torch.double, device=cumulative.device)
        drawn = torch.searchsorted(cumulative, draws * cumulative[-1])
        return drawn.clamp(max=len(positions) - 1).to(positions.device)

    def in_order(self, size: int = 1024, *, among: Tensor | None = None) -> Iterator[Batch]:
        """Yield one pass in data set order, without augmentation and without random numbers."""
        positions = torch.arange(len(self), device=self.given.device) if among is None else among
        for index in positions.split(rows_at_once(self.preprocessing.shape, size)):
            ready = self.preprocessing.ready(rows_at(self.stored, index))
            yield Batch(index, (ready,), self.given[index])


def augmented_batch(
    data: "TensorData | LazyData", index: Tensor, stored: Tensor, views: int, strong: int
) -> Batch:
    """Return the batch of (B, …) stored inputs, with so many weak and strong views.

    index: (B,) positions of the inputs
    """
    data.drawn.append(index)
    ready = data.preprocessing.ready
    weak_views = tuple(ready(data.augment(stored)) for _ in range(views))
    strong_views = tuple(ready(data.strong(stored)) for _ in range(strong))
    return Batch(index, weak_views, data.given[index], strong_views)


def check_count(count: int) -> None:
    """Raise an InputError if there are too few examples."""
    if count < 4:
        raise InputError(f"{count} examples are too few to learn from; give at least 4")


def first_copies(comparable: NDArray[Any]) -> Tensor:
    """(N,) position of the first equal row of (N, …); its own where there is none."""
    first = np.arange(len(comparable))
    copies = find_copies(comparable)
    first[copies.rows] = np.repeat(copies.rows[copies.starts], copies.sizes)
    return torch.from_numpy(first)


def split_batches(order: Tensor, size: int) -> Iterator[Tensor]:
    """Yield batches of `order`; a last batch of one joins the one before: batch norm needs two."""
    pieces = list(order.split(size))
    if len(pieces) > 1 and len(pieces[-1]) == 1:
        pieces[-2:] = [torch.cat(pieces[-2:])]
    yield from pieces


def paired_batches(  # noqa: PLR0913 (data, their division, and how they are seen)
    data: TrainingData,
    trusted: Tensor,
    size: int,
    *,
    views: int = 2,
    strong: int = 0,
    among: Tensor | None = None,
) -> Iterator[tuple[Batch, Batch]]:
    """Yield one pass over the trusted examples; each batch comes with a batch of doubtful ones.

    If there are fewer doubtful than trusted examples, they repeat; if there are more, some are not
    used. Only doubtful examples have strong views.

    trusted: (M,) mask; at least one example is trusted and at least one is doubtful
    among: (M,) positions of the examples; None: all examples
    """
    rows = torch.arange(len(trusted), device=trusted.device) if among is None else among
    doubtful = repeat_batches(data, rows[~trusted], size, views, strong)
    for known in data.batches(size, views=views, among=rows[trusted]):
        yield known, next(doubtful)


def repeat_batches(
    data: TrainingData, among: Tensor, size: int, views: int, strong: int
) -> Iterator[Batch]:
    """Yield batches of the examples `among` without end, pass after pass, each newly shuffled."""
    while True:
        yield from data.batches(size, views=views, strong=strong, among=among)
