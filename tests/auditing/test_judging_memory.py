"""Judging keeps few N × K arrays at once."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ulc.auditing import judging
from ulc.auditing.judging import judge_audit_labels
from ulc.labels import confusion, second_judge
from ulc.labels.judgement import Judgement

ROWS, CLASSES = 40_000, 40
ONE_ARRAY = ROWS * CLASSES * 4  # bytes


@pytest.fixture
def small_pieces(monkeypatch):
    """What is computed at once is small beside N × K numbers."""
    monkeypatch.setattr(confusion, "NUMBERS_AT_ONCE", 2**14)
    monkeypatch.setattr(judging, "MOST_PROBABILITIES", 2**12)
    monkeypatch.setattr(judging, "FEWEST_ROWS", 20)
    monkeypatch.setattr(second_judge, "FEATURES", 20)
    monkeypatch.setattr(second_judge, "BLOCK", 1_000)


class StubFolder:
    """A run folder whose judgement is read when it is asked for."""

    @property
    def judgement(self):
        rng = np.random.default_rng(0)
        prediction = rng.random((ROWS, CLASSES), np.float32)
        prediction /= prediction.sum(1, keepdims=True)
        posterior = prediction.copy()
        return Judgement.of(prediction, np.arange(ROWS) % CLASSES).with_posterior(posterior)


def stub_data(shape, first_copy, **masks):
    """Prepared data of random vectors, or of images, in which every tenth row is held out."""
    positions = np.arange(ROWS)
    inputs = np.random.default_rng(1).normal(size=(ROWS, 3)).astype(np.float32)[first_copy]
    all_rows = SimpleNamespace(
        preprocessing=SimpleNamespace(shape=shape),
        comparable=lambda: inputs,
        first_copy=torch.from_numpy(first_copy),
    )
    return SimpleNamespace(
        all_rows=all_rows,
        learned=positions[positions % 10 != 0],
        held_out=SimpleNamespace(positions=positions[::10]),
        class_names=[str(label) for label in range(CLASSES)],
        ids=None,
        **{"verified": None, "nearly_empty": None, **masks},
    )


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    ("shape", "copies", "most"),
    [((3,), "of one row", 2.6), ((3,), "of all rows", 3.0), ((3, 8, 8), "of one row", 2.6)],
)
def test_judging_has_two_n_by_k_arrays_at_once(shape, copies, most):
    """Predictions and posteriors; or those of ULC+ and of the second judge.

    Some rows are verified, and some are nearly empty. If every row has a copy, the second judge
    keeps half an array more.
    """
    rows = np.arange(ROWS)
    first_copy = np.where(rows % 7 == 1, 0, rows) if copies == "of one row" else rows - rows % 2
    masks = {"verified": np.arange(ROWS) % 2 == 0, "nearly_empty": np.arange(ROWS) % 5 == 0}
    prepared = stub_data(shape, first_copy, **masks)
    few = np.full((ROWS // 10, CLASSES), 1 / CLASSES)
    robust = SimpleNamespace(folder=StubFolder(), under_prior=lambda _: few)
    tracemalloc.start()
    try:
        judged = judge_audit_labels(robust, prepared)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert judged.labels.judgement.posterior.shape == (ROWS, CLASSES)
    assert 2 * ONE_ARRAY < peak < most * ONE_ARRAY
