"""One preparation serves every training on the same data."""

from dataclasses import fields

import numpy as np
import pytest
import torch

from ulc.config import DataSpec, ImbalanceSpec, NoiseSpec, RunSpec
from ulc.data.prepare import Prepared, prepare
from ulc.errors import InputError


@pytest.fixture
def spec(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 30)
    path = tmp_path / "toy.npz"
    np.savez(
        path,
        X=rng.normal(size=(90, 4)),
        y=labels,
        verified=np.arange(90) % 5 == 0,
        X_test=rng.normal(size=(6, 4)),
        y_test=labels[::15],
    )
    return RunSpec(
        data=DataSpec(source="npz", path=str(path)),
        imbalance=ImbalanceSpec(kind="half", ratio=3),
        noise=NoiseSpec(kind="symmetric", rate=0.3),
        algorithm="ce",
        held_out=0.2,
        seed=3,
    )


def prepared_for(spec, **changes) -> Prepared:
    return prepare(spec.model_copy(update=changes), torch.device("cpu"))


def assert_equal(one, other):
    if hasattr(one, "__dataclass_fields__"):
        assert type(one) is type(other)
        for field in fields(one):
            assert_equal(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, torch.Tensor | np.ndarray):
        assert np.array_equal(np.asarray(one), np.asarray(other))
    elif not callable(one):
        assert one == other


def test_all_rows_again_are_what_prepare_gives_without_held_out_rows(spec):
    assert_equal(prepared_for(spec).with_all_rows(), prepared_for(spec, held_out=0.0))


def test_rows_held_out_again_are_what_prepare_gives_with_them(spec):
    prepared = prepared_for(spec)
    again = prepared_for(spec, held_out=0.0).hold_out(prepared.held_out.positions)
    assert_equal(again, prepared)


def test_a_fold_holds_out_its_rows_and_learns_from_the_others(spec):
    whole = prepared_for(spec)
    count = len(whole.all_rows)
    fold = np.arange(0, count, 5)
    part = whole.hold_out(fold)
    assert sorted([*part.learned, *part.held_out.positions]) == list(range(count))
    for name in ("stored", "given", "verified"):
        everything = getattr(whole.all_rows, name)
        assert torch.equal(getattr(part.training, name), everything[part.learned])
        if name != "verified":
            assert torch.equal(getattr(part.held_out, name), everything[fold])
    assert np.array_equal(part.truth.train, whole.all_truth.train[part.learned])
    assert part.facts["held_out"] == len(fold)


def test_classes_of_one_row_cannot_be_held_out(spec, tmp_path):
    path = tmp_path / "lone.npz"
    np.savez(path, X=np.eye(5), y=np.arange(5))
    lone = {"data": DataSpec(source="npz", path=str(path)), "imbalance": ImbalanceSpec()}
    with pytest.raises(InputError, match="every class has one row; set held_out = 0"):
        prepared_for(spec, **lone, noise=NoiseSpec())
