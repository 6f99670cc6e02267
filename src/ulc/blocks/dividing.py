"""Divide the training set into labels to trust and labels to doubt."""

import torch
from torch import Tensor


def divide(clean: Tensor, given: Tensor, trusted: Tensor, fewest: int) -> Tensor:
    """The mask `trusted`, topped up so that training never stalls (methods A16).

    Each class keeps at least its likeliest label, and either side gets at least `fewest`
    examples (or half of all), by rank of `clean`.
    """
    topped = trusted.clone()
    best = clean_order(clean)[best_of_each_class(clean, given)]
    topped[best] = True
    fewest = min(fewest, len(clean) // 2)
    order = clean_order(clean)
    if int(topped.sum()) < fewest:
        topped[order[:fewest]] = True
    doubtful = len(topped) - int(topped.sum())
    if doubtful < fewest:
        last = order[topped[order]]
        topped[last[len(last) - (fewest - doubtful) :]] = False
    return topped


def clean_order(clean: Tensor) -> Tensor:
    """Positions from the likeliest to the least likely; ties in data set order."""
    return clean.argsort(descending=True, stable=True)


def best_of_each_class(clean: Tensor, given: Tensor) -> Tensor:
    """Ranks (in `clean_order`) of the first example of each class."""
    labels = given[clean_order(clean)]
    ranks = torch.arange(len(labels), device=labels.device)
    first = torch.full((int(given.max()) + 1,), len(labels), device=labels.device)
    first.scatter_reduce_(0, labels, ranks, "amin")
    return first[first < len(labels)]
