"""Laws of the base class of algorithms."""

import numpy as np
import pytest
import torch

from ulc.algorithms.base import INITIAL_WEIGHTS, array, seeded
from ulc.algorithms.cross_entropy import CrossEntropy
from ulc.algorithms.dividemix import DivideMix
from ulc.testing import Case, toy_data


def drawn(seed, epoch):
    with seeded(seed, epoch):
        return tuple(torch.rand(3).tolist())


def test_run_and_epoch_decide_the_random_numbers():
    """Epoch 1 of run 0 and epoch 0 of run 1 have different random numbers, too."""
    places = [(0, 0), (0, 1), (1, 0), (1, 1), (0, INITIAL_WEIGHTS), (2**62, 5)]
    assert len({drawn(*place) for place in places}) == len(places)
    assert [drawn(*place) for place in places] == [drawn(*place) for place in places]


def test_the_users_random_state_comes_back_also_after_an_error():
    state = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="shape"), seeded(0, 0):
        torch.rand(3).view(2)  # draws, and then fails
    assert torch.equal(state, torch.get_rng_state())


def test_weight_norms_by_hand():
    """Rows (3, 4, 0 …), 0 and 0 of one network, 0, 0 and (1, 0 …) of the other: the mean."""
    algorithm = Case(DivideMix, "vector").build(toy_data("vector"))
    heads = [learner.network.head.weight for learner in algorithm.learners()]
    with torch.no_grad():
        for head in heads:
            head.zero_()
        heads[0][0, :2] = torch.tensor([3.0, 4.0])
        heads[1][2, 0] = 1.0
    np.testing.assert_allclose(algorithm.class_measures()["weight_norm"], [2.5, 0.0, 0.5])


def test_learners_are_found_in_order():
    algorithm = Case(DivideMix, "vector").build(toy_data("vector"))
    assert algorithm.learners() == list(algorithm.pair)


def test_predictions_are_made_in_evaluation_mode_and_in_order():
    data = toy_data("vector")
    algorithm = Case(CrossEntropy, "vector").build(data)
    algorithm.run_epoch(0)
    assert all(part.training for part in algorithm.modules())
    found = algorithm.predictions()
    assert all(part.training for part in algorithm.modules())
    algorithm.eval()
    with torch.no_grad():
        torch.testing.assert_close(found, algorithm.predict_proba(data.stored))


def test_an_array_is_its_receivers_own():
    tensor = torch.zeros(3, requires_grad=True)
    array(tensor)[:] = 1
    assert (tensor == 0).all()
