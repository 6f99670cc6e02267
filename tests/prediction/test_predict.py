"""`ulc predict` on every kind of data, by the command and in Python."""

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from ulc import load_run
from ulc.config import DataSpec, RunSpec
from ulc.errors import InputError
from ulc.training.run import run as train_run

NAMES = ("cat", "dog", "чай")
SCORED = {"is_label_issue", "label_score", "score_kind", "given_label", "suggested_label", "loss"}


def rows(count=60, seed=0):
    """A table: two numbers and a word that depend on the class, and the class."""
    rng = np.random.default_rng(seed)
    kind = np.arange(count) % 3
    return pd.DataFrame(
        {
            "name": [f"r{seed}-{i}" for i in range(count)],
            "kind": np.array(NAMES)[kind],
            "a": 3.0 * (kind == 1) + rng.normal(size=count) / 9,
            "b": 3.0 * (kind == 2) + rng.normal(size=count) / 9,
            "class": np.where(kind == 0, "low", "high"),  # a feature, whatever it is called
        }
    )


def pictures(folder, size=12, count=8, mode="RGB"):
    """A folder of images for each class; the brightness depends on the class."""
    rng = np.random.default_rng(size)
    for number in range(3 * count):
        path = Path(folder, NAMES[number % 3], f"{number}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 40, (size, size, 3)) + 100 * (number % 3)
        Image.fromarray(pixels.astype(np.uint8)).convert(mode).save(path)


def trained(out, source, path, algorithm="ce", epochs=6, **data):
    options = {"batch_size": 16} | ({"warmup_epochs": 4} if algorithm == "ulc" else {})
    spec = RunSpec(
        data=DataSpec(source=source, path=str(path), **data),
        algorithm=algorithm,
        options=options,
        epochs=epochs,
    )
    return train_run(spec, out).path


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def table_run(home):
    rows().to_csv(home / "table.csv", index=False)
    return trained(
        home,
        "table",
        home / "table.csv",
        "ulc",
        label="kind",
        id="name",
        features=("a", "b", "class"),
    )


@pytest.fixture(scope="module")
def picture_run(home):
    pictures(home / "photos")
    return trained(home, "folder", home / "photos")


@pytest.fixture(scope="module")
def vector_run(home):
    table = rows()
    np.savez(home / "vectors.npz", X=table[["a", "b"]].to_numpy(), y=np.arange(60) % 3)
    return trained(home, "npz", home / "vectors.npz", epochs=30)


@pytest.fixture
def predicted(ulc):
    """Run the command and read the table it wrote."""

    def call(*arguments):
        code, printed = ulc("predict", *arguments, "--out", "p.csv", "--quiet")
        assert (code, printed.out, printed.err) == (0, "", "")
        return pd.read_csv("p.csv")

    return call


def test_a_table_is_predicted_as_the_model_does_and_its_labels_are_scored(table_run, predicted):
    new = rows(30, seed=1)
    new.loc[0, "kind"] = "dog"  # it is a cat
    new.to_csv("new.csv", index=False)
    found = predicted(table_run, "new.csv", "--probabilities")
    assert list(found.columns[:5]) == [
        "id", "predicted_label", "confidence", "epistemic", "aleatoric",
    ]  # fmt: skip
    assert set(found.columns) > SCORED
    assert list(found["id"]) == list(new["name"])
    assert list(found["given_label"]) == list(new["kind"])
    run = load_run(table_run)
    from ulc.prediction.predictor import Predictor

    model_input = Predictor.open(run.folder, "cpu").model_input
    wanted = run.model.predict_proba(model_input.encoding.transform(new, "new"))
    written = found[[f"probability_{name}" for name in NAMES]].to_numpy()
    np.testing.assert_allclose(written, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["confidence"], wanted.max(1), rtol=1e-4)
    assert list(found["predicted_label"]) == list(np.array(NAMES)[wanted.argmax(1)])
    assert found["is_label_issue"][0]
    assert found["suggested_label"][0] == "cat"
    assert found["label_score"].idxmin() == 0
    assert found["epistemic"].between(0, 1).all()
    assert (found["aleatoric"] > 0).all()


def test_labels_may_be_missing_partly_or_altogether(table_run, predicted):
    new = rows(9, seed=1)
    without = new.drop(columns=["kind", "name"])
    without.to_parquet("new.parquet")
    bare = predicted(table_run, "new.parquet")
    assert not SCORED & set(bare.columns)
    assert list(bare["id"]) == list(range(9))
    new["kind"] = ["cat", None, "llama", "cat", "", "dog", "cat", "dog", "чай"]
    new.to_csv("new.tsv", sep="\t", index=False)
    found = predicted(table_run, "new.tsv")
    np.testing.assert_allclose(found["confidence"], bare["confidence"], rtol=1e-5)
    nothing = found["label_score"].isna()
    assert list(np.flatnonzero(nothing)) == [1, 2, 4]
    assert found["given_label"][2] == "llama"
    assert found["is_label_issue"][nothing].isna().all()
    assert found["suggested_label"][nothing].isna().all()


def test_numbers_of_classes_are_read_as_the_run_calls_them(vector_run, home, predicted):
    table = rows(12, seed=2)[["a", "b"]].to_numpy()
    labels = np.arange(12) % 3
    np.savez("ints.npz", X=table, y=labels)
    np.savez("floats.npz", X=table, y=labels.astype(float), ids=[f"n{i}" for i in range(12)])
    np.savez("named.npz", X=table, y=2 - labels, class_names=["2", "1", "0"])
    one, other, named = (predicted(vector_run, f"{f}.npz") for f in ("ints", "floats", "named"))
    assert list(one["given_label"]) == list(labels)
    assert list(one["predicted_label"]) == list(labels)
    pd.testing.assert_frame_equal(one.drop(columns="id"), other.drop(columns="id"))
    pd.testing.assert_frame_equal(one, named)
    assert other["id"][3] == "n3"
    np.savez("none.npz", X=table)
    np.savez("minus.npz", X=table, y=np.full(12, -1))
    for name in ("none", "minus"):
        assert not SCORED & set(predicted(vector_run, f"{name}.npz").columns)


def test_loose_pictures_of_any_size_and_mode_are_predicted(picture_run, predicted):
    Path("loose").mkdir()
    for number, (size, mode) in enumerate([((12, 12), "RGB"), ((40, 30), "L"), ((9, 50), "RGBA")]):
        Image.new(mode, size, 210 if mode == "L" else (210,) * len(mode)).save(
            f"loose/{number}.png"
        )
    found = predicted(picture_run, "loose")
    assert [Path(name).name for name in found["id"]] == ["0.png", "1.png", "2.png"]
    assert not SCORED & set(found.columns)
    assert found["confidence"][0] == pytest.approx(found["confidence"][1], rel=1e-4)


def test_class_folders_are_labels_and_other_folders_are_not(picture_run, predicted):
    pictures("new", size=20, count=2)
    found = predicted(picture_run, "new")
    assert [Path(name).parent.name for name in found["id"]] == list(found["given_label"])
    assert found["label_score"].between(0, 1).all()
    Path("new/cat").rename("new/january")
    some = predicted(picture_run, "new")
    assert some["label_score"].isna().sum() == (some["given_label"] == "january").sum() == 2
    for name in ("dog", "чай"):
        Path("new", name).rename(f"new/not {name}")
    assert not SCORED & set(predicted(picture_run, "new").columns)


def test_pictures_that_a_table_lists_or_an_array_holds_are_the_same(picture_run, predicted):
    pictures("new", count=1)
    paths = sorted(Path("new").rglob("*.png"))
    folder = predicted(picture_run, "new")
    pd.DataFrame({"where": paths, "label": [each.parent.name for each in paths]}).to_csv("l.csv")
    listed = predicted(picture_run, "l.csv", "--image", "where")
    pd.testing.assert_frame_equal(folder.drop(columns="id"), listed.drop(columns="id"))
    images = np.stack([np.asarray(Image.open(each)) for each in paths])
    np.savez("images.npz", X=images)
    array = predicted(picture_run, "images.npz")
    np.testing.assert_allclose(array["confidence"], folder["confidence"], rtol=1e-5)
    in_python = load_run(picture_run).predict(images, labels=list(folder["given_label"]))
    np.testing.assert_allclose(in_python["label_score"], folder["label_score"], rtol=1e-4)


def test_a_hugging_face_folder_is_predicted(table_run, picture_run, predicted, capsys):
    datasets = pytest.importorskip("datasets")
    new = rows(9, seed=3)
    datasets.DatasetDict({"later": datasets.Dataset.from_pandas(new)}).save_to_disk("hf")
    new.to_csv("new.csv", index=False)
    capsys.readouterr()  # datasets shows bars as it saves
    wanted = predicted(table_run, "new.csv")
    pd.testing.assert_frame_equal(predicted(table_run, "hf"), wanted)
    pictures("new", count=1)
    paths = sorted(map(str, Path("new").rglob("*.png")))
    images = datasets.Dataset.from_dict({"image": paths, "label": [2, -1, 0]})
    kinds = datasets.ClassLabel(names=["чай", "dog", "cat"])
    images.cast_column("image", datasets.Image()).cast_column("label", kinds).save_to_disk("hf2")
    capsys.readouterr()
    found = predicted(picture_run, "hf2")
    assert [found["given_label"][0], found["given_label"][2]] == ["cat", "чай"]
    assert found["label_score"].isna().tolist() == [False, True, False]


def test_frames_in_python_give_the_table_of_the_command(table_run, predicted):
    new = rows(9, seed=4)
    new.to_csv("new.csv", index=False)
    wanted = predicted(table_run, "new.csv")
    found = load_run(table_run).predict(new.set_axis(range(7, 16)))
    assert list(found.columns) == list(wanted.columns)
    np.testing.assert_allclose(found["label_score"], wanted["label_score"], rtol=1e-4)


def test_in_python_a_mistake_is_one_sentence_too(table_run, vector_run):
    with pytest.raises(InputError, match="labels= is only for an array"):
        load_run(table_run).predict(rows(3), labels=["cat"] * 3)
    with pytest.raises(InputError, match="'label' is not for an array"):
        load_run(vector_run).predict(np.ones((3, 2)), label="kind")
    with pytest.raises(InputError, match="data: 2 labels for 3 rows"):
        load_run(vector_run).predict(np.ones((3, 2)), labels=[1, 2])
    with pytest.raises(InputError, match=r"prior .* does not fit; give 3 non-negative"):
        load_run(vector_run).predict(np.ones((3, 2)), prior=(1, 2))


def test_the_prior_changes_predictions_but_not_the_opinion_on_labels(table_run, predicted):
    rows(30, seed=5).to_csv("new.csv", index=False)
    one = predicted(table_run, "new.csv")
    other = predicted(table_run, "new.csv", "--prior", "balanced")
    assert not np.array_equal(one["confidence"], other["confidence"])
    for name in ("label_score", "suggested_label", "loss"):
        pd.testing.assert_series_equal(one[name], other[name])


def test_without_a_file_the_table_goes_to_the_screen_and_the_summary_beside(vector_run, ulc):
    np.savez("new.npz", X=rows(6)[["a", "b"]].to_numpy(), y=np.arange(6) % 3)
    code, printed = ulc("predict", vector_run, "new.npz")
    assert code == 0
    assert len(pd.read_csv(io.StringIO(printed.out))) == 6
    assert "new.npz: 6 rows predicted: 2 0, 2 1, 2 2" in printed.err
    assert "0 of 6 labels look wrong; 100.0 % are as predicted" in printed.err
    code, printed = ulc("predict", vector_run, "new.npz", "--json", "--quiet")
    told = json.loads(printed.out)
    assert told["labels"] == {
        "scored": 6, "missing": 0, "unknown": 0, "issues": 0, "agreement": 1.0,
    }  # fmt: skip
    assert len(told["rows_predicted"]) == 6
    ulc("predict", vector_run, "new.npz", "--out", "p.parquet", "-q")
    assert list(pd.read_parquet("p.parquet")["id"]) == list(range(6))


def test_broken_pictures_stop_it_or_are_left_out(picture_run, ulc):
    pictures("new", count=1)
    Path("new/cat/broken.jpg").write_text("no image")
    code, printed = ulc("predict", picture_run, "new", "-q")
    assert code == 2
    assert "broken.jpg: not a readable image" in printed.err
    code, printed = ulc("predict", picture_run, "new", "--skip-broken", "--json", "-q")
    told = json.loads(printed.out)
    assert (code, told["rows"], len(told["skipped"])) == (0, 3, 1)


@pytest.fixture
def _mistakes():
    rows(6).to_csv("table.csv", index=False)
    rows(6).drop(columns="a").to_csv("lacks.csv", index=False)
    rows(6).assign(kind="llama").to_csv("llamas.csv", index=False)
    pictures("photos", count=1)
    Path("empty").mkdir()
    np.savez("wide.npz", X=np.ones((4, 3)))
    np.savez("two.npz", X=np.ones((4, 2)))
    np.savez("holes.npz", X=[[1, np.nan]])
    np.savez("no_x.npz", y=[1, 2])
    np.savez("short.npz", X=np.ones((4, 2)), y=[0, 1])
    np.savez("deep.npz", X=np.ones((4, 5, 12, 12), np.uint8))
    np.savez("grey.npz", X=np.ones((4, 12, 12), np.uint8))


@pytest.mark.usefixtures("_mistakes")
@pytest.mark.parametrize(
    ("run", "data", "options", "message"),
    [
        (
            "vector",
            "wide.npz",
            (),
            "wide.npz: vectors of 3 numbers, but the run learned from vectors of 2",
        ),
        ("vector", "holes.npz", (), "row 0, column 1 is nan"),
        ("vector", "no_x.npz", (), "has no array 'X'"),
        ("vector", "short.npz", (), "short.npz: 2 labels for 4 rows"),
        ("vector", "table.csv", (), "a table, but the run learned from vectors of 2 numbers"),
        ("vector", "photos", (), "images, but the run learned from vectors of 2 numbers"),
        ("vector", "grey.npz", (), "images, but the run learned from vectors of 2 numbers"),
        ("vector", "two.npz", ("--label", "y"), "has no option 'label'"),
        ("table", "photos", (), "images, but the run learned from a table"),
        ("table", "two.npz", (), "vectors, but the run learned from a table"),
        ("table", "lacks.csv", (), "no column 'a', which the model was trained on"),
        ("table", "table.csv", ("--label", "sort"), "no column 'sort'"),
        ("table", "llamas.csv", (), "no label is a class of the run (the first is 'llama'"),
        ("picture", "two.npz", (), "vectors, but the run learned from images"),
        ("picture", "deep.npz", (), "images have 5 channels; give 3"),
        ("picture", "table.csv", (), "no column of image paths"),
        ("picture", "empty", (), "empty: holds no images"),
        ("picture", "gone", (), "gone: no such file or folder"),
        ("picture", "folder:gone", (), "gone: no such folder; give a folder of images"),
        ("vector", "fashion", (), "images, but the run learned from vectors of 2 numbers"),
        ("table", "table.csv", ("--prior", "even"), "unknown prior 'even'"),
        ("table", "table.csv", ("--out", "p.txt"), "let the name end in .csv or .parquet"),
        ("table", "table.csv", ("--out", "no/p.csv"), "there is no folder no"),
        ("table", "table.csv", ("--out", "table.csv"), "these are the data themselves"),
        ("table", "table.csv", ("--device", "moon"), "device 'moon' does not work"),
    ],
)
def test_a_mistake_ends_in_one_sentence(ulc, request, run, data, options, message):
    folder = request.getfixturevalue(f"{run}_run")
    before = sorted(Path().rglob("*"))
    code, printed = ulc("predict", folder, data, *options, "--quiet")
    assert code == 2
    assert message in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert sorted(Path().rglob("*")) == before


def test_what_is_no_run_or_no_finished_one_is_said(ulc):
    np.savez("x.npz", X=np.ones((2, 2)))
    assert "not a run folder" in ulc("predict", "nowhere", "x.npz")[1].err
    Path("half").mkdir()
    Path("half/spec.toml").write_text(RunSpec().write())
    assert "the run is unfinished" in ulc("predict", "half", "x.npz")[1].err


def test_two_splits_without_one_for_training_are_a_question(table_run, ulc):
    datasets = pytest.importorskip("datasets")
    split = datasets.Dataset.from_pandas(rows(3))
    datasets.DatasetDict({"may": split, "june": split}).save_to_disk("hf")
    assert (
        "hf: has the splits may, june; give the folder of one"
        in ulc("predict", table_run, "hf")[1].err
    )
    assert ulc("predict", table_run, "hf/june", "-q")[0] == 0


def test_what_is_left_out_or_not_scored_is_told(table_run, picture_run, ulc):
    new = rows(9, seed=6)
    new.loc[[0, 4], "kind"] = None
    new.loc[5, "kind"] = "llama"
    new.to_csv("new.csv", index=False)
    _, printed = ulc("predict", table_run, "new.csv", "--out", "p.csv")
    assert printed.out.startswith("p.csv: 9 rows predicted: ")
    assert printed.out.endswith("; 2 missing, not scored; 1 unknown, not scored\n")
    pictures("new", count=1)
    Path("new/cat/broken.jpg").write_text("no image")
    _, printed = ulc("predict", picture_run, "new", "--skip-broken", "--out", "p.csv")
    assert "; 1 unreadable images left out\n" in printed.out


def test_a_column_of_labels_without_a_label_counts_as_none(table_run, predicted):
    rows(6, seed=7).assign(kind=None).to_csv("new.csv", index=False)
    assert SCORED.isdisjoint(predicted(table_run, "new.csv").columns)


def test_a_column_without_images_is_refused(picture_run, ulc):
    datasets = pytest.importorskip("datasets")
    pictures("new", count=1)
    paths = sorted(map(str, Path("new").rglob("*.png")))
    images = datasets.Dataset.from_dict({"image": paths, "label": ["cat", "dog", "чай"]})
    images.cast_column("image", datasets.Image()).save_to_disk("hf")
    code, printed = ulc("predict", picture_run, "hf", "--image", "label", "-q")
    assert code == 2
    assert "hf: the column 'label' holds no images; name another with --image" in printed.err
