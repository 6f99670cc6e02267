"""Algorithms that must coincide when one of them is told to do less."""

import pytest
import torch

from ulc.algorithms.cross_entropy import CrossEntropy
from ulc.algorithms.dividemix import DivideMix
from ulc.algorithms.ulc import ULC
from ulc.testing import KINDS, Case, toy_data

EPOCHS = 4  # one of warm-up, three after
SIZES = (50, 20, 12)
ALIKE = {
    "warmup_epochs": 1,
    "warmup_batch_size": 20,
    "batch_size": 12,
    "rampup_epochs": 2,
    "doubtful_weight": 5.0,
    "sgd": {"lr": 0.02, "milestones": (3,)},
}
NOTHING_MORE = {
    "per_class": False,
    "doubt_weight": 0.0,
    "logit_noise": "off",
    "dropout": 0.0,
    "refinement": "batch",
    "prior_weight": 1.0,
    "monotone": False,
    "warmup_entropy": 0.0,
}
SWITCHES = {
    "per_class": True,
    "doubt_weight": 0.1,
    "logit_noise": "local",
    "dropout": 0.3,
    "refinement": "epoch",
    "prior_weight": 0.0,
    "monotone": True,
    "warmup_entropy": 1.0,
}


def run(cls, kind, **options):
    return Case(cls, kind, ALIKE | options).trained(toy_data(kind, SIZES), EPOCHS)


def weights(algorithm):
    return [each.detach() for learner in algorithm.pair for each in learner.parameters()]


def buffers(algorithm):
    return [each for learner in algorithm.pair for each in learner.buffers()]


def distance(ulc, dividemix):
    """Largest difference of what the division is made of and what was learned."""
    beliefs = [(ulc.trust - dividemix.clean_probability).abs().max()]
    learned = [
        (mine - theirs).abs().max()
        for mine, theirs in zip(weights(ulc), weights(dividemix), strict=True)
    ]
    return float(torch.stack(beliefs + learned).max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "both",
    [
        {},
        {"warmup_entropy": 1.0, "prior_weight": 0.0},
        {"loss_history": 3, "threshold": 0.6, "temperature": 0.8, "mixup_alpha": 0.5},
    ],
    ids=["plain", "asymmetric", "90 percent"],
)
def test_ulc_with_every_switch_off_is_dividemix(kind, both):
    """Step for step under the same random draws: beliefs, weights and running statistics."""
    dividemix, records = run(DivideMix, kind, **both)
    ulc, others = run(ULC, kind, **(NOTHING_MORE | both))
    torch.testing.assert_close(ulc.trust, dividemix.clean_probability, rtol=0, atol=1e-5)
    for mine, theirs in zip(weights(ulc), weights(dividemix), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5)
    for mine, theirs in zip(buffers(ulc), buffers(dividemix), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)
    for record, other in zip(records, others, strict=True):
        assert {name: other[name] for name in record} == pytest.approx(record, abs=1e-4)
    assert 0.1 < records[-1]["trusted"] < 0.9, "both sides should have examples"


@pytest.mark.parametrize("switch", SWITCHES)
def test_each_switch_makes_a_difference(switch):
    """So that the test above can fail."""
    dividemix, _ = run(DivideMix, "vector")
    switched = NOTHING_MORE | {switch: SWITCHES[switch]}
    ulc, _ = run(ULC, "vector", **switched)
    if switch == "logit_noise":
        assert not torch.allclose(ulc.trust, dividemix.clean_probability, atol=1e-3)
    else:
        assert distance(ulc, dividemix) > 1e-3


def test_the_seed_makes_a_difference():
    case = Case(ULC, "vector", ALIKE | NOTHING_MORE)
    one, _ = case.trained(toy_data("vector", SIZES, seed=0), EPOCHS)
    other, _ = run(DivideMix, "vector")
    assert distance(one, other) < 1e-5
    reseeded, _ = case.trained(toy_data("vector", SIZES, seed=1), EPOCHS)
    assert distance(reseeded, other) > 1e-3


@pytest.mark.parametrize(("cls", "options"), [(DivideMix, {}), (ULC, NOTHING_MORE)])
@pytest.mark.parametrize("kind", KINDS)
def test_while_it_warms_up_the_first_network_learns_as_cross_entropy_does(cls, options, kind):
    """It is made first and trained first, so it has the same weights and the same draws."""
    long = {"warmup_epochs": 9, "warmup_batch_size": 20}
    warming, _ = run(cls, kind, **(options | long))
    case = Case(CrossEntropy, kind, {"batch_size": 20, "sgd": ALIKE["sgd"]})
    plain, _ = case.trained(toy_data(kind, SIZES), EPOCHS)
    first = [each.detach() for each in warming.pair[0].parameters()]
    for mine, theirs in zip(first, plain.learner.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs.detach(), rtol=0, atol=1e-5)
