"""Dropout: torch's law, from fewer random numbers."""

import pytest
import torch

from ulc.networks.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_each_value_is_zero_with_probability_p_and_else_scaled(p):
    """10⁶ values, five standard errors."""
    torch.manual_seed(0)
    dropped = Dropout(p)(torch.full((1000, 1000), 3.0))
    gone = dropped == 0
    error = (p * (1 - p) / dropped.numel()) ** 0.5
    assert float(gone.double().mean()) == pytest.approx(p, abs=5 * error)
    assert torch.allclose(dropped[~gone], torch.tensor(3 / (1 - p)))


def test_neighbours_and_rows_are_dropped_independently():
    """Correlations with the next values, also those of the same draw, are those of chance."""
    torch.manual_seed(0)
    gone = (Dropout(0.3)(torch.ones(1000, 1000)) == 0).double().flatten() - 0.3
    for apart in (1, 2, 3, 4, 1000):
        correlation = (gone[apart:] * gone[:-apart]).mean() / 0.21
        assert abs(float(correlation)) < 5e-3


@pytest.mark.parametrize("shape", [(1,), (3,), (5, 7), (2, 3, 5, 5), (0, 4)])
def test_any_shape(shape):
    torch.manual_seed(0)
    assert Dropout(0.3)(torch.ones(shape)).shape == shape


def test_the_gradient_passes_where_the_value_did():
    torch.manual_seed(0)
    values = torch.ones(50, 50, requires_grad=True)
    dropped = Dropout(0.3)(values)
    dropped.sum().backward()
    assert torch.equal(values.grad, dropped.detach())
    assert bool((dropped == 0).any())


def test_evaluation_mode_changes_and_draws_nothing():
    values = torch.rand(4, 4)
    state = torch.get_rng_state()
    assert torch.equal(Dropout(0.3).eval()(values), values)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("p", [0.3, 0.9])
def test_a_mask_for_all_rows_has_the_same_law(p):
    """10⁶ values, five standard errors; the generator alone decides."""
    values = torch.ones(2, 1000, 1000)
    mask = Dropout(p).draw_mask(values, torch.Generator().manual_seed(0))
    assert mask.shape == (1000, 1000)
    error = (p * (1 - p) / mask.numel()) ** 0.5
    assert float((mask == 0).double().mean()) == pytest.approx(p, abs=5 * error)
    assert torch.allclose(mask[mask > 0], torch.tensor(1 / (1 - p)))
    assert torch.equal(mask, Dropout(p).draw_mask(values, torch.Generator().manual_seed(0)))
