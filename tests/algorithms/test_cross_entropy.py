"""Cross entropy: a step by hand."""

import copy

import pytest
import torch
import torch.nn.functional as F
from stubs import spy_on_batches

from ulc.algorithms.cross_entropy import CrossEntropy
from ulc.testing import Case, toy_data


def build(**options):
    return Case(CrossEntropy, "vector", options).build(toy_data("vector"))


def test_an_epoch_of_one_step_is_a_step_of_gradient_descent(monkeypatch):
    """w − lr·(∂loss/∂w + decay·w); the record is the loss before the step."""
    algorithm = build(batch_size=61, sgd={"lr": 0.1, "weight_decay": 0.01})
    network = copy.deepcopy(algorithm.learner.network)
    seen = spy_on_batches(monkeypatch, algorithm.data)
    record = algorithm.run_epoch(0)
    (batch,) = seen
    loss = F.cross_entropy(network(batch.inputs).logits, batch.given)
    loss.backward()
    assert record == {"loss": pytest.approx(float(loss.detach()), abs=1e-6)}
    for mine, theirs in zip(
        algorithm.learner.network.parameters(), network.parameters(), strict=True
    ):
        expected = theirs - 0.1 * (theirs.grad + 0.01 * theirs)
        torch.testing.assert_close(mine.detach(), expected.detach())


def test_an_epoch_sees_every_example_once(monkeypatch):
    algorithm = build(batch_size=16)
    seen = spy_on_batches(monkeypatch, algorithm.data)
    algorithm.run_epoch(0)
    assert sorted(torch.cat([batch.index for batch in seen]).tolist()) == list(range(61))
    assert [len(batch) for batch in seen] == [16, 16, 16, 13]


def test_it_predicts_by_its_network_and_believes_a_label_as_far_as_it_predicts_it():
    algorithm = build()
    algorithm.run_epoch(0)
    inputs = next(algorithm.data.in_order()).inputs
    judgement = algorithm.judge()
    algorithm.eval()
    with torch.no_grad():
        probability = algorithm.learner.network(inputs).logits.softmax(1)
    torch.testing.assert_close(torch.from_numpy(judgement.prediction), probability)
    believed = probability[torch.arange(61), algorithm.data.given]
    torch.testing.assert_close(torch.from_numpy(judgement.clean_probability), believed)
