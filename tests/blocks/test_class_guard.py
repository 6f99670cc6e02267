"""The guard of classes that would die out."""

import pytest
import torch

from ulc.blocks.class_guard import ClassGuard
from ulc.blocks.uncertainty import IntegratedPredictions
from ulc.testing import toy_data

SIZES = (60, 20, 20)


def predictions(rare, given):
    """Predictions that follow the given labels, except that class 2 has only the share `rare`."""
    probability = 0.6 * torch.nn.functional.one_hot(given, 3) + 0.4 / 3
    probability[:, 2] *= rare
    probability /= probability.sum(1, keepdim=True)
    return IntegratedPredictions(probability.log(), torch.zeros(len(given)), None)


def protected(rare):
    data = toy_data("vector", SIZES)
    guard = ClassGuard(data)
    cleans = [torch.full((100,), 0.1) for _ in range(2)]
    guard.observe([predictions(rare, data.given)] * 2)
    record = guard.protect(cleans)
    return guard, data.given, cleans, record


def test_a_class_that_is_hardly_predicted_dies_and_its_labels_are_judged_otherwise():
    _, given, cleans, record = protected(0.02)
    assert record == {"dying_classes": 1.0}
    for clean in cleans:
        assert (clean[given == 2] > 0.1).any()
        assert (clean[given != 2] == 0.1).all()


def test_where_no_class_dies_nothing_changes():
    _, _, cleans, record = protected(1.0)
    assert record == {"dying_classes": 0.0}
    assert all((clean == 0.1).all() for clean in cleans)


def test_a_clean_probability_is_never_lowered():
    data = toy_data("vector", SIZES)
    cleans = [torch.ones(100) for _ in range(2)]
    guard = ClassGuard(data)
    guard.observe([predictions(0.02, data.given)] * 2)
    guard.protect(cleans)
    assert all((clean == 1).all() for clean in cleans)


def test_guesses_are_multiplied_by_the_alignment():
    """(.5, .3, .2) · (1, 1, 5) = (.5, .3, 1), normalised by 1.8."""
    guard = ClassGuard(toy_data("vector", SIZES))
    guard.alignment.copy_(torch.tensor([1.0, 1.0, 5.0]))
    found = guard.align(torch.tensor([[0.5, 0.3, 0.2]]))
    torch.testing.assert_close(found, torch.tensor([[0.5, 0.3, 1.0]]) / 1.8)


def test_rare_predictions_raise_guesses_of_their_class():
    guard, *_ = protected(0.02)
    assert guard.alignment[2] > 2
    assert (guard.alignment[:2] < 2).all()
    assert guard.alignment.max() <= 10


def certain(labels, classes):
    """Predictions that are sure of these labels."""
    probability = 0.9 * torch.nn.functional.one_hot(labels, classes) + 0.1 / classes
    return IntegratedPredictions(probability.log(), torch.zeros(len(labels)), None)


def test_it_waits_while_more_than_a_quarter_of_the_classes_is_unknown():
    """Two of six classes are never the likeliest one: a third is unknown to both, or a sixth."""
    data = toy_data("vector", (20,) * 6)
    known, rare = certain(data.given, 6), certain(data.given.clamp(max=3), 6)
    guard = ClassGuard(data)
    assert guard.observe([rare, rare]) == pytest.approx(1 / 3)
    assert guard.waits
    assert guard.observe([rare, known]) == pytest.approx(1 / 6)
    assert not guard.waits
    assert guard.observe([known, known]) == 0
    assert not guard.waits


def test_it_does_not_wait_for_a_single_class():
    """One of three classes is a third, but a class that dies out is what the guard is for."""
    data = toy_data("vector", SIZES)
    rare = predictions(0.02, data.given)
    guard = ClassGuard(data)
    assert guard.observe([rare, rare]) == pytest.approx(1 / 3)
    assert not guard.waits
