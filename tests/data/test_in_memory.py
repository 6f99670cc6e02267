"""Data of a program: stored once by content, and read as the same data from a file would be."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import ulc
from ulc.auditing import audit_spec
from ulc.config import DataSpec
from ulc.data.in_memory import store_data
from ulc.data.sources import load_source
from ulc.data.sources.naming import data_spec
from ulc.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)).astype(np.float32)
Y = np.where(X[:, 0] > 0, "up", "down")
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(colour=["red", "blue"] * 30, way=Y)


def stored(data, **options):
    return load_source(data_spec(str(store_data(data, Path("data"))), options))


def test_a_frame_is_read_as_its_csv():
    FRAME.to_csv("mine.csv", index=False)
    expected = load_source(DataSpec(source="table", path="mine.csv", label="way"))
    found = stored(FRAME, label="way")
    assert np.array_equal(found.inputs, expected.inputs)
    assert found.class_names == ("down", "up")
    assert found.ids is None


def test_the_index_of_a_frame_names_the_rows():
    names = tuple(f"r{row}" for row in range(60))
    assert stored(FRAME.set_axis(names), label="way").ids == names
    assert stored(FRAME.set_axis(["twice"] * 60), label="way").ids is None


@pytest.mark.parametrize("kind", [np.asarray, list, torch.tensor])
def test_arrays_with_labels(kind):
    found = stored((kind(X.tolist()), Y))
    assert np.allclose(found.inputs, X)
    assert np.array_equal(np.array(found.class_names)[found.labels], Y)


def test_numbers_as_labels_may_have_gaps():
    found = stored((X, np.where(Y == "up", 2000, -7)))
    assert found.class_names == ("-7", "2000")


def test_a_frame_with_labels_beside_it():
    found = stored((FRAME.drop(columns="way"), FRAME["way"]))
    assert np.array_equal(found.inputs, stored(FRAME, label="way").inputs)


def test_images():
    images = RNG.integers(0, 256, (60, 8, 8, 3)).astype(np.uint8)
    assert stored((images, Y)).inputs.shape == (60, 3, 8, 8)


def test_the_same_data_are_one_file_and_other_data_another():
    first = store_data(FRAME, Path("data"))
    assert store_data(FRAME.copy(), Path("data")) == first
    assert store_data(FRAME.head(59), Path("data")) != first
    assert len(list(Path("data").iterdir())) == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((X, Y, Y), "a tuple of 3 values; give .X, y."),
        ((X, Y[:5]), r"y has shape \(5,\); give one label for each of the 60 rows"),
        ((Y, X), r"X has shape \(60,\), type .*; give vectors"),
        ((X, [None, *Y[1:]]), "y: row 0 has no label"),
        (X, "ndarray is no data to audit; give a path, a data frame"),
        ((FRAME.rename(columns={"way": "label"}), Y), "has a column 'label' beside y"),
    ],
)
def test_a_mistake_is_one_sentence_and_writes_nothing(data, message):
    with pytest.raises(InputError, match=message) as caught:
        store_data(data, Path("data"))
    assert "\n" not in str(caught.value)
    assert not Path("data").exists()


def test_options_of_reading_are_settings_of_an_audit():
    Path("mine.csv").write_text("")
    spec = audit_spec("mine.csv", label="way", text="words", epochs=3)
    assert (spec.data.label, spec.data.text, spec.epochs) == ("way", "words", 3)
    again = audit_spec(spec.data, label="other")
    assert (again.data.label, again.data.text) == ("other", "words")


@pytest.mark.slow
def test_an_audit_of_a_frame_is_corrected_as_a_table():
    given = FRAME.assign(way=np.where(np.arange(60) % 15 == 0, "up", FRAME["way"]))
    run = ulc.audit(given, label="way", epochs=4)
    assert run.folder.done
    applied = ulc.apply_decisions(run, out="corrected.csv", accepting=ulc.Accepting())
    assert len(pd.read_csv("corrected.csv")) == applied.rows == 60
    assert ulc.audit(given, label="way", epochs=4).path == run.path


@pytest.mark.slow
def test_an_audit_of_arrays():
    run = ulc.audit((X, Y), epochs=4)
    assert len(run.judgement.given) == 60
    assert set(run.predict(X)["predicted_label"]) <= {"up", "down"}
