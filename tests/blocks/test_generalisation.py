"""The generalisation gap between labels that networks have learned and others."""

import pytest
import torch

from ulc.blocks.generalisation import Gap, evenly_spaced, generalisation_gap


def test_the_gap_is_a_paired_difference():
    """Three networks, two labels: (-1 - 2) / 2 + 3 = 1.5 and (-2 - 4) / 2 + 3.5 = 0.5.

    Their mean is 1, their standard deviation √½, the standard error √½ / √2 = ½.
    """
    likelihood = torch.tensor([[-1.0, -2.0], [-3.0, -4.0], [-2.0, -3.5]])
    gap = generalisation_gap(likelihood, torch.tensor([1, 2]))
    assert float(gap.mean) == pytest.approx(1.0)
    assert float(gap.error) == pytest.approx(0.5)


def test_networks_that_agree_have_no_gap():
    likelihood = -torch.rand(1, 50).expand(4, 50)
    gap = generalisation_gap(likelihood, torch.arange(50) % 4)
    assert float(gap.mean) == pytest.approx(0, abs=1e-6)
    assert gap.surely_below(1e-3)


@pytest.mark.parametrize(
    ("mean", "error", "below", "above"),
    [(0.0, 0.4, True, False), (0.0, 0.6, False, False), (2.0, 0.4, False, True),
     (2.0, 0.6, False, False), (0.0, float("nan"), False, False)],
)  # fmt: skip
def test_a_gap_is_sure_by_two_standard_errors(mean, error, below, above):
    gap = Gap(torch.tensor(mean), torch.tensor(error))
    assert gap.surely_below(1.0) == below
    assert gap.surely_above(1.0) == above


@pytest.mark.parametrize(("count", "most"), [(3, 5), (5, 5), (10, 5), (11, 4)])
def test_positions_are_evenly_spaced(count, most):
    positions = torch.arange(count) * 7
    found = evenly_spaced(positions, most)
    assert len(found) == min(count, most)
    steps = (found // 7).diff()
    assert (steps >= 1).all()
    assert int(steps.max()) - int(steps.min()) <= 1
