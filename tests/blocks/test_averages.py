"""Running means of what a step reports."""

import torch

from ulc.blocks.averages import Averages


def test_each_name_has_its_own_mean():
    """(1 + 2 + 6) / 3 = 3; one value of 5."""
    seen = Averages()
    seen.add(loss=torch.tensor(1.0), trusted=5)
    seen.add(loss=2.0)
    seen.add(loss=torch.tensor(6.0))
    assert seen.record() == {"loss": 3.0, "trusted": 5.0}


def test_nothing_seen_is_nothing_recorded():
    assert Averages().record() == {}


def test_the_values_that_came_are_not_changed():
    value = torch.tensor(1.0)
    seen = Averages()
    seen.add(loss=value)
    seen.add(loss=value)
    assert float(value) == 1.0


def test_whoever_watches_is_told_after_each_step():
    told = []
    seen = Averages(on_step=lambda averages: told.append(averages.record()))
    seen.add(loss=2.0)
    seen.add(loss=4.0)
    assert told == [{"loss": 2.0}, {"loss": 3.0}]
