"""Epochs on a part of the data: balanced draws, and what is assumed of examples not seen."""

import numpy as np
import pytest
import torch

from ulc.algorithms import ALGORITHMS, configure
from ulc.blocks.pseudo_epochs import draw_rows, fill_unseen
from ulc.errors import InputError
from ulc.testing import Case, toy_data


def drawn(sizes, count):
    data = toy_data("vector", sizes)
    rows = draw_rows(data, count)
    return rows, torch.bincount(data.given[rows], minlength=len(sizes)).tolist()


def test_without_a_number_all_examples_are_drawn_without_random_numbers():
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    rows, _ = drawn((30, 20, 10), None)
    assert torch.equal(rows, torch.arange(60))
    assert torch.equal(before, torch.random.get_rng_state())


def test_each_class_has_its_even_share_or_all_that_it_has():
    rows, sizes = drawn((300, 200, 5), 60)
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert sizes[:2] == [20, 20]
    assert sizes[2] <= 20


def test_never_more_than_asked_for():
    rows, sizes = drawn((300, 200, 100), 100)
    assert len(rows) == 100
    assert max(sizes) - min(sizes) <= 2


def test_each_draw_is_another_one():
    data = toy_data("vector", (300, 200, 100))
    first, second = draw_rows(data, 60), draw_rows(data, 60)
    assert not torch.equal(first, second)


def test_an_example_not_seen_has_the_mean_of_its_class():
    nan = torch.nan
    predictions = torch.tensor([[0.9, 0.1], [0.5, 0.5], [nan, nan], [nan, nan]])
    given = torch.tensor([0, 0, 0, 1])
    filled = fill_unseen(predictions, given, 2)
    expected = torch.tensor([[0.9, 0.1], [0.5, 0.5], [0.7, 0.3], [0.0, 1.0]])
    assert torch.allclose(filled, expected)


PARTS = {
    "ce": {"epoch_examples": 30},
    "elr_plus": {"epoch_examples": 30},
    "dividemix": {"epoch_examples": 30, "warmup_examples": 30, "warmup_epochs": 1},
    "ulc": {"epoch_examples": 30, "warmup_examples": 30, "warmup_epochs": 1},
}


class Counting:
    """Training data that count how many examples a pass reads."""

    def __init__(self, data):
        self.data = data
        self.read, self.rows = [], []

    def __getattr__(self, name):
        return getattr(self.data, name)

    def __len__(self):
        return len(self.data)

    def batches(self, *arguments, **options):
        self.read.append(len(options["among"]))
        self.rows.append(options["among"])
        return self.data.batches(*arguments, **options)

    def in_order(self, *arguments, **options):
        self.read.append(len(options["among"]))
        self.rows.append(options["among"])
        return self.data.in_order(*arguments, **options)


@pytest.mark.parametrize("name", PARTS)
def test_no_pass_of_an_algorithm_reads_more_than_its_part(name):
    data = Counting(toy_data("vector", (60, 40, 40)))
    case = Case(ALGORITHMS[name], "vector", PARTS[name] | {"batch_size": 8})
    algorithm = case.build(data)
    for epoch in range(3):
        algorithm.run_epoch(epoch)
        judgement = algorithm.judge()
        judgement.check_shapes(140, 3)
        assert ((judgement.clean_probability >= 0) & (judgement.clean_probability <= 1)).all()
        seen = torch.cat(data.rows).unique().numpy()
        assert np.isin(np.flatnonzero(judgement.issues(algorithm.threshold)), seen).all()
    assert data.read
    assert max(data.read) <= 30


def test_ulc_and_dividemix_keep_what_they_last_saw_of_an_example():
    for name in ("ulc", "dividemix"):
        case = Case(ALGORITHMS[name], "vector", PARTS[name] | {"batch_size": 8})
        algorithm = case.build(toy_data("vector", (60, 40, 40)))
        for epoch in range(2):
            algorithm.run_epoch(epoch)
        trust = algorithm.trust if name == "ulc" else algorithm.clean_probability
        before = trust.clone()
        algorithm.run_epoch(2)
        after = algorithm.trust if name == "ulc" else algorithm.clean_probability
        seen_before, seen_after = ~before.isnan(), ~after.isnan()
        assert (seen_after | ~seen_before).all()
        assert seen_after.sum() > seen_before.sum()
        kept = seen_before & (before == after)
        assert kept.any(), name


@pytest.mark.parametrize("option", [{"loss_history": 5}, {"class_guard": "anchored"}])
def test_options_that_need_all_examples_are_refused(option):
    with pytest.raises(InputError, match="needs all examples"):
        configure("ulc", {"epoch_examples": 100} | option)
