"""Values at the edge of their type: read as what they mean, or refused with their place."""

import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ulc.algorithms import configure
from ulc.config import DataSpec, RunSpec, checked
from ulc.data.columns import parse
from ulc.data.sources import load_source
from ulc.errors import InputError
from ulc.networks.classifier import inverse_softplus


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("1970-01-01", 0.0),
        ("1970-01-02T12:00:00", 1.5),
        ("9999-12-31", 2932896.0),
        ("0001-01-01", -719162.0),
        ("2020-01-01T00:00:00+02:00", 18261 + 22 / 24),
    ],
)
def test_a_date_is_its_number_of_days_in_every_year(text, days):
    assert parse(pd.Series([text, "1970-01-01"], dtype=object), "date")[0] == pytest.approx(days)


def test_a_table_with_the_last_date_is_read():
    lines = [f"{'xy'[i % 2]},{'9999-12-31' if i % 3 else '2026-01-31'}" for i in range(12)]
    Path("t.csv").write_text("label,day\n" + "\n".join(lines) + "\n")
    source = load_source(DataSpec(source="table", path="t.csv"))
    assert [each.kind for each in source.encoding.columns] == ["date"]
    assert len(np.unique(source.inputs)) == 2


def test_a_class_number_without_a_name_is_refused_with_its_row():
    datasets = pytest.importorskip("datasets")
    from ulc.data.sources.huggingface import to_class_name, to_frame

    names = datasets.ClassLabel(names=["a", "b"])
    features = datasets.Features({"label": names, "x": datasets.Value("float64")})
    made = datasets.Dataset.from_dict({"label": [0, 1, -1], "x": [1.0, 2, 3]}, features=features)
    assert list(to_frame(made, ["label", "x"])["label"])[:2] == ["a", "b"]
    for value in (2, 10**9):
        with pytest.raises(InputError, match=r"row 4: class number \d+, but only 2 classes have"):
            to_class_name(value, ["a", "b"], "row 4")


@pytest.mark.parametrize("number", [0x110000, 0xFFFFFFFF, 0xD800])
def test_text_that_is_no_unicode_is_refused(number):
    names = np.array(["a", "b"] * 6)
    np.savez("t.npz", X=np.arange(24.0).reshape(12, 2), y=names)
    content = Path("t.npz").read_bytes()
    bad = names.copy()
    bad.view(np.uint32)[3] = number
    # savez stores its arrays as they are, so the bytes can be replaced; the checksum too.
    old, new = names.tobytes(), bad.tobytes()
    start = content.find(old)
    header = content.rfind(b"\x93NUMPY", 0, start)
    before, after = (zlib.crc32(content[header:start] + each) for each in (old, new))
    content = content.replace(old, new)
    content = content.replace(before.to_bytes(4, "little"), after.to_bytes(4, "little"))
    Path("t.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"y.npy holds text that is no Unicode"):
        load_source(DataSpec(source="npz", path="t.npz"))


@pytest.mark.parametrize(
    ("algorithm", "options", "name"),
    [
        ("ulc", {"batch_size": 10**23}, "batch_size"),
        ("ulc", {"loss_history": 10**23}, "loss_history"),
        ("ulc", {"zero_losses": 2**40 + 1}, "zero_losses"),
        ("ulc_plus", {"passes": 10**23}, "passes"),
        ("dividemix", {"warmup_batch_size": 10**23}, "warmup_batch_size"),
        ("ulc", {"initial_class_std": 1e300}, "initial_class_std"),
        ("ulc", {"initial_instance_std": 1e300}, "initial_instance_std"),
        ("ce", {"sgd": {"lr": 1e31}}, "sgd.lr"),
    ],
)
def test_a_number_too_large_to_compute_with_is_refused_with_its_option(algorithm, options, name):
    says = rf"options of {algorithm}: '{name}': a (whole )?number here is at most .*, not \d"
    with pytest.raises(InputError, match=says):
        configure(algorithm, options)


def test_numbers_of_a_spec_have_a_bound_but_not_its_seed():
    assert checked(RunSpec, {"epochs": 2**40, "seed": 10**23}, where="x").seed == 10**23
    with pytest.raises(InputError, match=r"x: 'epochs': a whole number here is at most"):
        checked(RunSpec, {"epochs": 10**23}, where="x")
    with pytest.raises(InputError, match=r"x: 'imbalance.ratio': a number here is at most 1e\+30"):
        checked(RunSpec, {"imbalance": {"ratio": 1e300}}, where="x")


def test_a_network_can_start_with_the_largest_standard_deviation():
    assert inverse_softplus(1e30) == 1e30
    assert inverse_softplus(40.0) == pytest.approx(inverse_softplus(40.000001), abs=1e-5)
