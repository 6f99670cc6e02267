"""ULC+: who judges and who learns which label, weights, balanced learning."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from stubs import catch_losses

from ulc.algorithms.ulc_plus import ULCPlus
from ulc.blocks.noise_priors import priors_of_networks
from ulc.testing import Case, toy_data

K = 3


class Watched:
    """Training data that note which rows each pass over them has."""

    def __init__(self, data):
        self.data = data
        self.passes = []

    def __getattr__(self, name):
        return getattr(self.data, name)

    def __len__(self):
        return len(self.data)

    def batches(self, size, **options):
        self.passes.append(options["among"])
        return self.data.batches(size, **options)


def build(data=None, **options):
    quick = {"warmup_epochs": 1, "cross_epochs": 2, "batch_size": 16, "passes": 2}
    return Case(ULCPlus, "vector", quick | options).build(data or toy_data("vector"))


def learned_rows(algorithm, epoch):
    """For each network, a mask of the rows that it learns in this epoch."""
    data = algorithm.data
    algorithm.data = Watched(data)
    algorithm.run_epoch(epoch)
    masks = []
    for among in algorithm.data.passes:
        mask = torch.zeros(len(data), dtype=torch.bool)
        mask[among] = True
        masks.append(mask)
    algorithm.data = data
    return masks


@pytest.mark.parametrize("folds", [2, 3])
def test_a_network_does_not_learn_the_labels_that_it_judges(folds):
    algorithm = build(folds=folds)
    for epoch in (0, 1):
        masks = learned_rows(algorithm, epoch)
        assert len(masks) == folds
        for number, mask in enumerate(masks):
            own = algorithm.fold == number
            assert not (mask & own).any()
            assert mask.any()
    first = build(folds=folds)
    for number, mask in enumerate(learned_rows(first, 0)):
        assert torch.equal(mask, first.fold != number)  # in warm-up all others


def test_each_label_is_judged_by_the_network_of_its_fold(monkeypatch):
    """The first network says (.7, .2, .1), the second (.1, .1, .8)."""
    algorithm = build()
    said = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]).log()
    answers = {id(each): row for each, row in zip(algorithm.members, said, strict=True)}
    monkeypatch.setattr(
        algorithm,
        "predict_training_set",
        lambda each: [(torch.arange(61), answers[id(each)].expand(61, K))],
    )
    algorithm.update_trust()
    torch.testing.assert_close(algorithm.log_prediction, said[algorithm.fold])
    judgement = algorithm.judge()
    assert judgement.score_kind == "posterior"
    expected = judgement.posterior[np.arange(61), judgement.given]
    np.testing.assert_array_equal(judgement.clean_probability, expected)


def test_without_cross_fitting_all_networks_judge_and_learn_all_labels(monkeypatch):
    algorithm = build(cross_fitted=False)
    assert all(mask.all() for mask in learned_rows(algorithm, 0))
    said = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]).log()
    answers = {id(each): row for each, row in zip(algorithm.members, said, strict=True)}
    monkeypatch.setattr(
        algorithm,
        "predict_training_set",
        lambda each: [(torch.arange(61), answers[id(each)].expand(61, K))],
    )
    algorithm.update_trust()
    mean = torch.tensor([0.4, 0.15, 0.45]).log().expand(61, K)
    torch.testing.assert_close(algorithm.log_prediction, mean)


def test_later_trust_is_frozen_and_every_network_learns_all_weighted_labels():
    algorithm = build()
    for epoch in (0, 1):
        algorithm.run_epoch(epoch)
    trust = algorithm.trust.clone()
    masks = learned_rows(algorithm, 2)
    assert torch.equal(algorithm.trust, trust)
    used = algorithm.weights() > 0
    assert all(torch.equal(mask, used) for mask in masks)


def test_without_epochs_of_trust_before_labels_are_judged_once():
    """Warm-up lasts as long as cross-fitting: the first epoch after it judges."""
    algorithm = build(warmup_epochs=2, cross_epochs=2)
    for epoch in (0, 1):
        algorithm.run_epoch(epoch)
        assert not algorithm.has_judged
    algorithm.run_epoch(2)
    assert algorithm.has_judged


def test_weights_are_the_trust_and_the_best_label_of_each_class_has_one():
    """smallest_weight .05: below it a weight is 0, but for the best label of class 1."""
    algorithm = build(toy_data("vector", (4, 2, 2)))
    given = algorithm.data.given
    trust = torch.tensor([0.9, 0.04, 0.3, 0.01, 0.02, 0.04, 0.8, 0.05])
    order = torch.cat([(given == k).nonzero().squeeze(1) for k in range(K)])
    algorithm.trust[order] = trust
    weight = algorithm.weights()[order]
    torch.testing.assert_close(weight, torch.tensor([0.9, 0, 0.3, 0, 0, 0.04, 0.8, 0.05]))
    expected = torch.tensor([1.2, 0.04, 0.85])
    torch.testing.assert_close(algorithm.learned, expected / expected.sum())


def test_unweighted_labels_count_from_the_threshold_on():
    algorithm = build(toy_data("vector", (4, 2, 2)), weighted=False)
    algorithm.trust[:] = torch.tensor([0.9, 0.4, 0.5, 0.6, 0.2, 0.1, 0.7, 0.3])
    weight = algorithm.weights()
    assert set(weight.tolist()) == {0.0, 1.0}
    assert (weight[algorithm.trust >= 0.5] == 1).all()


def test_the_loss_of_a_step_by_hand(monkeypatch):
    """Σ w/w̄ · CE(logits + log π, given) / B, without mixup, for one batch of all rows."""
    algorithm = build(
        toy_data("vector", (8, 4, 2)), mixup_alpha=0.0, dropout=0.0, cross_fitted=False
    )
    algorithm.trust[:] = torch.linspace(0.2, 0.9, 14)
    algorithm.log_prediction[:] = -math.log(K)
    outputs = []
    for learner in algorithm.members:
        learner.network.register_forward_hook(
            lambda _network, _inputs, output: outputs.append(output.logits)
        )
    losses = catch_losses(monkeypatch, algorithm.members)
    data = algorithm.data
    indices = []
    batches = data.batches

    def noting(*arguments, **options):
        for batch in batches(*arguments, **options):
            indices.append(batch.index)
            yield batch

    watched = Watched(data)
    watched.batches = noting
    algorithm.data = watched
    algorithm.run_epoch(5)
    weight, prior = algorithm.weights(), algorithm.log_prior()
    for loss, logits, index in zip(losses, outputs, indices, strict=True):
        given = data.given[index]
        log_p = (logits.detach() + prior).log_softmax(1)[torch.arange(14), given]
        expected = -(weight[index] / weight.mean() * log_p).mean()
        assert float(loss) == pytest.approx(float(expected), rel=1e-5)


def test_learned_through_log_frequencies_predictions_are_for_equal_ones():
    algorithm = build()
    algorithm.run_epoch(0)
    given = algorithm.data.given
    shares = torch.bincount(given, minlength=K) / len(given)
    torch.testing.assert_close(algorithm.log_prior().exp(), shares)
    np.testing.assert_allclose(algorithm.learned_prior(algorithm.judge()), 1 / K)
    free = build(balanced=False)
    free.run_epoch(0)
    assert (free.log_prior() == 0).all()
    np.testing.assert_allclose(free.learned_prior(free.judge()), shares, rtol=1e-5)


def test_what_the_confusion_model_finds_is_recorded_and_handed_over():
    algorithm = build()
    algorithm.run_epoch(0)
    record = algorithm.run_epoch(1)
    assert {"trusted", "temperature", "correct", "least_correct", "rarest"} < set(record)
    outputs = algorithm.outputs()
    np.testing.assert_allclose(outputs["transition"].sum(1), 1, rtol=1e-5)
    assert outputs["class_frequency"].shape == (K,)
    assert set(outputs["fold"]) == {0, 1}


def test_without_row_noise_there_is_one_confusion_matrix_for_all_rows():
    fitted = [build(row_noise=row_noise) for row_noise in (True, False)]
    for algorithm in fitted:
        algorithm.run_epoch(0)
        algorithm.run_epoch(1)
    by_row, one_matrix = ([float(each.confusion.slope), float(each.confusion.affinity)]
                          for each in fitted)  # fmt: skip
    assert all(by_row)
    assert one_matrix == [0, 0]


@pytest.mark.parametrize(("classes", "has_affinity"), [(50, True), (51, False)])
def test_noise_of_many_classes_has_no_affinity(classes, has_affinity):
    priors = priors_of_networks(classes, row_noise=True)
    assert (priors.affinity is not None) is has_affinity
    assert priors.slope is not None


def test_the_temperature_is_at_least_a_half():
    """Even if all labels are the likeliest classes."""
    algorithm = build()
    logs = torch.eye(K)[algorithm.data.given].mul(2).log_softmax(1)
    algorithm.confusion.update(logs, algorithm.data.given, None)
    assert float(algorithm.confusion.inverse_temperature) == pytest.approx(2)


def test_a_class_that_one_fold_has_alone_is_not_doubted():
    """No network that could judge it knows the class."""
    data = toy_data("vector")
    given = data.given.clamp(max=K - 2)
    given[5] = K - 1
    algorithm = build(replace(data, given=given))
    algorithm.update_trust()
    assert algorithm.certain_labels().nonzero().tolist() == [[5]]
    assert algorithm.trust[5] == 1
    assert build(replace(data, given=given), cross_fitted=False).certain_labels() is None


@pytest.mark.parametrize(
    ("trust", "alpha"), [(1.0, 0.0), (0.9, 0.2), (0.75, 0.5), (0.5, 1.0), (0.1, 1.0)]
)
def test_mixup_is_stronger_the_more_labels_are_wrong(trust, alpha):
    algorithm = build(mixup_alpha=1.0)
    assert algorithm.alpha() == 1.0  # nothing is judged yet
    algorithm.trust.fill_(trust)
    assert algorithm.alpha() == pytest.approx(alpha)


def with_gap(algorithm, monkeypatch, gap):
    """Networks that predict labels of other folds better than their own by `gap` nats."""

    def log_likelihood(learner, rows):
        number = list(algorithm.members).index(learner)
        return torch.where(algorithm.fold[rows] == number, -1.0 - gap, -1.0)

    monkeypatch.setattr(algorithm, "log_likelihood", log_likelihood)


def test_networks_that_memorise_nothing_learn_all_labels_but_those_watched(monkeypatch):
    algorithm = build(cross_epochs=3)
    with_gap(algorithm, monkeypatch, 0.01)
    algorithm.run_epoch(0)
    assert algorithm.memorising
    watched = algorithm.watched()
    assert 0 < int(watched.sum()) < 61 / 4
    for number, mask in enumerate(learned_rows(algorithm, 1)):
        own = algorithm.fold == number
        assert not (mask & own & watched).any()
    assert not algorithm.memorising
    assert algorithm.alpha() == 0
    assert not algorithm.judges_apart


def test_networks_that_memorise_share_no_label(monkeypatch):
    algorithm = build(cross_epochs=3)
    with_gap(algorithm, monkeypatch, 0.03)
    algorithm.run_epoch(0)
    for number, mask in enumerate(learned_rows(algorithm, 1)):
        assert not (mask & (algorithm.fold == number)).any()
    assert algorithm.memorising
    assert algorithm.judges_apart


@pytest.mark.parametrize(("gap", "again"), [(0.03, False), (0.09, False), (0.11, True)])
def test_they_stop_to_share_labels_at_five_times_the_allowed_gap(monkeypatch, gap, again):
    algorithm = build()
    algorithm.memorising.fill_(False)
    with_gap(algorithm, monkeypatch, gap)
    record = algorithm.notice_memorising()
    assert record["gap"] == pytest.approx(gap, abs=1e-6)
    assert record["memorising"] == again
    assert bool(algorithm.memorising) == again


def test_without_a_watch_nothing_is_compared(monkeypatch):
    for options in ({"allowed_gap": 0.0}, {"cross_fitted": False}):
        algorithm = build(**options)
        with_gap(algorithm, monkeypatch, 0.0)
        assert algorithm.notice_memorising() == {}
        assert algorithm.memorising


def test_the_watch_draws_no_random_numbers():
    """While networks memorise, a training is the same with the watch and without it."""
    states = []
    for allowed in (0.0, 1e-9):
        algorithm = build(allowed_gap=allowed, cross_epochs=3)
        for epoch in range(4):
            algorithm.run_epoch(epoch)
        states.append(algorithm.members[0].network.state_dict())
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name]), name


def test_networks_that_memorise_nothing_learn_and_predict_without_dropout(monkeypatch):
    """With a dropout of 0.9, two passes of the same network would differ."""
    algorithm = build(cross_epochs=3, dropout=0.9)
    with_gap(algorithm, monkeypatch, 0.0)
    algorithm.run_epoch(0)
    algorithm.run_epoch(1)
    (index, first), *_ = list(algorithm.predict_training_set(algorithm.members[0]))
    (_, second), *_ = list(algorithm.predict_training_set(algorithm.members[0]))
    assert torch.equal(first, second)
    assert len(index)


@pytest.mark.parametrize("gap", [0.0, 1.0])
def test_the_posterior_of_a_judgement_is_the_one_that_gave_the_trust(monkeypatch, gap):
    """After every epoch, with networks apart or not, and with a class that one fold has."""
    algorithm = build(cross_epochs=4, allowed_gap=0.02)
    algorithm.fold[algorithm.data.given == 0] = 0
    with_gap(algorithm, monkeypatch, gap)
    for epoch in range(6):
        algorithm.run_epoch(epoch)
        if algorithm.has_judged:
            judgement = algorithm.judge()
            own = judgement.posterior[np.arange(len(judgement.given)), judgement.given]
            np.testing.assert_array_equal(own, judgement.clean_probability)
    assert algorithm.has_judged
    assert bool(algorithm.memorising) == bool(gap)


def test_one_number_for_each_row_and_class_is_kept_and_gives_the_same_judgement():
    """The posterior is computed anew, also by an algorithm that a run resumes."""
    algorithm = build()
    for epoch in (0, 1):
        algorithm.run_epoch(epoch)
    shape = (len(algorithm.data), K)
    large = [name for name, value in algorithm.named_buffers() if value.shape == shape]
    assert large == ["log_prediction"]
    resumed = build()
    resumed.load_state_dict(algorithm.state_dict())
    for name, values in algorithm.judge().arrays().items():
        np.testing.assert_array_equal(resumed.judge().arrays()[name], values)
