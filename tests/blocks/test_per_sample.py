"""Losses of all training examples, in data set order."""

import torch

from ulc.blocks.learner import Learner
from ulc.blocks.per_sample import example_losses
from ulc.config import SGD
from ulc.networks.classifier import Classifier, HeadSpec
from ulc.networks.mlp import MLP
from ulc.testing import toy_data


def test_the_cross_entropy_of_each_given_label_on_plain_inputs_in_evaluation_mode():
    torch.manual_seed(0)
    data = toy_data("vector")
    learner = Learner(Classifier(MLP((6,), width=8), 8, 3, HeadSpec(dropout=0.5)), SGD())
    before = {name: value.clone() for name, value in learner.named_buffers()}
    found = example_losses(learner, data)
    assert all(part.training for part in learner.modules())
    for name, value in learner.named_buffers():
        assert torch.equal(value, before[name]), name
    learner.eval()
    with torch.no_grad():
        probability = learner(data.stored).logits.softmax(1)
    expected = -probability[torch.arange(len(data)), data.given].log()
    torch.testing.assert_close(found, expected)
