"""Laws of the training loop and its observers."""

import copy
import weakref

import numpy as np
import pytest
import torch

from ulc.algorithms.cross_entropy import CrossEntropy
from ulc.data.held_out import HeldOutRows
from ulc.errors import InputError
from ulc.testing import Case, toy_data
from ulc.training.best_epoch import BestEpoch
from ulc.training.collapse import CollapseMonitor
from ulc.training.inference import judge_labels, predict_stored
from ulc.training.loop import Observer, ProgressReporter, TrainingProgress, train


@pytest.fixture
def algorithm():
    return Case(CrossEntropy, "vector").build(toy_data("vector"))


def same_weights(one, other):
    states = [each.networks()[0].state_dict() for each in (one, other)]
    return all(torch.equal(value, states[1][name]) for name, value in states[0].items())


class Log(Observer):
    def __init__(self, name, log):
        self.name, self.log = name, log

    def on_step(self, epoch, averages):
        self.log.append((self.name, "step", epoch))

    def on_epoch(self, epoch):
        self.log.append((self.name, "epoch", epoch.record["epoch"]))

    def on_end(self, algorithm):
        self.log.append((self.name, "end", None))


def test_observers_are_called_in_their_order_and_change_nothing(algorithm):
    alone = copy.deepcopy(algorithm)
    train(alone, range(2))
    log = []
    train(algorithm, range(2), [Log("a", log), Log("b", log)])
    assert same_weights(alone, algorithm)
    events = [event for event in log if event[1] != "step"]
    assert events == [
        ("a", "epoch", 0), ("b", "epoch", 0), ("a", "epoch", 1), ("b", "epoch", 1),
        ("a", "end", None), ("b", "end", None),
    ]  # fmt: skip
    steps = [event for event in log if event[1] == "step"]
    assert steps[::2] == [("a", *event[1:]) for event in steps[1::2]]
    assert algorithm.on_step is None


class Stop(Observer):
    def on_epoch(self, epoch):
        epoch.is_last = epoch.is_last or epoch.record["epoch"] == 3


def test_an_observer_can_end_the_training(algorithm):
    assert [record["epoch"] for record in train(algorithm, range(9), [Stop()])] == [0, 1, 2, 3]


def test_a_resumed_training_has_the_records_of_the_epochs_before(algorithm):
    whole = train(copy.deepcopy(algorithm), range(4))
    before = train(algorithm, range(2))
    records = train(algorithm, range(2, 4), records=before)
    assert len(before) == 2
    assert [each["train"] for each in records] == [each["train"] for each in whole]


def test_the_judgement_is_computed_once_and_only_if_asked_for(algorithm, monkeypatch):
    calls = []
    judge = algorithm.judge
    monkeypatch.setattr(algorithm, "judge", lambda: calls.append(1) or judge())

    class Asks(Observer):
        def on_epoch(self, epoch):
            assert epoch.judgement is epoch.judgement

    train(algorithm, range(2))
    assert not calls
    train(algorithm, range(2), [Asks(), Asks()])
    assert len(calls) == 2


def test_a_judgement_is_kept_no_longer_than_it_is_used(algorithm):
    """Observers that need memory let it go; training does so after each epoch."""
    seen = []

    class Asks(Observer):
        def on_epoch(self, epoch):
            seen.append(weakref.ref(epoch.judgement))
            epoch.forget_judgement()
            assert seen.pop()() is None
            seen.append(weakref.ref(epoch.judgement))

        def on_end(self, algorithm):
            assert [each() for each in seen] == [None, None]

    train(algorithm, range(2), [Asks()])
    assert len(seen) == 2


def test_a_progress_reporter_shifts_the_numbers_of_epochs(algorithm):
    epochs = []

    class Numbers(TrainingProgress):
        def on_step(self, epoch, averages):
            epochs.append(epoch)

        def on_epoch(self, record):
            epochs.append(record["epoch"])

    records = train(algorithm, range(2), [ProgressReporter(Numbers(), first=10)])
    assert sorted(set(epochs)) == [10, 11]
    assert [record["epoch"] for record in records] == [0, 1]


def test_divergence_is_found_in_values_predictions_and_judgements(algorithm):
    data = algorithm.data
    with torch.no_grad():
        algorithm.networks()[0].head.weight.fill_(torch.nan)
    calls = [
        lambda: train(algorithm, range(1)),
        lambda: judge_labels(algorithm),
        lambda: predict_stored(algorithm, data.stored, data.preprocessing),
    ]
    for call in calls:
        with pytest.raises(InputError, match="diverged; lower the learning rate"):
            call()


class Scripted(CollapseMonitor):
    """Agreements by hand; nothing else is wrong."""

    def __init__(self, agreements, first=0):
        given = torch.zeros(100, dtype=torch.long)
        super().__init__(HeldOutRows(np.arange(100), given, given, None), ("a", "b"), first)
        self.agreements = iter(agreements)

    def measure(self, algorithm, judgement):
        fine = {"likelihood": 0.0, "predicted": [1, 0], "networks_agree": 1.0, "trusted": 1.0}
        return fine | {"agreement": next(self.agreements)}


@pytest.mark.parametrize(
    ("agreements", "patience", "kept", "trained"),
    [
        ([0.5, 0.8, 0.79, 0.7, 0.6], None, 2, 5),  # 0.79 is within 0.04 of 0.8, 0.7 is not
        ([0.5, 0.8, 0.79, 0.78, 0.6], 2, 3, 4),  # the best is 1: 3 is two epochs later
        ([0.5, 0.4, 0.8, 0.7, 0.9], 2, 4, 5),
        ([0.9, 0.5, 0.5, 0.5, 0.5], 1, 0, 2),
    ],
)
def test_the_best_epoch_is_restored(algorithm, agreements, patience, kept, trained):
    best = BestEpoch(Scripted(agreements), patience=patience)
    twin = copy.deepcopy(algorithm)
    assert len(train(algorithm, range(5), [best])) == trained
    assert best.best.epoch == kept
    train(twin, range(kept + 1))
    assert same_weights(twin, algorithm)


def test_patience_and_choice_begin_after_warm_up(algorithm):
    best = BestEpoch(Scripted([0.9, 0.8, 0.5, 0.4, 0.4], first=2), patience=2)
    assert len(train(algorithm, range(5), [best])) == 5
    assert best.best.epoch == 2
    later = BestEpoch(Scripted([0.5, 0.4], first=2))
    train(algorithm, range(7, 9), [later])  # a warm start counts on
    assert later.best.epoch == 7
