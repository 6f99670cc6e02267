"""Co-teaching+, rule by rule (Yu et al., ICML 2019)."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from stubs import Believes, catch_losses, spy_on_batches

from ulc.algorithms import coteaching_plus as module
from ulc.algorithms.coteaching_plus import (
    CoTeachingPlus,
    exchange_small_losses,
    find_disagreement,
    rank_to_probability,
)
from ulc.testing import Case, toy_data


def build(**options):
    return Case(CoTeachingPlus, "vector", options).build(toy_data("vector"))


def test_each_learns_from_the_small_losses_of_its_peer():
    """Half of four: the first network's smallest are 3 and 1, the second's 0 and 2."""
    losses = [torch.tensor([4.0, 2.0, 3.0, 1.0]), torch.tensor([0.0, 9.0, 5.0, 7.0])]
    for_first, for_second = exchange_small_losses(losses, torch.arange(4), 0.5)
    assert for_first.tolist() == [0, 2]
    assert for_second.tolist() == [3, 1]


def test_inside_the_disagreement_only():
    """Of the positions 1, 2, 4 two thirds are kept: the first has 4 and 1, the second 2 and 4."""
    losses = [torch.tensor([0.0, 2.0, 3.0, 0.0, 1.0]), torch.tensor([0.0, 6.0, 4.0, 0.0, 5.0])]
    for_first, for_second = exchange_small_losses(losses, torch.tensor([1, 2, 4]), 0.67)
    assert for_first.tolist() == [2, 4]
    assert for_second.tolist() == [4, 1]


@pytest.mark.parametrize(("among", "share"), [([], 1.0), ([2], 0.5), ([0, 1], 0.4)])
def test_where_nothing_would_be_left_the_whole_batch_is_learned(among, share):
    losses = [torch.rand(3), torch.rand(3)]
    for_first, for_second = exchange_small_losses(
        losses, torch.tensor(among, dtype=torch.int64), share
    )
    assert for_first.tolist() == for_second.tolist() == [0, 1, 2]


def test_a_share_that_is_one_example_but_for_rounding_keeps_it():
    """(1 − 0.9)·10 is a little less than one in floats."""
    losses = [torch.arange(10.0), torch.arange(10.0).flip(0)]
    for_first, for_second = exchange_small_losses(losses, torch.arange(10), 1 - 0.9)
    assert (for_first.tolist(), for_second.tolist()) == ([9], [0])


def test_on_clean_data_little_is_forgotten():
    """A mixture always splits; if one Gaussian has a BIC as low, the estimated rate is 0."""
    algorithm = build()
    torch.manual_seed(0)
    one_kind = torch.randn(61).mul(0.1).add(1)
    algorithm.pair[0].forward = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "example_losses", lambda *_: one_kind)
        assert algorithm.estimate_noise_rate() == 0


def test_they_disagree_where_they_favour_different_classes():
    first = torch.tensor([[2.0, 1.0], [0.0, 1.0], [3.0, 0.0]])
    second = torch.tensor([[9.0, 8.0], [5.0, 1.0], [1.0, 2.0]])
    assert find_disagreement([first, second]).tolist() == [1, 2]


@pytest.mark.parametrize("epoch", [0, 1, 4, 9])
def test_a_step_by_hand(monkeypatch, epoch):
    """The forgotten share grows to 0.4 over four epochs; from epoch 5 on only disagreement.

    The loss is the mean cross entropy of logits over what the peer kept.
    """
    algorithm = build(forget_rate=0.4, gradual_epochs=4, agree_epochs=5, batch_size=61)
    logits = []
    for learner in algorithm.pair:
        learner.register_forward_hook(lambda *hook: logits.append(hook[2].logits.detach()))
    losses = catch_losses(monkeypatch, algorithm.pair)
    batches = spy_on_batches(monkeypatch, algorithm.data)
    record = algorithm.run_epoch(epoch)
    forget = 0.4 * min(epoch / 4, 1)
    assert record["forget_rate"] == pytest.approx(forget)
    (batch,) = batches
    among = torch.arange(61)
    if epoch >= 5:
        among = (logits[0].argmax(1) != logits[1].argmax(1)).nonzero().squeeze(1)
        assert 1 < len(among) < 61
    count = int((1 - forget) * len(among))
    each = [F.cross_entropy(values, batch.given, reduction="none") for values in logits]
    kept = [among[values[among].sort().indices[:count]] for values in each]
    assert float(losses[0]) == pytest.approx(float(each[0][kept[1]].mean()), rel=1e-5)
    assert float(losses[1]) == pytest.approx(float(each[1][kept[0]].mean()), rel=1e-5)
    assert record["used"] == pytest.approx(count / 61)


def test_both_networks_see_the_same_views(monkeypatch):
    algorithm, seen = build(batch_size=61), []
    for learner in algorithm.pair:
        learner.register_forward_hook(lambda *hook: seen.append(hook[1][0]))
    algorithm.run_epoch(0)
    assert torch.equal(seen[0], seen[1])


def test_the_forget_rate_is_estimated_while_it_grows_and_then_stays():
    """1 − mean clean probability: .3 for .6 and .8; epoch 1 of 2 drops half of it."""
    algorithm = build(gradual_epochs=2)
    six, eight = torch.full((61,), 0.6), torch.full((61,), 0.8)
    algorithm.loss_mixture = Believes(six, eight, eight, eight)
    rates = [algorithm.run_epoch(epoch)["forget_rate"] for epoch in range(5)]
    assert rates == pytest.approx([0.0, 0.15, 0.2, 0.2, 0.2], abs=1e-6)


def test_a_given_forget_rate_is_not_estimated(monkeypatch):
    def never(*_):
        raise AssertionError("it estimates")

    monkeypatch.setattr(module, "example_losses", never)
    algorithm = build(forget_rate=0.25, gradual_epochs=1)
    assert [algorithm.run_epoch(epoch)["forget_rate"] for epoch in (0, 1)] == [0.0, 0.25]


def test_ranks_by_hand():
    """Four labels, a quarter forgotten: ranks 1/8, 3/8, 5/8 of ¾ are kept, the last is not.

    1 − (1/8)/(3/2) = 11/12, then 9/12 and 7/12; the last (1 − 7/8)/(1/2) = 1/4.
    """
    clean = rank_to_probability(np.array([0.2, 0.9, 0.6, 0.4]), 0.25)
    np.testing.assert_allclose(clean, [1 / 4, 11 / 12, 9 / 12, 7 / 12], rtol=1e-6)


def test_nothing_forgotten_nothing_doubted():
    clean = rank_to_probability(np.linspace(0, 1, 7), 0.0)
    assert (clean > 0.5).all()
    assert (np.diff(clean) > 0).all()


def test_the_judgement_doubts_as_many_labels_as_are_forgotten():
    algorithm = build(forget_rate=0.3, gradual_epochs=1)
    for epoch in range(3):
        algorithm.run_epoch(epoch)
    doubted = algorithm.judge().clean_probability < 0.5
    assert doubted.sum() == pytest.approx(0.3 * 61, abs=1)


def test_the_defaults_are_the_authors():
    """CIFAR-10; Adam's rate falls from epoch 80 to 200 and its momentum to 0.1."""
    config = CoTeachingPlus.config_class()
    assert (config.gradual_epochs, config.agree_epochs, config.batch_size) == (10, 20, 128)
    assert config.adam.settings(79) == {"lr": 1e-3, "betas": (0.9, 0.999)}
    late = config.adam.settings(140)
    assert late["lr"] == pytest.approx(5e-4)
    assert late["betas"] == (0.1, 0.999)
