"""Whole audits: files, results, the model that is handed over, resuming, bad input."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ulc
from ulc.auditing import AuditProgress
from ulc.cli.audit_command import describe_scores, describe_warnings
from ulc.config import RunSpec
from ulc.errors import InputError
from ulc.storage.run_folder import RunFolder
from ulc.training.loop import TrainingProgress
from ulc.training.model import Model
from ulc.training.run import run


def audit(*arguments, **settings):
    return ulc.audit(*arguments, **settings).folder


QUICK = {"epochs": 3, "options": {"passes": 2, "warmup_epochs": 1}}


def blobs(rows=300, classes=3, wrong=0.2, seed=0, apart=4.0):
    """Classes that are easy to tell apart; a share of the labels moved."""
    rng = np.random.default_rng(seed)
    true = np.arange(rows) % classes
    vectors = (rng.normal(size=(rows, 5)) + apart * np.eye(classes, 5)[true]).astype(np.float32)
    given = true.copy()
    moved = rng.permutation(rows)[: round(wrong * rows)]
    given[moved] = (true[moved] + rng.integers(1, classes, len(moved))) % classes
    return vectors, given, true


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """One audit that several tests read, of a file with ids out of order and text labels."""
    root = tmp_path_factory.mktemp("audited")
    vectors, given, true = blobs()
    names = np.array(["ant", "bee", "cow"])
    ids = np.array([f"row {7 * i % 300}" for i in range(300)])
    file = root / "data.npz"
    np.savez(file, X=vectors, y=names[given], y_true=names[true], ids=ids)
    recorder = Recorder()
    folder = audit(file, root / "audits", progress=recorder, epochs=20)
    return folder, recorder, names[given], names[true], ids


class Recorder(AuditProgress):
    def __init__(self):
        self.choices, self.stages = [], []

    def on_choice(self, choice):
        self.choices.append(choice)

    def training(self, title, epochs):
        self.stages.append(title)
        return super().training(title, epochs)


def test_an_audit_is_a_complete_run_folder(audited):
    folder, *_ = audited
    names = {path.name for path in folder.path.iterdir()}
    assert {
        "audit.toml", "audit.json", "noise.json", "spec.toml", "labels.csv", "corrected.csv",
        "judgement.npz", "health.json", "model.safetensors", "model.json", "records.jsonl",
        "summary.json", "ids.json", "data.json", "environment.json", "done",
    } <= names  # fmt: skip
    assert RunFolder.open(folder.path).done
    assert len(folder.judgement.given) == 300
    assert ulc.load_run(folder.path).model.spec.class_names == ("ant", "bee", "cow")


def test_wrong_labels_are_found_and_better_ones_suggested(audited):
    folder, _, given, true, ids = audited
    table = pd.read_csv(folder.path / "labels.csv").set_index("id").loc[ids]
    assert (table["given_label"] == given).all()
    wrong = given != true
    flagged = table["is_label_issue"].to_numpy()
    assert flagged[wrong].mean() > 0.9
    assert flagged[~wrong].mean() < 0.03
    assert (table["suggested_label"] == true).mean() > 0.95
    assert (table["is_label_issue"] == (table["suggested_label"] != table["given_label"])).all()
    content = folder.read_json("audit.json")
    assert content["noise_rate"] == pytest.approx(wrong.mean(), abs=0.06)


def test_every_choice_is_reported_with_reason_and_option(audited):
    folder, recorder, *_ = audited
    assert [choice.name for choice in recorder.choices] == [
        "pretrained features", "rows held out", "network", "epochs",
    ]  # fmt: skip
    assert all(choice.why and choice.option.startswith("--") for choice in recorder.choices)
    written = folder.read_json("audit.json")["choices"]
    assert [each["name"] for each in written] == [choice.name for choice in recorder.choices]
    assert recorder.stages == ["plain training", "ULC+"]


def test_the_folder_holds_the_model_that_it_names(audited):
    folder, *_ = audited
    content = folder.read_json("audit.json")
    assert content["handed_over"] == RunFolder(folder.path).spec.algorithm
    assert (Model.load(folder).spec.networks > 1) == (content["handed_over"] == "ulc_plus")


@pytest.mark.slow
def test_with_ten_and_eighty_percent_of_two_classes_wrong_it_ends_no_worse_than_plain():
    """Most labels of one class name a look-alike; true labels only score the result."""
    rng = np.random.default_rng(3)
    vectors, _, true = blobs(rows=600, wrong=0, apart=2.0, seed=3)
    rate = np.array([0.1, 0.8, 0.0])[true]
    given = np.where(rng.random(600) < rate, np.array([1, 2, 2])[true], true)
    np.savez("data.npz", X=vectors, y=given)
    folder = audit("data.npz", epochs=12)
    inner = folder.path / "runs" / folder.read_json("audit.json")["plain"]["run"]
    on_all = run(RunFolder(inner).spec.model_copy(update={"held_out": 0.0}), Path("plain"))
    test, _, labels = blobs(rows=600, wrong=0, apart=2.0, seed=4)
    handed, plain = (
        (Model.load(each).predict_proba(test).argmax(1) == labels).mean()
        for each in (folder, on_all)
    )
    chance = 2 * np.sqrt(2 * plain * (1 - plain) / len(labels))  # two errors of a difference
    assert handed >= plain - chance


def test_a_training_stopped_in_its_middle_keeps_what_it_kept():
    vectors, given, _ = blobs(rows=120)
    np.savez("data.npz", X=vectors, y=given)
    data = {"source": "npz", "path": str(Path("data.npz").absolute())}
    content = {"data": data, "epochs": 5, "held_out": 0.2, "options": {"warmup_epochs": 1}}
    spec = RunSpec.model_validate(content)

    class Stop(TrainingProgress):
        def on_epoch(self, record):
            if record["epoch"] == 3:
                raise KeyboardInterrupt

    whole = run(spec, Path("whole"))
    with pytest.raises(KeyboardInterrupt):
        run(spec, Path("broken"), progress=Stop(), save_every=0)
    again = run(spec, Path("broken"))
    for name in ("labels.csv", "model.safetensors", "judgement.npz"):
        assert again.read(name) == whole.read(name)
    assert (
        again.read_json("summary.json")["kept_epoch"]
        == whole.read_json("summary.json")["kept_epoch"]
    )


def test_the_only_row_of_a_class_is_believed():
    vectors, given, _ = blobs(rows=100, wrong=0.1)
    given[17] = 3
    np.savez("data.npz", X=vectors, y=given)
    table = pd.read_csv(audit("data.npz", **QUICK).path / "labels.csv").set_index("id")
    assert not table["is_label_issue"][17]


def test_a_stopped_audit_goes_on_to_the_same_bits():
    vectors, given, _ = blobs(rows=120)
    np.savez("data.npz", X=vectors, y=given)
    whole = audit("data.npz", "whole", **QUICK)

    class Stop(AuditProgress):
        def training(self, title, epochs):
            if title == "ULC+":
                raise KeyboardInterrupt
            return super().training(title, epochs)

    with pytest.raises(KeyboardInterrupt):
        audit("data.npz", "broken", progress=Stop(), **QUICK)
    (folder,) = Path("broken").iterdir()
    assert not (folder / "done").exists()
    assert not (folder / "labels.csv").exists()
    again = audit("data.npz", "broken", **QUICK)
    for name in ("labels.csv", "model.safetensors", "noise.json"):
        assert again.read(name) == whole.read(name)
    before = (again.path / "labels.csv").stat().st_mtime_ns
    audit("data.npz", "broken", **QUICK)
    assert (again.path / "labels.csv").stat().st_mtime_ns == before


def test_what_a_person_checked_stays_as_it_is():
    vectors, given, true = blobs(rows=300)
    verified = np.zeros(300, bool)
    verified[np.flatnonzero(given != true)[:5]] = True  # wrong, but somebody insists
    np.savez("data.npz", X=vectors, y=given, verified=verified)
    folder = audit("data.npz", epochs=8)
    table = pd.read_csv(folder.path / "labels.csv").set_index("id").sort_index()
    assert not table["is_label_issue"][verified].any()
    assert (table["label_score"][verified] == 1).all()
    assert (table["suggested_label"][verified] == given[verified]).all()


def test_true_labels_change_nothing_but_the_score():
    vectors, given, true = blobs(rows=120)
    np.savez("told.npz", X=vectors, y=given, y_true=true)
    np.savez("plain.npz", X=vectors, y=given)
    tables = [audit(f, **QUICK).read("labels.csv") for f in ("told.npz", "plain.npz")]
    assert tables[0] == tables[1]


def test_the_command_says_what_it_found_and_what_comes_next(ulc):
    vectors, given, _ = blobs(rows=120)
    np.savez("data.npz", X=vectors, y=given)
    common = ("--epochs", 3, "--set", "passes=2", "--set", "warmup_epochs=1")
    code, printed = ulc("audit", "data.npz", *common)
    assert code == 0
    for words in ("look wrong", "Handed over", "labels.csv", "ulc apply", "ulc predict"):
        assert words in printed.out
    for words in ("rows held out", "epochs", "--held-out"):
        assert words in printed.err
    code, printed = ulc("audit", "data.npz", *common, "--json")
    content = json.loads(printed.out)
    assert content["handed_over"] in ("ulc_plus", "ce")
    code, printed = ulc("resume", content["folder"], "--json")
    assert json.loads(printed.out) == content
    code, printed = ulc("show", content["folder"])
    assert code == 0
    assert_review_trains_nothing(ulc, common, content)


def assert_review_trains_nothing(ulc, common, content):
    model = Path(content["folder"], "model.safetensors")
    before = model.stat().st_mtime_ns
    code, printed = ulc("audit", "data.npz", *common, "--review", 7)
    assert code == 0
    assert "Of the 7 labels with the lowest scores" in printed.out
    assert f"ulc report {content['folder']} --review 7" in printed.out.replace("\n", "")
    assert model.stat().st_mtime_ns == before
    table = pd.read_csv(Path(content["folder"], "review.csv"))
    assert len(table) == 7
    _, printed = ulc("audit", "data.npz", *common, "--review", 7, "--json")
    found = json.loads(printed.out)
    assert found.pop("review")["expected_errors"] == pytest.approx(table.expected_errors.iloc[-1])
    assert found == content


def test_signs_of_collapse_are_counted():
    def warnings(*signs):
        training = {"warnings": signs, "kept_epoch": 2}
        return describe_warnings({"plain": training, "ulc_plus": {"warnings": []}})

    assert warnings() == []
    kept = "the model of epoch 2 was kept."
    said = "plain training showed signs of collapse"
    assert warnings("epoch 3: a") == [f"{said} once, in epoch 3: a; {kept}"]
    expected = [f"{said} 2 times, last in epoch 4: b; {kept}"]
    assert warnings("epoch 3: a", "epoch 4: b") == expected


def test_precision_and_recall_are_in_words():
    class Folder:
        def read_json(self, _):
            return {"labels": {"precision": 0.5, "recall": 0.25}}

    assert describe_scores(Folder()) == [
        "By the true labels: of the labels with score below 0.5, 50 % are wrong; of the wrong "
        "labels, 25 % have such a score."
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"X": np.eye(3), "y": [0, 1, 2]}, "3 examples are too few|every class has one row"),
        ({"X": np.eye(4), "y": [0, 0, 0, 0]}, "all labels are the same class"),
        ({"X": [[np.nan]] * 9, "y": [0, 1, 0] * 3}, "missing|not finite|NaN|nan"),
    ],
)
def test_data_that_cannot_be_audited_are_refused_in_a_sentence(ulc, content, message):
    np.savez("data.npz", **content)
    code, printed = ulc("audit", "data.npz")
    assert code == 2
    assert printed.err.strip().splitlines()[-1].startswith("ulc: ")
    assert "Traceback" not in printed.err
    assert re.search(message, printed.err)
    assert not list(Path("audits").glob("*/done"))


def test_wrong_settings_are_refused_in_a_sentence():
    np.savez("data.npz", X=np.eye(8), y=[0, 1] * 4)
    for settings in ({"epochs": 0}, {"held_out": 1.5}, {"embed": 3}, {"wrong": 1}):
        with pytest.raises(InputError, match="audit: "):
            audit("data.npz", **settings)
    with pytest.raises(InputError, match="unknown key"):
        audit("data.npz", options={"no_such": 1})
