"""Nothing that an algorithm records changes by accident."""

import json

import pytest
from make_golden import PATH, recorded

from ulc.algorithms import ALGORITHMS
from ulc.testing import KINDS

GOLDEN = json.loads(PATH.read_text())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_records_are_as_they_were(name, kind):
    assert name in GOLDEN, "a new algorithm: run tests/algorithms/make_golden.py"
    found = recorded(name, kind)
    assert len(found) == len(GOLDEN[name][kind])
    for record, golden in zip(found, GOLDEN[name][kind], strict=True):
        assert record == pytest.approx(golden, rel=1e-4, abs=1e-4)
