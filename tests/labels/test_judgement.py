"""An opinion on three labels, worked by hand."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from stub_data import LABEL_COLUMNS
from ulc.labels.health import health
from ulc.labels.judgement import Judgement
from ulc.labels.table import (
    as_csv,
    as_parquet,
    corrected_columns,
    label_columns,
    label_frame,
    label_rows,
)


@pytest.fixture
def judgement():
    """Label 0 is right, label 1 surely wrong, label 2 as likely as not."""
    return Judgement(
        given=np.array([0, 1, 2]),
        clean_probability=np.array([1.0, 0.0, 0.5]),
        prediction=np.array([[0.2, 0.4, 0.4], [0.7, 0.2, 0.1], [0.9, 0.1, 0.0]]),
        epistemic=np.array([0.9, 0.5, np.nan]),
        aleatoric=np.array([0.1, 0.2, np.nan]),
    )


def test_corrected_lies_between_the_given_label_and_the_prediction(judgement):
    """Third: 0.5·(0, 0, 1) + 0.5·(0.9, 0.1, 0) = (0.45, 0.05, 0.5)."""
    expected = [[1, 0, 0], [0.7, 0.2, 0.1], [0.45, 0.05, 0.5]]
    assert np.allclose(judgement.corrected, expected)


def test_suggested_is_what_the_corrected_label_favours(judgement):
    assert judgement.suggested.tolist() == [0, 0, 2]


def test_the_class_prior_is_the_mean_of_the_corrected_labels(judgement):
    """Columns sum to 2.15, 0.25 and 0.6, of 3 in all."""
    assert np.allclose(judgement.class_prior, [2.15 / 3, 0.25 / 3, 0.2])


def test_trusted_includes_the_threshold(judgement):
    assert judgement.trusted(0.5).tolist() == [True, False, True]


def test_looking_changes_nothing(judgement):
    before = judgement.prediction.copy()
    assert np.array_equal(judgement.corrected, judgement.corrected)
    assert np.array_equal(judgement.prediction, before)


def test_without_an_opinion_a_label_is_believed_as_far_as_it_is_predicted():
    prediction = np.array([[0.2, 0.8], [0.9, 0.1]], np.float32)
    plain = Judgement.of(prediction, np.array([0, 0]))
    assert np.allclose(plain.clean_probability, [0.2, 0.9])
    assert np.isnan(plain.epistemic).all()
    assert np.isnan(plain.aleatoric).all()


@pytest.mark.parametrize("kind", ["posterior", "omega", "algorithm", "mixture"])
def test_what_is_stored_is_read_again(judgement, kind, tmp_path):
    np.savez(tmp_path / "judgement.npz", **replace(judgement, score_kind=kind).stored())
    with np.load(tmp_path / "judgement.npz") as content:
        again = Judgement.from_stored(dict(content))
    assert again.corrected.tolist() == judgement.corrected.tolist()
    assert again.score_kind == kind


@pytest.mark.parametrize("kind", [None, "guess"])
def test_a_stored_judgement_without_a_known_kind_of_score_is_refused(judgement, kind):
    content = judgement.arrays() | ({} if kind is None else {"score_kind": np.array(kind)})
    with pytest.raises(ValueError, match="score_kind"):
        Judgement.from_stored(content)


def test_a_posterior_scores_and_suggests(judgement):
    """Third row: the posterior of its given class 2 is 0.3, that of class 1 is 0.6."""
    posterior = np.array([[1.0, 0, 0], [0.5, 0.5, 0], [0.1, 0.6, 0.3]])
    judged = judgement.with_posterior(posterior)
    assert judged.score_kind == "posterior"
    assert judged.clean_probability.tolist() == [1, 0.5, 0.3]
    assert judged.suggested.tolist() == [0, 0, 1]
    assert judged.issues(0.5).tolist() == [False, False, True]
    assert judged.prediction is judgement.prediction


def test_judgements_of_two_parts_become_one_in_the_order_of_the_rows(judgement):
    whole = replace(judgement, score_kind="omega")
    first, second = whole.select(np.array([0, 2])), whole.select(np.array([1]))
    again = first.combined_with(second, np.array([0, 2]), np.array([1]))
    for name, values in whole.arrays().items():
        np.testing.assert_array_equal(again.arrays()[name], values)
    assert again.score_kind == "omega"


@pytest.mark.parametrize("kind", ["posterior", "omega", "algorithm", "mixture"])
def test_every_table_names_the_kind_of_score(judgement, kind):
    judgement = replace(judgement, score_kind=kind)
    columns = label_columns(judgement, ("cat", "dog", "cow"), 0.5)
    frame = label_frame(judgement, np.array(["cat", "dog", "cow"]), 0.5)
    assert set(columns["score_kind"]) == set(frame["score_kind"]) == {kind}
    assert list(columns) == list(frame.columns) == LABEL_COLUMNS
    assert health(judgement, ("cat", "dog", "cow"), 0.5)["score_kind"] == kind


def test_the_table_has_the_most_suspicious_label_first(judgement):
    """Of the two that stay, the third is less likely right; its loss −log(10⁻⁸) is cut."""
    rows = list(label_rows(judgement, ("cat", "dog", "cow"), 0.6))
    assert [row["id"] for row in rows] == [1, 2, 0]
    assert rows[0] == {
        "id": 1,
        "is_label_issue": True,
        "label_score": 0.0,
        "score_kind": "algorithm",
        "given_label": "dog",
        "predicted_label": "cat",
        "suggested_label": "cat",
        "epistemic": 0.5,
        "aleatoric": 0.2,
        "loss": round(-np.log(0.2), 6),
    }
    # Doubted, but nothing better is suggested.
    assert rows[1]["is_label_issue"] is False
    assert rows[1]["epistemic"] is None
    assert rows[1]["loss"] == pytest.approx(18.420681)


def test_the_csv_has_a_header_and_a_line_a_label(judgement):
    lines = (
        as_csv(label_columns(judgement, ("cat", "dog", "cow, brown"), 0.5)).decode().splitlines()
    )
    assert lines[0].split(",") == LABEL_COLUMNS
    assert lines[1].startswith("1,True,0.0,algorithm,dog,cat,cat,0.5,0.2,")
    assert '"cow, brown"' in lines[2]
    assert len(lines) == 4


def test_the_csv_holds_what_the_rows_hold_to_the_byte(judgement):
    """As `csv` writes the rows: a gap is nothing, a number as Python spells it."""
    names, ids = ("cat", "dog", "cow"), ("/a/ü.png", "x,y", 'quoted "z"')
    rows = label_rows(judgement, names, 0.5, ids)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, LABEL_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    assert as_csv(label_columns(judgement, names, 0.5, ids)) == buffer.getvalue().encode()


@pytest.mark.parametrize("ids", [None, ("a", "b", "c")])
def test_parquet_holds_the_same_as_csv_with_types(judgement, ids):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    verified = np.array([True, False, False])
    columns = label_columns(judgement, ("cat", "dog", "cow"), 0.5, ids, verified)
    text = pd.read_csv(io.BytesIO(as_csv(columns)))
    typed = pd.read_parquet(io.BytesIO(as_parquet(columns)))
    assert list(typed.columns) == [*LABEL_COLUMNS, "verified"]
    assert typed["is_label_issue"].dtype == bool
    assert typed["epistemic"].isna().sum() == 1
    pd.testing.assert_frame_equal(text, typed, check_dtype=False)


def test_verified_labels_are_marked_and_come_last(judgement):
    verified = np.array([False, True, False])
    columns = label_columns(
        judgement.with_verified(verified), ("cat", "dog", "cow"), 0.6, verified=verified
    )
    assert list(columns) == [*LABEL_COLUMNS, "verified"]
    assert columns["id"].tolist() == [2, 0, 1]
    assert columns["verified"].tolist() == [False, False, True]
    assert not columns["is_label_issue"].any()
    assert columns["label_score"][2] == 1


def test_corrected_takes_the_suggestion_of_issues_only(judgement):
    """The third is doubted, but its own class is suggested."""
    columns = corrected_columns(judgement, ("cat", "dog", "cow"), 0.6, ("a", "b", "c"))
    assert as_csv(columns).decode() == "id,label\na,cat\nb,cat\nc,cow\n"


def test_a_verified_label_is_sure_in_score_and_posterior(judgement):
    posterior = np.array([[1.0, 0, 0], [0.5, 0.5, 0], [0.1, 0.6, 0.3]])
    verified = judgement.with_posterior(posterior).with_verified(np.array([False, True, True]))
    assert verified.clean_probability.tolist() == [1, 1, 1]
    assert verified.posterior.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert verified.suggested.tolist() == [0, 1, 2]


def test_a_kind_of_score_that_does_not_fit_the_arrays_is_refused(judgement):
    judgement.check_shapes(3, 3)
    posterior = judgement.with_posterior(np.full((3, 3), 1 / 3))
    posterior.check_shapes(3, 3)
    for wrong in (replace(judgement, score_kind="posterior"), replace(posterior, posterior=None)):
        with pytest.raises(ValueError, match="score_kind is posterior, which does not fit"):
            wrong.check_shapes(3, 3)
