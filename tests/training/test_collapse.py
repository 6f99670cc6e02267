"""Laws of the monitor that detects a collapse and chooses the epoch to keep."""

import numpy as np
import pytest
import torch

from ulc.data.held_out import HeldOutRows
from ulc.training.collapse import CollapseMonitor

NAMES = ("cat", "dog")


def monitor(rows=400, first=0, weights=None):
    given = torch.tensor([0, 1] * (rows // 2))
    held_out = HeldOutRows(np.arange(rows), torch.zeros(rows, 2), given, None, weights)
    return CollapseMonitor(held_out, NAMES, first)


def numbered(*records):
    return [record | {"epoch": epoch} for epoch, record in enumerate(records)]


def record(agreement=0.8, likelihood=-0.5, trusted=0.7, networks_agree=0.9, predicted=(0.5, 0.5)):
    held_out = {
        "agreement": agreement,
        "likelihood": likelihood,
        "trusted": trusted,
        "networks_agree": networks_agree,
        "predicted": list(predicted),
    }
    return {"held_out": held_out}


def test_the_last_epoch_within_a_standard_error_of_the_best_is_kept():
    error = monitor().standard_error(0.8)
    good, near, far = record(0.8), record(0.8 - 0.9 * error), record(0.8 - 1.1 * error)
    assert monitor().keeps(numbered(good))
    assert monitor().keeps(numbered(good, near))
    assert not monitor().keeps(numbered(good, far))
    assert monitor().keeps(numbered(far, good))


def test_warming_up_is_not_kept_however_good():
    best, fair, poor = record(0.9), record(0.8), record(0.7)
    warming = monitor(first=1)
    assert not warming.keeps(numbered(best))
    assert warming.keeps(numbered(best, poor))
    assert warming.keeps(numbered(best, poor, fair))
    assert not warming.keeps(numbered(best, fair, poor))


def test_every_sign_of_collapse_is_named_and_nothing_else():
    fine = record()
    assert monitor().signs(numbered(fine)) == []
    collapses = {
        "held-out labels": record(agreement=0.5),
        "of the labels are trusted": record(trusted=0.01),
        "the networks agree on 10 %": record(networks_agree=0.1),
        "class 'dog' is hardly predicted": record(predicted=(0.99, 0.01)),
    }
    for words, collapsed in collapses.items():
        (sign,) = monitor().signs(numbered(fine, collapsed))
        assert words in sign
        collapsed["held_out"]["signs"] = [sign]
        assert not monitor().keeps(numbered(fine, collapsed))


def test_an_epoch_with_signs_of_collapse_sets_no_bar():
    collapsed, sound = record(0.9), record(0.7)
    collapsed["held_out"]["signs"] = ["…"]
    assert monitor().keeps(numbered(collapsed, sound))


def test_an_algorithm_that_never_trusted_much_has_not_collapsed():
    assert monitor().signs(numbered(record(trusted=0.02), record(trusted=0.01))) == []


def test_a_rare_class_is_no_evidence_of_collapse():
    rare = record(predicted=(0.99, 0.01))
    assert monitor(rows=400).signs(numbered(rare, record(predicted=(1.0, 0.0)))) == []


def test_weighted_rows_count_as_their_effective_number():
    """Equal weights are no weights; 200 rows of weight 1 beside 200 of none are 200 rows."""
    halves = torch.tensor([1.0, 0.0]).repeat_interleave(200)
    assert monitor(weights=torch.full((400,), 3.0)).standard_error(0.8) == pytest.approx(
        monitor().standard_error(0.8)
    )
    assert monitor(weights=halves).standard_error(0.8) == monitor(rows=200).standard_error(0.8)
