"""Mixup: convex combinations of examples and of their targets."""

import pytest
import torch
from hypothesis import given as given_values
from hypothesis import settings
from hypothesis import strategies as st

from ulc.blocks.mixup import blend, draw_lambda


@pytest.mark.parametrize("alpha", [0.2, 1.0, 4.0])
def test_the_first_partner_dominates(alpha):
    torch.manual_seed(0)
    drawn = [draw_lambda(alpha) for _ in range(300)]
    assert all(0.5 <= each <= 1 for each in drawn)
    assert len(set(drawn)) > 200


def test_lambda_is_the_larger_part_of_a_beta_draw():
    torch.manual_seed(3)
    beta = float(torch.distributions.Beta(4.0, 4.0).sample())
    torch.manual_seed(3)
    assert draw_lambda(4.0) == max(beta, 1 - beta)


def test_without_alpha_nothing_is_drawn_and_nothing_mixed():
    state = torch.get_rng_state()
    assert draw_lambda(0.0) == 1.0
    assert torch.equal(state, torch.get_rng_state())


def test_blend_by_hand():
    """¾·(1, 10) + ¼·(5, 2) = (2, 8) and the other way round (4, 4)."""
    values = torch.tensor([[1.0, 10.0], [5.0, 2.0]])
    found = blend(values, torch.tensor([1, 0]), 0.75)
    assert torch.equal(found, torch.tensor([[2.0, 8.0], [4.0, 4.0]]))


@settings(max_examples=50, deadline=None)
@given_values(
    rows=st.lists(
        st.lists(st.floats(-20, 20, width=32), min_size=3, max_size=3), min_size=1, max_size=6
    ),
    lam=st.floats(0.5, 1),
    seed=st.integers(0, 1000),
)
def test_targets_stay_distributions(rows, lam, seed):
    target = torch.tensor(rows).softmax(1)
    partner = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    mixed = blend(target, partner, lam)
    assert (mixed >= 0).all()
    torch.testing.assert_close(mixed.sum(1), torch.ones(len(rows)))


def test_a_lambda_of_one_is_the_identity():
    values = torch.randn(4, 2, 3)
    assert torch.equal(blend(values, torch.tensor([3, 2, 1, 0]), 1.0), values)
