"""A user's own data from the file to the table of labels."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ulc import load_run, train
from ulc.cli import main, tables
from ulc.config import DataSpec, ImbalanceSpec, NoiseSpec, RunSpec
from ulc.data.prepare import label, prepare
from ulc.data.table_encoding import TableEncoding

KINDS = ("cat", "dog", "чай")


def write_table(rows=60, name="data.csv"):
    """Ids out of order, labels as text, the id's number as a feature."""
    order = np.random.default_rng(0).permutation(rows)
    lines = [f"r{i},{KINDS[i % 3]},{KINDS[i % 3]},{'yes' if i < 9 else 'no'},{i}" for i in order]
    Path(name).write_text("\n".join(["id,label,true_label,verified,a", *lines]), encoding="utf-8")
    return [f"r{i}" for i in order]


def spec(source, path, **change):
    data = DataSpec(source=source, path=path, **change.pop("data", {}))
    return RunSpec(data=data, algorithm="ce", options={"batch_size": 8}, epochs=1, **change)


def table_of(run):
    with (run.path / "labels.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_ids_and_labels_survive_to_the_table_of_labels():
    write_table()
    run = train(spec("table", "data.csv"))
    rows = table_of(run)
    assert {row["id"] for row in rows} == {f"r{i}" for i in range(60)}
    for row in rows:
        assert row["given_label"] == KINDS[int(row["id"][1:]) % 3]
    assert run.folder.ids == write_table()
    shown = tables.suspects_table(run.folder, 3)
    assert list(shown.columns[0].cells) == [row["id"] for row in rows[:3]]


def test_what_was_kept_of_uneven_classes_keeps_its_id_and_its_flag():
    write_table()
    uneven = ImbalanceSpec(kind="half", ratio=5)
    cut = label(spec("table", "data.csv", imbalance=uneven)).source
    assert len(cut.ids) == len(cut.labels) == len(cut.verified) < 60
    for name, number, checked in zip(cut.ids, cut.labels, cut.verified, strict=True):
        assert KINDS[number] == KINDS[int(name[1:]) % 3]
        assert checked == (int(name[1:]) < 9)
    prepared = prepare(spec("table", "data.csv", imbalance=uneven), torch.device("cpu"))
    assert prepared.ids == cut.ids
    assert np.array_equal(prepared.verified, cut.verified)
    assert prepared.facts["verified"] == cut.verified.sum()


@pytest.mark.parametrize("kind", ["symmetric", "file"])
def test_noise_does_not_touch_what_was_checked(kind):
    write_table()
    Path("labels.json").write_text(json.dumps([0] * 60))
    noise = NoiseSpec(kind=kind, rate=1.0, file="labels.json")
    noisy = label(spec("table", "data.csv", noise=noise))
    clean = label(spec("table", "data.csv"))
    wrong = noisy.given != clean.given
    assert not wrong[clean.source.verified].any()
    assert wrong[~clean.source.verified].any()


def test_the_encoding_is_kept_with_the_run():
    write_table()
    run = train(spec("table", "data.csv"))
    kept = TableEncoding.model_validate(run.folder.read_json("encoding.json"))
    assert kept == label(spec("table", "data.csv")).source.encoding
    again = load_run(run.path)
    assert again.model.predict_proba(np.zeros((2, 1))).shape == (2, 3)


def test_a_folder_of_images_is_judged_by_path_and_what_was_skipped_is_recorded():
    rng = np.random.default_rng(0)
    for number in range(24):
        path = Path("фото", KINDS[number % 3])
        path.mkdir(parents=True, exist_ok=True)
        size = (int(rng.integers(20, 40)), 30, 3)
        Image.fromarray(rng.integers(0, 256, size, dtype=np.uint8)).save(path / f"{number}.png")
    Path("фото/cat/broken.jpg").write_text("no image")
    run = train(spec("folder", "фото", data={"skip_broken": True, "size": 16}))
    rows = table_of(run)
    assert len(rows) == 24
    for row in rows:
        assert Path(row["id"]).is_file()
        assert row["given_label"] == Path(row["id"]).parent.name
    facts = run.folder.read_json("data.json")
    assert facts["skipped"] == [str(Path("фото/cat/broken.jpg").absolute())]
    assert not run.folder.has("encoding.json")


def test_the_command_takes_the_names_of_columns(monkeypatch, capsys):
    lines = [f"n{i},{KINDS[i % 3]},{KINDS[(i + i // 9) % 3]},{i}" for i in range(30)]
    Path("own.tsv").write_text("\n".join(["name,truth,kind,a", *lines]).replace(",", "\t"))
    typed = "train own.tsv --label kind --id name --true-label truth -a ce --epochs 1 --json"
    monkeypatch.setattr(sys, "argv", ["ulc", *typed.split(), "--set", "batch_size=8"])
    with pytest.raises(SystemExit):
        main()
    (run,) = json.loads(capsys.readouterr().out)
    assert run["summary"]["labels"]["auc"] is not None
    rows = table_of(load_run(run["run"]))
    assert {row["id"] for row in rows} == {f"n{i}" for i in range(30)}


def test_where_rows_have_no_names_the_table_counts_them():
    np.savez("toy.npz", X=np.arange(24.0).reshape(12, 2), y=["u", "v"] * 6)
    run = train(spec("npz", "toy.npz"))
    assert {row["id"] for row in table_of(run)} == set(map(str, range(12)))
    assert run.folder.ids is None
    assert not run.folder.has("ids.json")


def test_a_class_with_one_member_and_a_thousand_classes_can_be_trained_on():
    lines = [f"{i % 1000},{i},{i % 7}" for i in range(1001)]
    Path("many.csv").write_text("\n".join(["label,a,b", *lines]))
    run = train(spec("table", "many.csv"))
    assert len(run.judgement.given) == 1001
    assert run.judgement.prediction.shape == (1001, 1000)
