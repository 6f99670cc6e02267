"""Sentences from CSV to corrected CSV: audit, report, decisions, apply, predict."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ulc as package
from stub_runs import judged_run
from stub_sentences import make_messages
from ulc.config import DataSpec
from ulc.errors import InputError
from ulc.report.examples import find_examples

MESSAGES = make_messages(40)


@pytest.mark.slow
def test_sentences_walk_from_csv_to_corrected_csv(ulc):
    table = make_messages(1000)
    table.drop(columns="truth").to_csv("mail.csv", index=False)
    code, printed = ulc(
        "audit", "mail.csv", "--label", "topic", "--id", "number", "--text", "message",
        "--epochs", 10,
    )  # fmt: skip
    assert code == 0, printed.err
    assert "features of sentences: TF-IDF of" in printed.err
    (audit,) = Path("audits").glob("mail-audit-*")
    labels = pd.read_csv(audit / "labels.csv").set_index("id")
    wrong = (table["topic"] != table["truth"]).to_numpy()
    found = labels["is_label_issue"][table["number"]].to_numpy()
    assert wrong[found].mean() > 0.9
    assert found[wrong].mean() > 0.5  # most wrong labels
    issues = labels[labels["is_label_issue"]]
    decisions = pd.DataFrame({"id": issues.index, "decision": "accept"})
    decisions.to_csv("decisions.csv", index=False)
    code, printed = ulc("apply", audit, "decisions.csv")
    assert code == 0, printed.err
    assert "ulc audit mail.corrected.csv --label topic --text message --id number" in printed.out
    corrected = pd.read_csv("mail.corrected.csv")
    assert (corrected["topic"] != table["truth"]).sum() < wrong.sum() / 2
    assert corrected["message"].equals(table["message"])
    assert set(corrected["number"][corrected["verified"] == 1]) == set(issues.index)
    new = make_messages(100, seed=1)
    new.drop(columns=["topic", "truth"]).to_csv("new.csv", index=False)
    code, printed = ulc("predict", audit, "new.csv", "--out", "predictions.csv")
    assert code == 0, printed.err
    predicted = pd.read_csv("predictions.csv")
    assert (predicted["predicted_label"] == new["truth"]).mean() > 0.9


@pytest.mark.slow
def test_a_run_predicts_new_sentences_by_what_was_fitted():
    MESSAGES.to_csv("mail.csv", index=False)
    data = DataSpec(source="table", path="mail.csv", label="topic", text="message", id="number")
    spec = package.with_preset(package.RunSpec(data=data, algorithm="ce", epochs=2))
    run = package.train(spec)
    whole = run.predict(MESSAGES, probabilities=True)
    listed = run.predict(list(MESSAGES["message"]), probabilities=True)
    columns = [name for name in whole if name.startswith("p_") or name == "confidence"]
    assert np.allclose(whole[columns], listed[columns], atol=1e-5)
    scored = run.predict(list(MESSAGES["message"]), labels=list(MESSAGES["topic"]))
    assert (scored["given_label"] == MESSAGES["topic"]).all()
    with pytest.raises(InputError, match="no column 'message'"):
        run.predict(MESSAGES.drop(columns="message"))
    (run.path / "text.npz").write_bytes(b"")
    with pytest.raises(InputError, match=r"text.npz is damaged"):
        run.predict(MESSAGES)


@pytest.mark.parametrize("option", ["message", None])
def test_the_report_shows_the_sentences(option):
    long = MESSAGES.assign(message=MESSAGES["message"] + " really" * 40)
    long.drop(columns="truth").to_csv("mail.csv", index=False)
    data = DataSpec(source="table", path="mail.csv", label="topic", text=option, id="number")
    other = next(name for name in ("delivery", "payment") if name != long["topic"][3])
    folder = judged_run(data, {3: other})
    shown = find_examples(folder, np.array([3]), ["M0003"])
    assert shown.note is None
    assert shown.columns == ("message",)
    assert list(shown.values[0]) == [long["message"][3]]


def test_a_backbone_of_images_is_refused_for_sentences(ulc):
    MESSAGES.to_csv("mail.csv", index=False)
    code, printed = ulc("audit", "mail.csv", "--label", "topic", "--text", "message",
                        "--embed", "model2vec:potion")  # fmt: skip
    assert code != 0
    assert "give a model of sentences with --text-model" in printed.err
