"""Rows without a label: left out of learning, predicted, and unchanged in the corrected copy."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stub_runs import judged_run
from ulc.auditing.unlabelled import select_unlabelled
from ulc.config import DataSpec
from ulc.prediction.new_rows import NewRows
from ulc.report.examples import find_examples


def measured(rows=120, gaps=(0, 7, 60)):
    rng = np.random.default_rng(0)
    classes = np.arange(rows) % 2
    table = pd.DataFrame(
        rng.normal(4 * classes[:, None], 1, (rows, 3)).round(3), columns=list("abc")
    )
    table["label"] = np.array(["x", "y"], object)[classes]
    table.loc[list(gaps), "label"] = None
    return table


def test_the_copy_and_the_report_keep_the_rows_in_place(ulc):
    table = measured()
    table.to_csv("data.csv", index=False)
    run = judged_run(DataSpec(source="table", path="data.csv"), {0: "x", 6: "x"})
    run.write_json("data.json", run.read_json("data.json") | {"unlabelled": 3})
    assert run.ids[:7] == ["1", "2", "3", "4", "5", "6", "8"]
    shown = find_examples(run, np.array([0, 6]), ["1", "8"])
    assert shown.note is None
    expected = table.loc[[1, 8], ["a", "b", "c"]]
    assert np.array_equal(np.array(shown.values, float), expected.to_numpy())
    Path("decisions.csv").write_text("id,decision\n1,accept\n")
    code, printed = ulc("apply", run.path, "decisions.csv")
    assert code == 0, printed.err
    corrected = pd.read_csv("data.corrected.csv")
    table.loc[1, "label"] = "x"
    missing = table.where(table.notna(), np.nan)  # None and NaN are the same in a file
    pd.testing.assert_frame_equal(corrected.drop(columns="verified"), missing, check_dtype=False)
    assert np.flatnonzero(corrected["verified"]).tolist() == [1]


def test_only_rows_without_a_label_are_selected():
    rows = NewRows("data", np.eye(3, dtype=np.float32), labels=["x", None, None])
    found = select_unlabelled(rows)
    assert found.inputs.tolist() == [[0, 1, 0], [0, 0, 1]]
    assert found.ids == ("1", "2")
    assert found.labels is None


@pytest.mark.slow
def test_an_audit_predicts_them(ulc):
    measured().to_csv("data.csv", index=False)
    code, printed = ulc("audit", "data.csv", "--epochs", "4")
    assert code == 0, printed.err
    assert "3 of 120 rows have no label" in printed.err
    (audit,) = Path("audits").glob("data-audit-*")
    assert f"{audit / 'unlabelled.csv'}" in printed.out
    predicted = pd.read_csv(audit / "unlabelled.csv").set_index("id")["predicted_label"]
    assert predicted.to_dict() == {0: "x", 7: "y", 60: "x"}
    assert len(pd.read_csv(audit / "labels.csv")) == 117
