"""Rows without values are not accused: nothing is known about their labels."""

import numpy as np
import pandas as pd
import pytest

import ulc as package
from ulc.config import DataSpec, RunSpec
from ulc.data.sources import load_source
from ulc.data.table_encoding import MOST_MARK, TableEncoding
from ulc.labels.judgement import Judgement


def measured(rows=300, empty=(5, 77)):
    """Two classes apart in four measurements; some rows have no measurement."""
    rng = np.random.default_rng(0)
    classes = np.arange(rows) % 2
    table = pd.DataFrame(rng.normal(3 * classes[:, None], 1, (rows, 4)), columns=list("abcd"))
    table.loc[list(empty)] = np.nan
    table["label"] = np.array(["x", "y"])[classes]
    return table


def test_a_rare_mark_is_not_larger_than_a_frequent_one():
    values = pd.DataFrame({"a": [None, *range(999)]})
    marked = TableEncoding.fit(values, "t.csv").transform(values, "t.csv")
    assert np.isclose(marked[0, 1], MOST_MARK)
    often = pd.DataFrame({"a": [None, 1.0, 2.0, None] * 9})
    plain = TableEncoding.fit(often, "t.csv").transform(often, "t.csv")
    assert np.allclose(sorted(set(plain[:, 1])), [-1, 1])


def test_rows_without_values_are_warned_of_and_are_no_copies_of_one_another():
    table = measured(empty=(4, 5))  # of different classes
    table.to_csv("data.csv", index=False)
    source = load_source(DataSpec(source="table", path="data.csv"))
    assert np.flatnonzero(source.nearly_empty).tolist() == [4, 5]
    assert source.warnings == (
        "2 rows have hardly any values ('4', '5'): these labels cannot be judged",
    )


def test_where_no_row_says_anything_every_label_is_believed():
    judgement = Judgement.of(np.array([[0.1, 0.9], [0.9, 0.1]]), np.array([0, 1]))
    found = judgement.without_evidence(np.ones(2, bool), 0.5)
    assert found.clean_probability.tolist() == [1, 1]


@pytest.mark.parametrize("posterior", [True, False])
def test_without_evidence_a_label_is_no_issue_and_the_others_stay(posterior):
    prediction = np.array([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8]])
    judgement = Judgement.of(prediction, np.array([1, 1, 1]))
    if posterior:
        judgement = judgement.with_posterior(prediction)
    rows = np.array([True, False, False])
    found = judgement.without_evidence(rows, 0.5)
    assert found.issues(0.5).tolist() == [False, True, False]
    assert np.allclose(found.clean_probability, [0.5, 0.1, 0.8])
    assert np.allclose(found.corrected.sum(1), 1)
    assert np.allclose(found.corrected[1:], judgement.corrected[1:])


def test_a_run_does_not_accuse_rows_without_values():
    table = measured()
    table.to_csv("data.csv", index=False)
    spec = package.with_preset(
        RunSpec(data=DataSpec(source="table", path="data.csv"), algorithm="ce", epochs=3)
    )
    run = package.train(spec)
    labels = pd.read_csv(run.path / "labels.csv").set_index("id")
    assert not labels["is_label_issue"][[5, 77]].any()
    assert labels["label_score"][5] == pytest.approx(labels["label_score"][77])
    assert labels["label_score"][5] > labels["label_score"].min()
    assert run.folder.read_json("health.json")["nearly_empty"] == {"rows": 2, "ids": [5, 77]}
