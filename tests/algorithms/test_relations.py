"""Algorithms that must be equal when parts of one of them are switched off."""

import copy

import pytest
import torch

from ulc.algorithms.coteaching_plus import CoTeachingPlus
from ulc.algorithms.cross_entropy import CrossEntropy
from ulc.algorithms.dividemix import DivideMix
from ulc.algorithms.elr_plus import ElrPlus
from ulc.algorithms.m_correction import MCorrection
from ulc.algorithms.meta_learning import MetaLearning
from ulc.algorithms.pencil import Pencil
from ulc.algorithms.ulc import ULC
from ulc.blocks.learner import Learner
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
    """Largest difference of clean probabilities, weights and running statistics."""
    clean = [(ulc.trust - dividemix.clean_probability).abs().max()]
    learned = [
        (mine - theirs).abs().max()
        for mine, theirs in zip(weights(ulc), weights(dividemix), strict=True)
    ]
    return float(torch.stack(clean + learned).max())


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
    """Equal at every step with the same random draws: clean probabilities, weights, statistics."""
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
    """Shows that the test above can fail."""
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


SCHEDULE = {"lr": 0.02, "momentum": 0.9, "weight_decay": 5e-4, "milestones": (2,)}
PLAIN = {"batch_size": 20, "sgd": SCHEDULE}


def plainly(kind, **options):
    """Cross entropy on the toys."""
    return Case(CrossEntropy, kind, PLAIN | options).trained(toy_data(kind, SIZES), EPOCHS)


def assert_same_state(mine, theirs):
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(mine.state_dict()[name], value, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_pencil_in_stage_one_is_cross_entropy(kind):
    options = PLAIN | {"backbone_epochs": 9}
    pencil, records = Case(Pencil, kind, options).trained(toy_data(kind, SIZES), EPOCHS)
    plain, expected = plainly(kind)
    assert records == expected
    assert_same_state(pencil.learner.network, plain.learner.network)


@pytest.mark.parametrize("kind", KINDS)
def test_elr_plus_without_penalty_and_mixup_is_two_cross_entropies(kind):
    """The first network learns as cross entropy does, and both as DivideMix's do in warm-up."""
    options = PLAIN | {"penalty": 0.0, "mixup_alpha": 0.0}
    elr, _ = Case(ElrPlus, kind, options).trained(toy_data(kind, SIZES), EPOCHS)
    plain, _ = plainly(kind)
    assert_same_state(elr.pair[0].network, plain.learner.network)
    warming = {"warmup_epochs": 9, "warmup_batch_size": 20, "sgd": SCHEDULE}
    two, _ = Case(DivideMix, kind, warming).trained(toy_data(kind, SIZES), EPOCHS)
    for mine, theirs in zip(elr.pair, two.pair, strict=True):
        assert_same_state(mine.network, theirs.network)


@pytest.mark.parametrize("option", [{"penalty": 3.0}, {"mixup_alpha": 1.0}])
def test_elr_plus_with_either_is_not(option):
    options = PLAIN | {"penalty": 0.0, "mixup_alpha": 0.0} | option
    elr, _ = Case(ElrPlus, "vector", options).trained(toy_data("vector", SIZES), EPOCHS)
    plain, _ = plainly("vector")
    head, expected = elr.pair[0].network.head.weight, plain.learner.network.head.weight
    assert not torch.allclose(head, expected, atol=1e-3)


def coteaching(kind, **options):
    options = {"batch_size": 20, "forget_rate": 0.0, "agree_epochs": 9} | options
    return Case(CoTeachingPlus, kind, options).trained(toy_data(kind, SIZES), EPOCHS)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_coteaching_plus_without_forgetting_and_disagreement_is_two_cross_entropies(kind):
    """Of the two networks' own initial weights, on the same batches, by Adam."""
    taught = coteaching(kind)
    case = Case(CoTeachingPlus, kind, {"batch_size": 20})
    for side in range(2):
        plain = Case(CrossEntropy, kind, {"batch_size": 20}).build(toy_data(kind, SIZES))
        start = case.build(toy_data(kind, SIZES)).pair[side]
        plain.learner = Learner(copy.deepcopy(start.network), start.descent)
        for epoch in range(EPOCHS):
            plain.run_epoch(epoch)
        assert_same_state(taught.pair[side].network, plain.learner.network)


@pytest.mark.parametrize("option", [{"forget_rate": 0.3, "gradual_epochs": 0}, {"agree_epochs": 0}])
def test_coteaching_plus_with_either_is_not(option):
    plain, other = coteaching("vector"), coteaching("vector", **option)
    head, expected = other.pair[0].network.head.weight, plain.pair[0].network.head.weight
    assert not torch.allclose(head, expected, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_m_correction_warming_up_without_mixup_is_cross_entropy(kind):
    options = PLAIN | {"warmup_epochs": 9, "mixup_alpha": 0.0}
    corrected, _ = Case(MCorrection, kind, options).trained(toy_data(kind, SIZES), EPOCHS)
    plain, _ = plainly(kind)
    assert_same_state(corrected.learner.network, plain.learner.network)


@pytest.mark.parametrize("kind", KINDS)
def test_meta_learning_before_the_meta_part_is_cross_entropy(kind):
    """Also the guide, which is made first."""
    options = PLAIN | {"pretrain_epochs": 9, "guide_sgd": SCHEDULE}
    guided, records = Case(MetaLearning, kind, options).trained(toy_data(kind, SIZES), EPOCHS)
    plain, expected = plainly(kind)
    assert records == expected
    assert_same_state(guided.guide.network, plain.learner.network)
    options = PLAIN | {"pretrain_epochs": 0, "meta_weight": 0.0}
    alone = Case(MetaLearning, kind, options).build(toy_data(kind, SIZES))
    plain = Case(CrossEntropy, kind, PLAIN).build(toy_data(kind, SIZES))
    plain.learner.network.load_state_dict(alone.student.network.state_dict())
    for epoch in range(EPOCHS):
        alone.run_epoch(epoch)
        plain.run_epoch(epoch)
    assert_same_state(alone.student.network, plain.learner.network)
