"""Stand-ins and spies that the algorithms' tests share."""

import torch

from ulc.blocks.loss_mixture import MixturePrediction


class Believes:
    """A noise model that says what it is told to, and remembers the losses it was asked about."""

    def __init__(self, *answers):
        self.answers = answers
        self.asked = []

    def fit_predict(self, losses, given, classes):
        answer = self.answers[len(self.asked)]
        self.asked.append(losses.clone())
        nobody = torch.zeros(classes, dtype=torch.bool)
        return MixturePrediction(answer, nobody, nobody, 0)


def spy_on_division(monkeypatch, module):
    """What an algorithm trusts before topping up, network by network."""
    masks, divide = [], module.divide

    def remember(clean, given, trusted, fewest):
        masks.append(trusted)
        return divide(clean, given, trusted, fewest)

    monkeypatch.setattr(module, "divide", remember)
    return masks


def spy_on_batches(monkeypatch, data):
    """The batches that are drawn from the data."""
    seen, batches = [], type(data).batches

    def remember(self, *arguments, **rest):
        for batch in batches(self, *arguments, **rest):
            seen.append(batch)
            yield batch

    monkeypatch.setattr(type(data), "batches", remember)
    return seen


def catch_losses(monkeypatch, learners):
    """The losses that are descended; no step is taken."""
    losses = []

    def descend(loss):
        losses.append(loss.detach())
        return losses[-1]

    for learner in learners:
        monkeypatch.setattr(learner, "descend", descend)
    return losses
