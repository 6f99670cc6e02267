"""Laws of the watch that sees a training collapse."""

import torch

from ulc.auditing.audit import likeliest_epoch
from ulc.training.collapse import CollapseMonitor
from ulc.training.held_out import HeldOut

NAMES = ("cat", "dog")


def watch(rows=400):
    given = torch.tensor([0, 1] * (rows // 2))
    return CollapseMonitor(HeldOut(torch.zeros(rows, 2), given, None), NAMES)


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
    error = watch().error(0.8)
    good, near, far = record(0.8), record(0.8 - 0.9 * error), record(0.8 - 1.1 * error)
    assert watch().keeps([good])
    assert watch().keeps([good, near])
    assert not watch().keeps([good, far])
    assert watch().keeps([far, good])


def test_warming_up_is_not_kept_however_good():
    best, fair, poor = record(0.9), record(0.8), record(0.7)
    warming = CollapseMonitor(watch().held_out, NAMES, first=1)
    assert not warming.keeps([best])
    assert warming.keeps([best, poor])
    assert warming.keeps([best, poor, fair])
    assert not warming.keeps([best, fair, poor])


def test_the_likeliest_epoch_is_the_first_of_the_best():
    records = [record(likelihood=value) | {"epoch": n} for n, value in enumerate((-3, -1, -1, -2))]
    assert likeliest_epoch(records) == 1


def test_every_sign_of_collapse_is_named_and_nothing_else():
    fine = record()
    assert watch().signs([fine]) == []
    collapses = {
        "held-out labels": record(agreement=0.5),
        "of the labels are trusted": record(trusted=0.01),
        "the networks agree on 10 %": record(networks_agree=0.1),
        "class 'dog' is hardly predicted": record(predicted=(0.99, 0.01)),
    }
    for words, collapsed in collapses.items():
        (sign,) = watch().signs([fine, collapsed])
        assert words in sign
        collapsed["held_out"]["signs"] = [sign]
        assert not watch().keeps([fine, collapsed])


def test_an_epoch_with_signs_of_collapse_sets_no_bar():
    collapsed, sound = record(0.9), record(0.7)
    collapsed["held_out"]["signs"] = ["…"]
    assert watch().keeps([collapsed, sound])


def test_who_never_trusted_much_has_not_collapsed():
    assert watch().signs([record(trusted=0.02), record(trusted=0.01)]) == []


def test_a_class_too_rare_to_tell_is_not_mourned():
    rare = record(predicted=(0.99, 0.01))
    assert watch(rows=400).signs([rare, record(predicted=(1.0, 0.0))]) == []
