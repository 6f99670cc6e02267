"""Degenerate learning: every algorithm ends with finite numbers, or refuses in one sentence."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from ulc.algorithms import ALGORITHMS
from ulc.blocks.label_posterior import AnchoredConfusion
from ulc.blocks.loss_mixture import LossMixture, MixturePrediction, ScaledMixtures
from ulc.config import DataSpec, RunSpec
from ulc.errors import InputError
from ulc.testing import EPOCHS, Case, check_judgement, toy_data
from ulc.training import divergence
from ulc.training.loop import train
from ulc.training.run import run

# The others learn from all labels.
TRUSTING = ("coteaching_plus", "m_correction", "dividemix", "ulc", "ulc_plus")


def check_training(name, data):
    """Train on the data; check that every number is finite."""
    algorithm = Case(ALGORITHMS[name], "vector").build(data)
    train(algorithm, range(EPOCHS))  # raises if a recorded value is not finite
    check_judgement(algorithm.judge(), data)
    assert algorithm.predictions().isfinite().all()


def constant(data):
    return replace(data, stored=torch.zeros_like(data.stored))


DATA = {
    "no wrong label": lambda: toy_data("vector", wrong=0.0),
    "95 % wrong labels": lambda: toy_data("vector", (40, 20, 20), wrong=0.95),
    "constant inputs": lambda: constant(toy_data("vector")),
    "constant inputs, a class of one": lambda: constant(toy_data("vector", (9, 6, 1))),
    "four examples": lambda: toy_data("vector", (2, 2)),
    "four classes of one": lambda: toy_data("vector", (1, 1, 1, 1)),
}


@pytest.mark.parametrize("case", DATA)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_learns_from(name, case):
    check_training(name, DATA[case]())


TRUST = {
    "everything": lambda given: torch.ones(len(given)),
    "nothing": lambda given: torch.zeros(len(given)),
    "all but one class": lambda given: (given != 1).float(),
}


@pytest.mark.parametrize("trusts", TRUST)
@pytest.mark.parametrize("name", TRUSTING)
def test_every_algorithm_learns_if_it_trusts(name, trusts, monkeypatch):
    """What a mixture or a posterior says is replaced."""
    data, asked = toy_data("vector"), []

    def answer(given):
        asked.append(given)
        return TRUST[trusts](given)

    def fit_predict(self, losses, given, classes):
        nobody = torch.zeros(classes, dtype=torch.bool)
        return MixturePrediction(answer(given), nobody, nobody, 0)

    def clean_probability(self, losses, group):
        """M-correction asks about losses, whose labels are unknown here."""
        return answer(torch.arange(len(losses)) % data.num_classes).double()

    def posterior_of(self, log_prediction, given, verified):
        clean, one_hot = answer(given)[:, None], F.one_hot(given, data.num_classes).float()
        others = (1 - one_hot) / (data.num_classes - 1)
        return clean * one_hot + (1 - clean) * others

    monkeypatch.setattr(LossMixture, "fit_predict", fit_predict)
    monkeypatch.setattr(ScaledMixtures, "clean_probability", clean_probability)
    monkeypatch.setattr(AnchoredConfusion, "update", lambda *examples: answer(examples[2]))
    monkeypatch.setattr(AnchoredConfusion, "posterior_of", posterior_of)
    check_training(name, data)
    assert asked


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_learns_from_1000_classes_of_three(name):
    data = toy_data("vector", (3,) * 1000)
    fields = ALGORITHMS[name].config_class.model_fields
    quick = {key: 1500 for key in fields if key.endswith("batch_size")}
    quick |= {key: 1 for key in fields if key == "passes"}
    algorithm = Case(ALGORITHMS[name], "vector", quick).build(data)
    train(algorithm, range(2))
    check_judgement(algorithm.judge(), data)


def write(name, labels):
    rows = len(labels)
    inputs = np.random.default_rng(0).normal(size=(rows, 3))
    np.savez(name, X=inputs, y=labels)
    return name


REFUSED = {
    "two examples": ([0, 1], "2 examples are too few to learn from; give at least 4"),
    "one class": ([0] * 9, "all labels are the same class; give at least two classes"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_nothing_can_be_learned_from_is_refused_in_one_sentence(name, case):
    labels, sentence = REFUSED[case]
    data = DataSpec(source="npz", path=write("data.npz", labels))
    with pytest.raises(InputError) as caught:
        run(RunSpec(data=data, algorithm=name, epochs=1), Path("runs"))
    assert str(caught.value).endswith(sentence)
    assert not Path("runs").exists()


def test_classes_of_three_rows_leave_a_recorded_warning():
    data = DataSpec(source="npz", path=write("data.npz", np.arange(60) % 20))
    folder = run(RunSpec(data=data, algorithm="ce", epochs=1), Path("runs"))
    (warning,) = folder.read_json("data.json")["warnings"]
    assert warning.startswith("only 60 rows for 20 classes: too few to judge labels by")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_loss_that_is_not_finite_is_told_with_epoch_step_and_examples(name, monkeypatch):
    """The inputs of one example are NaN: it is in the batch of the step that is named."""
    monkeypatch.setattr(divergence, "SHOWN", 1000)
    data = toy_data("vector")
    data.stored[17] = torch.nan
    with pytest.raises(InputError, match="diverged") as caught:
        train(Case(ALGORITHMS[name], "vector").build(data), range(1))
    pattern = r"epoch (?P<epoch>\d+), step (?P<step>\d+) \(training examples (?P<examples>[\d, ]+),"
    found = re.match(pattern, str(caught.value))
    assert found["epoch"] == "0"
    assert 1 <= int(found["step"]) <= 2 * len(data) // 16
    examples = [int(each) for each in found["examples"].split(", ")]
    assert 17 in examples
    assert len(examples) <= 17  # of one batch, not of the epoch
