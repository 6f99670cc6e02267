"""Labels that somebody checked are trusted in training, whatever their losses say."""

from dataclasses import replace

import pytest
import torch

from ulc.algorithms import ALGORITHMS, find_algorithm
from ulc.testing import Case

OPINION = {"ulc": "trust", "dividemix": "clean_probability"}


@pytest.mark.parametrize("name", sorted(OPINION))
def test_verified_labels_are_trusted_for_certain(name):
    case = Case(find_algorithm(name), "vector")
    verified = torch.arange(len(case.data())) % 3 == 0
    without, told = (
        getattr(case.trained(replace(case.data(), verified=mask))[0], OPINION[name])
        for mask in (None, verified)
    )
    assert (told[:, verified] == 1).all()
    assert (without[:, verified] < 1).any()  # without the mask it is not so


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_every_algorithm_learns_where_half_or_all_labels_are_verified(name, share):
    case = Case(find_algorithm(name), "vector")
    data = case.data()
    verified = torch.arange(len(data)) < share * len(data)
    algorithm, _ = case.trained(replace(data, verified=verified.clone()))
    assert (algorithm.data.verified == verified).all()
    assert len(algorithm.judge().given) == len(data)
