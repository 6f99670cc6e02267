"""Mean of each example's losses over the last epochs."""

import io

import torch

from ulc.blocks.loss_history import LossHistory

GIVEN = torch.zeros(3, dtype=torch.long)


def test_a_history_of_one_is_the_losses_themselves():
    losses = torch.tensor([[1.0, 2.0, 5.0], [0.0, 0.1, 0.2]])
    assert torch.equal(LossHistory(1, GIVEN).smooth(losses), losses)


def test_by_hand():
    """Each network's losses scaled to [0, 1] by themselves, then the mean of the last two.

    First network: (1, 2, 5) is (0, ¼, 1), then (4, 0, 4) is (1, 0, 1), then (0, 1, 2) is
    (0, ½, 1). Second: always (0, ½, 1).
    """
    history = LossHistory(2, GIVEN)
    second = torch.tensor([10.0, 20.0, 30.0])
    found = [
        history.smooth(torch.stack([torch.tensor(first), second]))
        for first in ([1.0, 2.0, 5.0], [4.0, 0.0, 4.0], [0.0, 1.0, 2.0])
    ]
    expected = [[0.0, 0.25, 1.0], [0.5, 0.125, 1.0], [0.5, 0.25, 1.0]]
    for each, first in zip(found, expected, strict=True):
        torch.testing.assert_close(each, torch.tensor([first, [0.0, 0.5, 1.0]]))


def test_equal_losses_scale_to_nought():
    found = LossHistory(3, GIVEN).smooth(torch.ones(2, 3))
    assert torch.equal(found, torch.zeros(2, 3))


def test_it_remembers_through_a_checkpoint():
    history, other = LossHistory(3, GIVEN), LossHistory(3, GIVEN)
    history.smooth(torch.tensor([[1.0, 2.0, 5.0], [3.0, 1.0, 2.0]]))
    file = io.BytesIO()
    torch.save(history.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    losses = torch.rand(2, 3)
    assert torch.equal(history.smooth(losses), other.smooth(losses))
