"""Mixup: convex combinations of examples and of their targets."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given as given_values
from hypothesis import settings
from hypothesis import strategies as st

from ulc.blocks.mixup import blend, draw_dominant_lambda, draw_lambda, draw_partner


@pytest.mark.parametrize("alpha", [0.2, 1.0, 4.0])
def test_the_first_partner_dominates(alpha):
    torch.manual_seed(0)
    drawn = [draw_dominant_lambda(alpha) for _ in range(300)]
    assert all(0.5 <= each <= 1 for each in drawn)
    assert len(set(drawn)) > 200


def test_without_alpha_nothing_is_drawn_and_nothing_mixed():
    state = torch.get_rng_state()
    assert draw_dominant_lambda(0.0) == 1.0
    assert draw_lambda(0.0) == 1.0
    assert draw_partner(torch.zeros(5, 2), 1.0).tolist() == [0, 1, 2, 3, 4]
    assert torch.equal(state, torch.get_rng_state())


def test_a_torch_without_the_private_function_draws_from_the_public_distribution(monkeypatch):
    public = SimpleNamespace(sample=lambda: torch.tensor([0.25, 0.75]))
    monkeypatch.setattr(torch.distributions, "Dirichlet", lambda concentration: public)
    monkeypatch.delattr(torch, "_sample_dirichlet")
    assert draw_lambda(4.0) == 0.25


def test_lambda_is_a_beta_draw_and_the_dominant_one_its_larger_part():
    torch.manual_seed(3)
    beta = float(torch.distributions.Beta(0.4, 0.4).sample())
    torch.manual_seed(3)
    lam = draw_lambda(0.4)
    torch.manual_seed(3)
    assert lam == beta
    assert draw_dominant_lambda(0.4) == max(lam, 1 - lam)


@pytest.mark.parametrize("alpha", [0.4, 1.0, 8.0])
def test_neither_partner_dominates_by_a_plain_lambda(alpha):
    """Mean ½ and variance 1/(4(2α + 1)); 2,000 draws, four standard errors of the mean."""
    torch.manual_seed(0)
    drawn = torch.tensor([draw_lambda(alpha) for _ in range(2000)])
    variance = 1 / (4 * (2 * alpha + 1))
    assert abs(drawn.mean() - 0.5) < 4 * (variance / 2000) ** 0.5
    assert float(drawn.var()) == pytest.approx(variance, rel=0.15)


def test_partners_are_a_permutation_drawn_anew():
    torch.manual_seed(0)
    first, second = (draw_partner(torch.zeros(30, 2), 0.7) for _ in range(2))
    assert sorted(first.tolist()) == list(range(30))
    assert not torch.equal(first, second)
    torch.manual_seed(0)
    assert torch.equal(draw_partner(torch.zeros(30, 2), 0.7), first)


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


def test_each_row_has_its_own_lambda_by_hand():
    """¾·(1, 10) + ¼·(5, 2) = (2, 8), and the second row stays."""
    values = torch.tensor([[1.0, 10.0], [5.0, 2.0]])
    found = blend(values, torch.tensor([1, 0]), torch.tensor([0.75, 1.0]))
    assert torch.equal(found, torch.tensor([[2.0, 8.0], [5.0, 2.0]]))


@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 5), (5, 3, 4, 4)], ids=str)
def test_a_row_with_its_own_lambda_is_blended_as_if_it_were_for_all(shape):
    torch.manual_seed(0)
    values, partner, lam = torch.randn(shape), torch.randperm(5), torch.rand(5)
    found = blend(values, partner, lam)
    for row in range(5):
        torch.testing.assert_close(found[row], blend(values, partner, float(lam[row]))[row])
    same = blend(values, partner, torch.full((5,), 0.25))
    torch.testing.assert_close(same, blend(values, partner, 0.25))


def test_a_lambda_of_one_is_the_identity():
    values = torch.randn(4, 2, 3)
    assert torch.equal(blend(values, torch.tensor([3, 2, 1, 0]), 1.0), values)
