"""Divide the training set into labels to trust and labels to doubt."""

import torch
from torch import Tensor


def divide(clean: Tensor, given: Tensor, trusted: Tensor, fewest: int) -> Tensor:
    """The mask `trusted`, changed so that both sides have enough examples to train on.

    Each side gets at least `fewest` examples (at most half of all), by rank of `clean`. Where
    possible, the likeliest label of each class stays trusted.
    """
    order = clean.argsort(descending=True, stable=True)
    best = likeliest_of_each_class(order, given)
    topped = trusted | best
    fewest = min(fewest, len(clean) // 2)
    if int(topped.sum()) < fewest:
        topped[order[:fewest]] = True
    doubtful = len(topped) - int(topped.sum())
    if doubtful < fewest:
        ranked = order[topped[order]]
        last = torch.cat([ranked[best[ranked]], ranked[~best[ranked]]])
        topped[last[len(last) - (fewest - doubtful) :]] = False
    return topped


def likeliest_of_each_class(order: Tensor, given: Tensor) -> Tensor:
    """(N,) mask of the example of each class that comes first in `order`."""
    labels = given[order]
    ranks = torch.arange(len(labels), device=labels.device)
    first = torch.full((int(given.max()) + 1,), len(labels), device=labels.device)
    first.scatter_reduce_(0, labels, ranks, "amin")
    mask = torch.zeros(len(labels), dtype=torch.bool, device=labels.device)
    mask[order[first[first < len(labels)]]] = True
    return mask
