"""Training data whose images are read when they are needed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from ulc.data.augment import Augment
from ulc.data.lazy.images import LazyImages
from ulc.data.preprocessing import Preprocessing
from ulc.data.rows import rows_at_once
from ulc.data.training import (
    Batch,
    augmented_batch,
    check_count,
    first_copies,
    split_batches,
)
from ulc.typing import Integers


@dataclass(frozen=True, eq=False)
class LazyInputs:
    """Inputs on a device that are read when needed, with those methods of a tensor that are used.

    images: (N, 3, H, W)
    """

    images: LazyImages
    device: torch.device

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, positions: Any) -> Self:
        """Return the inputs at a slice, a mask or positions; nothing is read."""
        return replace(self, images=self.images[positions])

    def to(self, device: torch.device) -> Self:
        """Return the same inputs for another device."""
        return replace(self, device=device)

    def cpu(self) -> Self:
        """Return the same inputs for the CPU."""
        return self.to(torch.device("cpu"))

    def split(self, size: int) -> Iterator[Tensor]:
        """Yield all inputs in order, in batches of `size`, channels-last uint8."""
        return self.batches(torch.arange(len(self)).split(size))

    def batches(self, pieces: Sequence[Tensor]) -> Iterator[Tensor]:
        """Yield the inputs of each piece, which holds (B,) positions."""
        for pixels in self.images.batches([piece.cpu().numpy() for piece in pieces]):
            yield torch.from_numpy(pixels).to(self.device).permute(0, 3, 1, 2)


@dataclass(frozen=True)
class LazyData:
    """Training data whose images are read when they are needed; the fields are as in `TensorData`.

    Memory holds labels, the images of the current batches and those that are read ahead. Batches
    and random numbers are those of `TensorData`.
    """

    stored: LazyInputs
    given: Tensor
    num_classes: int
    seed: int
    preprocessing: Preprocessing
    augment: Augment
    strong: Augment
    verified: Tensor | None = None
    drawn: list[Tensor] = field(default_factory=list, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_count(len(self.given))

    def __len__(self) -> int:
        return len(self.given)

    def batches(
        self, size: int, *, views: int = 1, strong: int = 0, among: Tensor | None = None
    ) -> Iterator[Batch]:
        """Yield one shuffled pass; the parameters are those of `TrainingData.batches`."""
        positions = torch.arange(len(self), device=self.given.device) if among is None else among
        order = torch.randperm(len(positions), device=positions.device)
        pieces = list(split_batches(positions[order], size))
        for index, stored in zip(pieces, self.stored.batches(pieces), strict=True):
            yield augmented_batch(self, index, stored, views, strong)

    def in_order(self, size: int = 1024, *, among: Tensor | None = None) -> Iterator[Batch]:
        """Yield one pass in data set order, without augmentation and without random numbers."""
        positions = torch.arange(len(self), device=self.given.device) if among is None else among
        pieces = positions.split(rows_at_once(self.preprocessing.shape, size))
        for index, stored in zip(pieces, self.stored.batches(pieces), strict=True):
            yield Batch(index, (self.preprocessing.ready(stored),), self.given[index])

    @cached_property
    def first_copy(self) -> Tensor:
        """(N,) position of the first row with the same pixels; its own where there is none."""
        return first_copies(self.comparable()).to(self.given.device)

    def comparable(self) -> NDArray[Any]:
        """(N, 16) digests, which are equal where the inputs are."""
        return self.stored.images.digests

    def select(self, positions: Integers) -> Self:
        """Return the training data of the rows at `positions`."""
        return replace(
            self,
            stored=self.stored[positions],
            given=self.given[positions],
            verified=None if self.verified is None else self.verified[positions],
        )
