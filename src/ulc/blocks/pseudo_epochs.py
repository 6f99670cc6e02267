"""Epochs on a part of the data, for data sets that are too large for a pass in every epoch."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ulc.data.training import TrainingData


def draw_rows(data: TrainingData, count: int | None) -> Tensor:
    """Draw (M,) positions of at most `count` examples, in data set order.

    Each given class has at most its even share, so classes are balanced where they are large
    enough (as in DivideMix's code for Clothing1M). None: all positions, without a random number.
    """
    rows = torch.arange(len(data), device=data.given.device)
    if count is None:
        return rows
    order = torch.randperm(len(data), device=rows.device)
    labels = data.given[order]
    by_class = labels.argsort(stable=True)
    sizes = torch.bincount(labels, minlength=data.num_classes)
    rank = torch.empty_like(rows)
    rank[by_class] = rows - (sizes.cumsum(0) - sizes)[labels[by_class]]
    drawn = order[rank < count / data.num_classes][:count]
    return drawn.sort().values


def fill_unseen(values: Tensor, given: Tensor, classes: int) -> Tensor:
    """Replace rows of (N, K) predictions that are NaN, because no network has seen the example.

    They get the mean of the rows with the same given label; if there are none, that label itself.
    """
    unseen = values[:, 0].isnan()
    labels = given[~unseen]
    count = torch.bincount(labels, minlength=classes)
    total = values.new_zeros(classes, values.shape[1]).index_add_(0, labels, values[~unseen])
    itself = F.one_hot(torch.arange(classes, device=given.device), values.shape[1])
    means = torch.where(count[:, None] > 0, total / count.clamp(min=1)[:, None], itself.float())
    return torch.where(unseen[:, None], means[given], values)
