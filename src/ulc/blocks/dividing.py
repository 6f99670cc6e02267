"""Divide the training set into labels to trust and labels to doubt."""

import torch
from torch import Tensor


def divide(clean: Tensor, given: Tensor, trusted: Tensor, fewest: int) -> Tensor:
    """(N,) mask of trusted labels, in which both sides have enough examples to train on.

    The label of each class with the highest clean probability becomes trusted. If a side then has
    fewer than `fewest` examples (or half of all), it gets the examples of the other side that are
    next by clean probability; the best label of a class is the last to become doubtful.

    clean: (N,) clean probabilities; given: (N,) given labels; trusted: (N,) mask to start from
    """
    order = clean.argsort(descending=True, stable=True)
    best = likeliest_of_each_class(order, given)
    changed = trusted | best
    fewest = min(fewest, len(clean) // 2)
    if int(changed.sum()) < fewest:
        changed[order[:fewest]] = True
    doubtful = len(changed) - int(changed.sum())
    if doubtful < fewest:
        ranked = order[changed[order]]
        last = torch.cat([ranked[best[ranked]], ranked[~best[ranked]]])
        changed[last[len(last) - (fewest - doubtful) :]] = False
    return changed


def likeliest_of_each_class(order: Tensor, given: Tensor) -> Tensor:
    """(N,) mask of the example of each class that comes first in `order`."""
    labels = given[order]
    ranks = torch.arange(len(labels), device=labels.device)
    first = torch.full((int(given.max()) + 1,), len(labels), device=labels.device)
    first.scatter_reduce_(0, labels, ranks, "amin")
    mask = torch.zeros(len(labels), dtype=torch.bool, device=labels.device)
    mask[order[first[first < len(labels)]]] = True
    return mask


def draw_folds(given: Tensor, first_copy: Tensor, folds: int) -> Tensor:
    """(N,) random fold of each example; each class is divided evenly, copies are in one fold.

    first_copy: (N,) position of the first example with the same inputs
    """
    order = torch.randperm(len(given), device=given.device)
    order = order[given[order].argsort(stable=True)]
    fold = torch.empty_like(order)
    fold[order] = torch.arange(len(given), device=given.device) % folds
    return fold[first_copy]
