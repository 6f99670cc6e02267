"""Decisions about labels change a copy of the data, and the copy can be read again."""

import csv
import json
import os
import shlex
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import ulc as package
from stub_runs import judged_run
from ulc.applying.image_paths import path_in_table
from ulc.config import DataSpec, NoiseSpec, RunSpec
from ulc.data.prepare import label, prepare
from ulc.errors import InputError
from ulc.storage.run_folder import RunFolder

KINDS = ("cat", "dog", "чай")


def write_images(folder="photos", count=12):
    rng = np.random.default_rng(0)
    for number in range(count):
        path = Path(folder, KINDS[number % 3])
        path.mkdir(parents=True, exist_ok=True)
        image = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(image).save(path / f"{number}.png")


def write_decisions(*rows, header="id,decision,label", name="decisions.csv"):
    Path(name).write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return name


def prepared(path, **options):
    source = "npz" if str(path).endswith(".npz") else "table"
    spec = RunSpec(data=DataSpec(source=source, path=str(path), **options))
    return prepare(spec, torch.device("cpu"))


def read_rows(path):
    with Path(path).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def names_of(ready):
    return [ready.class_names[k] for k in ready.training.given.tolist()]


TABLE = "id,kind,label,note\n" + "".join(
    f"r{i},{i % 2},{KINDS[i % 3]},{'NA' if i % 2 else ' x'}\n" for i in range(9)
)


@pytest.fixture
def table_run():
    """Rows r0 … r8 of cat, dog, чай in turn; r0 should be a dog, r4 a cat."""
    Path("data.csv").write_text(TABLE, encoding="utf-8")
    return judged_run(DataSpec(source="table", path="data.csv"), {0: "dog", 4: "cat"})


# --- folder → CSV → prepare


def test_a_folder_becomes_a_table_of_the_same_images_with_labels_as_decided(ulc):
    write_images()
    run = judged_run(DataSpec(source="folder", path="photos"), {0: "dog", 5: "cat"})
    before = label(run.spec)
    ids = run.ids
    write_decisions(f"{ids[0]},accept,dog", f"{ids[5]},reject,dog", f"{ids[7]},relabel,tea")
    code, printed = ulc("apply", run.path, "decisions.csv")
    assert code == 0
    assert printed.out.splitlines() == [
        "photos.corrected.csv: 2 of 12 labels changed (1 accepted, 1 rejected, 1 relabelled); "
        "3 verified",
        "New classes, which the run did not know: 'tea'. Mind the spelling.",
        "Next: ulc audit photos.corrected.csv --image image --label label --verified verified",
    ]
    again = prepared("photos.corrected.csv", image="image", label="label", verified="verified")
    assert list(again.ids) == ids
    assert np.array_equal(again.training.stored.numpy(), before.source.inputs)
    expected = [before.source.class_names[k] for k in before.given]
    expected[0], expected[7] = "dog", "tea"
    assert names_of(again) == expected
    assert np.flatnonzero(again.verified).tolist() == [0, 5, 7]


@pytest.mark.parametrize("out", ["below/x.csv", "photos/x.csv"])
def test_paths_hold_wherever_the_table_is(ulc, out):
    write_images()
    Path("below").mkdir()
    run = judged_run(DataSpec(source="folder", path="photos"), {0: "dog"})
    assert ulc("apply", run.path, "--accept-all", "--out", out, "-q")[0] == 0
    again = prepared(out)
    assert list(again.ids) == run.ids
    first = Path(out).read_text(encoding="utf-8").splitlines()[1].split(",")[0]
    assert Path(first).is_absolute() == out.startswith("below")


def test_a_folder_with_a_test_set_and_broken_images(ulc):
    write_images("own/train")
    write_images("own/test")
    Path("own/train/cat/broken.png").write_text("no image")
    data = DataSpec(source="folder", path="own", skip_broken=True, size=8)
    run = judged_run(data, {0: "dog"})
    code, printed = ulc("apply", run.path, "--accept-all")
    assert code == 0
    assert "The images of the folder 'test' are not in the file." in printed.out
    assert "--size 8" in printed.out
    again = prepared("own.corrected.csv", size=8)
    assert list(again.ids) == run.ids
    assert names_of(again)[:2] == ["dog", "cat"]


def test_a_class_whose_name_means_nothing_in_a_table_is_named(ulc):
    write_images()
    Path("photos/dog").rename("photos/NA")
    run = judged_run(DataSpec(source="folder", path="photos"), {0: "NA"})
    code, printed = ulc("apply", run.path, "--accept-all")
    assert code == 2
    assert "label 'NA' would be read as a missing value" in printed.err
    assert not Path("photos.corrected.csv").exists()


# --- tables


def test_a_table_keeps_all_but_the_labels_decided(ulc, table_run):
    write_decisions("r0,accept,dog", "r4,reject,", "r8,relabel,cat", "r3,,")
    code, _ = ulc("apply", table_run.path, "decisions.csv")
    assert code == 0
    lines = Path("data.corrected.csv").read_text(encoding="utf-8").splitlines()
    expected = [f"{line},0" for line in TABLE.splitlines()]
    expected[0] = "id,kind,label,note,verified"
    expected[1] = "r0,0,dog, x,1"
    expected[5] = "r4,0,dog, x,1"
    expected[9] = "r8,0,cat, x,1"
    assert lines == expected
    assert Path("data.csv").read_text(encoding="utf-8") == TABLE
    again = prepared("data.corrected.csv")
    assert np.flatnonzero(again.verified).tolist() == [0, 4, 8]


def test_without_a_decision_the_table_is_the_same_to_the_byte(ulc, table_run):
    write_decisions()
    assert ulc("apply", table_run.path, "decisions.csv", "-q") == (0, ("", ""))
    assert Path("data.corrected.csv").read_bytes() == Path("data.csv").read_bytes()


def test_applied_twice_is_applied_once_even_in_place(ulc, table_run):
    write_decisions("r0,accept,dog", "r4,reject,dog", "r0,accept,dog")
    arguments = ("apply", table_run.path, "decisions.csv", "--json")
    _, first = ulc(*arguments)
    content = Path("data.corrected.csv").read_bytes()
    assert ulc(*arguments)[1].out == first.out
    assert Path("data.corrected.csv").read_bytes() == content
    for _ in range(2):
        code, printed = ulc(*arguments, "--out", "data.csv", "--force")
        assert code == 0
        assert Path("data.csv").read_bytes() == content
        assert json.loads(printed.out)["changed"] == 1


def test_more_decisions_can_be_added_in_place(ulc, table_run):
    for row in ("r0,accept,dog", "r4,accept,cat"):
        write_decisions(row)
        code, _ = ulc("apply", table_run.path, "decisions.csv", "--out", "data.csv", "--force")
        assert code == 0
    again = prepared("data.csv")
    assert names_of(again)[0] == "dog"
    assert names_of(again)[4] == "cat"
    assert np.flatnonzero(again.verified).tolist() == [0, 4]


def test_verified_before_stays_verified_in_its_own_words(ulc):
    lines = [f"r{i},{KINDS[i % 3]},{'Yes' if i == 2 else ''},{i}" for i in range(9)]
    Path("data.csv").write_text("\n".join(["name,label,seen,a", *lines]), encoding="utf-8")
    data = DataSpec(source="table", path="data.csv", id="name", verified="seen")
    run = judged_run(data, {0: "dog", 2: "cat"})
    write_decisions("r0,accept,dog")
    _, printed = ulc("apply", run.path, "decisions.csv")
    assert "2 verified" in printed.out
    assert "ulc audit data.corrected.csv --id name --verified seen" in printed.out
    rows = read_rows("data.corrected.csv")
    assert [row["seen"] for row in rows] == ["Yes", "", "Yes", *[""] * 6]
    # A verified label is no issue, even if the judgement doubts it.
    assert ulc("apply", run.path, "--accept-all", "-q")[0] == 0
    assert names_of(prepared("data.corrected.csv"))[:3] == ["dog", "dog", "чай"]


def test_a_spreadsheets_mark_and_line_ends_are_kept(ulc):
    Path("data.tsv").write_bytes(b"\xef\xbb\xbf" + TABLE.replace(",", "\t").encode())
    text = Path("data.tsv").read_bytes().replace(b"\n", b"\r\n")
    Path("data.tsv").write_bytes(text)
    run = judged_run(DataSpec(source="table", path="data.tsv"), {0: "dog"})
    write_decisions("r5,reject,")
    assert ulc("apply", run.path, "decisions.csv", "-q")[0] == 0
    content = Path("data.corrected.tsv").read_bytes()
    assert content.startswith(
        b"\xef\xbb\xbfid\tkind\tlabel\tnote\tverified\r\nr0\t0\tcat\t x\t0\r\n"
    )
    assert content.count(b"\r\n") == content.count(b"\n") == 10


@pytest.mark.parametrize("kind", [str, int, float, "category"])
def test_parquet_keeps_its_types(ulc, kind):
    pytest.importorskip("pyarrow")
    labels = pd.Series([i % 3 for i in range(9)])
    labels = labels.astype(str).astype(kind) if kind == "category" else labels.astype(kind)
    frame = pd.DataFrame(
        {"id": range(10, 19), "label": labels, "a": np.arange(9, dtype=np.float32)}
    ).set_index(pd.Index(range(5, 14), name="place"))
    frame.to_parquet("data.parquet")
    run = judged_run(DataSpec(source="table", path="data.parquet"), {0: "1"})
    write_decisions("10,accept,1", "11,relabel,7")
    assert ulc("apply", run.path, "decisions.csv", "-q")[0] == 0
    after = pd.read_parquet("data.corrected.parquet")
    assert after.drop(columns=["label", "verified"]).equals(frame.drop(columns="label"))
    if kind != "category":
        assert after["label"].dtype == frame["label"].dtype
    assert after["verified"].tolist() == [True, True] + [False] * 7
    assert [int(each) for each in after["label"]] == [1, 7, 2, 0, 1, 2, 0, 1, 2]
    # The second time, the column exists: it is changed, not added again.
    again = judged_run(DataSpec(source="table", path="data.corrected.parquet"), {}, "again")
    write_decisions("12,reject,2")
    assert ulc("apply", again.path, "decisions.csv", "-q")[0] == 0
    last = pd.read_parquet("data.corrected-2.parquet")
    assert last["verified"].tolist() == [True] * 3 + [False] * 6
    assert last["verified"].dtype == bool


def test_a_parquet_column_of_numbers_takes_no_word(ulc):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"label": [0, 1, 2] * 3, "a": range(9)}).to_parquet("data.parquet")
    run = judged_run(DataSpec(source="table", path="data.parquet"), {})
    write_decisions("0,relabel,cat")
    code, printed = ulc("apply", run.path, "decisions.csv")
    assert code == 2
    assert "holds values of type int64, and 'cat' is not such a value" in printed.err


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_relative_image_paths_move_with_the_table(ulc, suffix):
    write_images("deep/photos")
    paths = sorted(Path("deep/photos").rglob("*.png"))
    relative = [str(path.relative_to("deep")) for path in paths]
    relative[1] = str(paths[1].absolute())
    frame = pd.DataFrame({"path": relative, "label": [path.parent.name for path in paths]})
    if suffix == ".csv":
        frame.to_csv("deep/list.csv", index=False)
    else:
        pytest.importorskip("pyarrow")
        frame.to_parquet("deep/list.parquet")
    run = judged_run(DataSpec(source="table", path=f"deep/list{suffix}"), {0: "dog"})
    for out in (f"list.corrected{suffix}", f"deep/other{suffix}"):
        assert ulc("apply", run.path, "--accept-all", "--out", out, "-q")[0] == 0
        again = prepared(out)
        assert list(again.ids) == run.ids
        assert names_of(again)[0] == "dog"
    assert suffix == ".parquet" or Path("deep/other.csv").read_text(encoding="utf-8") == (
        Path("deep/list.csv").read_text(encoding="utf-8").replace("0.png,cat", "0.png,dog", 1)
    )


def test_rows_of_a_table_whose_image_is_broken_stay(ulc):
    write_images()
    paths = sorted(Path("photos").rglob("*.png"))
    paths[2].write_text("no image")
    frame = pd.DataFrame({"image": paths, "label": [path.parent.name for path in paths]})
    frame.to_csv("list.csv", index=False)
    data = DataSpec(source="table", path="list.csv", skip_broken=True)
    run = judged_run(data, {2: "dog"})
    write_decisions(f"{run.ids[2]},accept,dog")
    code, printed = ulc("apply", run.path, "decisions.csv")
    assert code == 0
    assert "--skip-broken" in printed.out
    after = pd.read_csv("list.corrected.csv")
    assert after["label"].tolist()[:5] == ["cat", "cat", "cat", "dog", "dog"]
    assert np.flatnonzero(after["verified"]).tolist() == [3]


# --- npz


@pytest.mark.parametrize(
    ("labels", "names", "to", "expected"),
    [
        (np.array(["cat", "dog"] * 5), None, "hippopotamus", None),
        (np.array(["cat", "dog"] * 5).astype("S"), None, "чай", None),
        (np.array(["cat", "dog"] * 5), ["dog", "cat"], "cow", ["dog", "cat", "cow"]),
        (np.array([0, 1] * 5, np.uint8), ["dog", "cat"], "cow", ["dog", "cat", "cow"]),
        (np.array([0.0, 1.0] * 5), None, "2", None),
        (np.array([True, False] * 5), None, "3", None),
    ],
)
def test_an_npz_keeps_all_but_labels_and_flags(ulc, labels, names, to, expected):
    arrays = {"X": np.arange(20.0).reshape(10, 2), "y": labels, "mine": np.arange(3)}
    if names:
        arrays["class_names"] = np.array(names)
    np.savez("toy.npz", **arrays)
    before = label(RunSpec(data=DataSpec(source="npz", path="toy.npz"))).source
    other = before.class_names[1 - before.labels[0]]
    run = judged_run(DataSpec(source="npz", path="toy.npz"), {0: other})
    write_decisions(f"0,accept,{other}", f"1,relabel,{to}", "2,reject,")
    code, printed = ulc("apply", run.path, "decisions.csv", "--json")
    assert code == 0
    assert json.loads(printed.out)["new_classes"] == [to]
    assert json.loads(printed.out)["next_command"] == "ulc audit toy.corrected.npz"
    after = dict(np.load("toy.corrected.npz"))
    for name in ("X", "mine"):
        assert np.array_equal(after[name], arrays[name])
    assert after["verified"].tolist() == [True] * 3 + [False] * 7
    assert after.get("class_names", np.array(None)).tolist() == expected
    again = prepared("toy.corrected.npz")
    kept = [before.class_names[k] for k in before.labels]
    assert names_of(again) == [other, to, *kept[2:]]
    assert after["y"].dtype.kind == (labels.dtype.kind if labels.dtype != bool else "i")


def test_without_a_decision_an_npz_holds_the_same_arrays(ulc):
    arrays = {"X": np.arange(20.0).reshape(10, 2), "y": np.array([0, 1] * 5)}
    arrays["ids"] = np.array([f"r{i}" for i in range(10)])
    np.savez_compressed("toy.npz", **arrays)
    run = judged_run(DataSpec(source="npz", path="toy.npz"), {0: "1"})
    write_decisions()
    assert ulc("apply", run.path, "decisions.csv", "-q")[0] == 0
    after = dict(np.load("toy.corrected.npz"))
    assert after.keys() == arrays.keys()
    assert all(np.array_equal(after[name], arrays[name]) for name in arrays)


def test_numbers_without_names_take_no_word(ulc):
    np.savez("toy.npz", X=np.arange(20.0).reshape(10, 2), y=[0, 1] * 5)
    run = judged_run(DataSpec(source="npz", path="toy.npz"), {})
    for label_, message in (("cat", "save class_names"), ("999", "but there are only 10 examples")):
        write_decisions(f"0,relabel,{label_}")
        code, printed = ulc("apply", run.path, "decisions.csv")
        assert code == 2
        assert message in printed.err
    assert not Path("toy.corrected.npz").exists()


# --- what cannot be copied


def test_other_data_and_noise_made_on_purpose_give_a_list(ulc, table_run):
    run = judged_run(
        DataSpec(source="table", path="data.csv"),
        {},
        "noisy",
        noise=NoiseSpec(kind="pair_flip", rate=0.5),
    )
    given = names_of(prepare(run.spec, torch.device("cpu")))
    write_decisions(f"r0,reject,{given[0]}")
    code, printed = ulc("apply", run.path, "decisions.csv", "--json")
    assert code == 0
    told = json.loads(printed.out)
    assert "added noise or imbalance" in told["note"]
    assert told["next_command"] is None
    rows = read_rows("data.corrected.csv")
    assert [row["id"] for row in rows] == [f"r{i}" for i in range(9)]
    assert [row["label"] for row in rows] == given
    assert [row["verified"] for row in rows] == ["1"] + ["0"] * 8


# --- accepting all


def test_accepting_all_verifies_nothing_and_below_takes_the_surest(ulc, table_run):
    code, printed = ulc("apply", table_run.path, "--accept-all", "--below", 0.2, "--json")
    assert code == 0
    told = json.loads(printed.out)
    assert (told["accepted_unseen"], told["changed"], told["verified"]) == (1, 1, 0)
    code, printed = ulc("apply", table_run.path, "--accept-all", "--json")
    assert json.loads(printed.out)["accepted_unseen"] == 2
    assert "verified" not in Path("data.corrected.csv").read_text(encoding="utf-8")
    # The same labels as the run's own corrected.csv.
    own = pd.read_csv(table_run.path / "corrected.csv")
    assert names_of(prepared("data.corrected.csv")) == own["label"].tolist()


def test_a_decision_goes_before_accepting_all(ulc, table_run):
    write_decisions("r0,reject,cat")
    code, printed = ulc("apply", table_run.path, "decisions.csv", "--accept-all")
    assert code == 0
    assert (
        "1 of 9 labels changed (0 accepted, 1 rejected, 0 relabelled, 1 more accepted unseen)"
        in (printed.out)
    )
    again = prepared("data.corrected.csv")
    assert names_of(again)[0] == "cat"
    assert names_of(again)[4] == "cat"
    assert np.flatnonzero(again.verified).tolist() == [0]


# --- what is wrong


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (["r99,reject,"], None, "row 1: no row has the id 'r99' in"),
        (['"r\n99",reject,'], None, r"row 1: no row has the id 'r\n99' in"),
        (['r0,"may\nbe",dog'], None, r"row 1: unknown decision 'may\nbe'; give accept, reject"),
        (['r0,accept,"a\nb"'], None, r"accept of 'r0' as 'a\nb', but"),
        (["r0,accept,dog", "r0,reject,cat"], None, "row 2: 'r0' has another decision in a row"),
        (["r0,relabel,dog", "r0,relabel,cat"], None, "(relabel 'dog'); keep one of the two"),
        (
            ["r0,maybe,dog"],
            None,
            "row 1: unknown decision 'maybe'; give accept, reject",
        ),
        (["r0,dog"], "id,label", "no column 'decision'; give the columns id, decision and label"),
        (["accept,dog"], "decision,label", "no column 'id'"),
        (["r0,relabel"], "id,decision", "relabels 'r0' but the column 'label' is empty"),
        (["r0,relabel, "], None, "relabels 'r0' but the column 'label' is empty"),
        (["r0,relabel,NA"], None, "'NA' would be read as a missing value"),
        (["r0,accept,чай"], None, "accept of 'r0' as 'чай', but"),
        (["r0,reject,dog"], None, "reject of 'r0' as 'dog', but"),
        (["r0,accept,dog,more"], None, "not a table"),
        (["r0,accept,dog,dog"], "id,decision,label,label", "two columns are called 'label'"),
    ],
)
def test_bad_decisions_are_told_in_one_sentence(ulc, table_run, rows, header, message):
    write_decisions(*rows, **({"header": header} if header else {}))
    code, printed = ulc("apply", table_run.path, "decisions.csv")
    assert code == 2
    assert message in printed.err
    assert len(printed.err.splitlines()) == 1
    assert not Path("data.corrected.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give the decisions as FILE.csv, or accept all issues with --accept-all"),
        (["nothing.csv"], "nothing.csv: no such file; give the decisions as FILE.csv"),
        (["run"], "run: a folder"),
        (["run/spec.toml"], "decisions are read from .csv or .tsv"),
        (["--below", "0.3"], "add --accept-all"),
        (["--accept-all", "--below", "3"], "scores lie between 0 and 1"),
        (["--accept-all", "--out", "x.tsv"], "let the name end in .csv"),
        (["--accept-all", "--out", "no/x.csv"], "there is no folder no; make it first"),
        (["--accept-all", "--out", "data.csv"], "or overwrite them with --force"),
        (["decisions.csv", "--out", "decisions.csv"], "these are the decisions themselves"),
    ],
)
def test_bad_calls_are_told_in_one_sentence(ulc, table_run, arguments, message):
    write_decisions("r0,accept,dog")
    code, printed = ulc("apply", table_run.path, *arguments)
    assert code == 2
    assert message in printed.err
    assert len(printed.err.splitlines()) == 1
    assert Path("data.csv").read_text(encoding="utf-8") == TABLE
    assert "accept" in Path("decisions.csv").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: Path("data.csv").unlink(), "data.csv: the run's data no longer exist"),
        (
            lambda: Path("data.csv").write_text(TABLE + "r9,1,cat,z\n", encoding="utf-8"),
            "had 9 rows when the run was made, now it has 10",
        ),
        (
            lambda: Path("data.csv").write_text(TABLE.replace("r3,1,cat", "r3,1,dog"), "utf-8"),
            "'r3' had the label 'cat' when the run was made, now it is 'dog'",
        ),
        (
            lambda: Path("data.csv").write_text(TABLE.replace("r3,", "q3,"), "utf-8"),
            "row 3 of the run was 'r3', now it is 'q3'",
        ),
        (lambda: Path("run/ids.json").unlink(), "ids.json, the ids of its rows, is missing"),
        (lambda: RunFolder(Path("run")).write_json("ids.json", []), "ids.json names 0 rows"),
        (
            lambda: RunFolder(Path("run")).write_json(
                "data.json", {"examples": 9, "class_names": ["cat", "dog", "dog"]}
            ),
            "two classes have the same name, so a label is ambiguous; rename one in the data",
        ),
        (lambda: Path("run/verified.json").write_text("[99]"), "verified.json is damaged"),
        (lambda: Path("run/verified.json").write_text('["x"]'), "verified.json is damaged"),
        (lambda: Path("run/health.json").write_text("{}"), "health.json is damaged"),
        (lambda: Path("run/judgement.npz").unlink(), "judgement.npz is missing from the run"),
        (lambda: Path("run/spec.toml").unlink(), "not a run folder"),
    ],
)
def test_data_or_runs_that_changed_are_told(ulc, table_run, change, message):
    change()
    code, printed = ulc("apply", table_run.path, "--accept-all")
    assert code == 2
    assert message in printed.err
    assert len(printed.err.splitlines()) == 1
    assert not Path("data.corrected.csv").exists()


def test_an_id_of_several_rows_cannot_be_decided_but_others_can(ulc):
    """In a run of a version that allowed them."""
    Path("data.csv").write_text(TABLE, encoding="utf-8")
    run = judged_run(DataSpec(source="table", path="data.csv"), {0: "dog"})
    Path("data.csv").write_text(TABLE.replace("r1,", "r0,"), encoding="utf-8")
    run.write_json("ids.json", ["r0", "r0", *run.ids[2:]])
    write_decisions("r0,accept,dog")
    code, printed = ulc("apply", run.path, "decisions.csv")
    assert code == 2
    assert "several rows" in printed.err
    write_decisions("r2,reject,")
    assert ulc("apply", run.path, "decisions.csv", "--accept-all", "-q")[0] == 0
    assert pd.read_csv("data.corrected.csv")["label"][:2].tolist() == ["dog", "dog"]


def test_rows_without_ids_are_called_by_position(ulc):
    Path("data.csv").write_text(TABLE.replace("id,", "a,"), encoding="utf-8")
    data = DataSpec(source="table", path="data.csv", features=("kind",))
    run = judged_run(data, {})
    write_decisions("r0,reject,")
    code, printed = ulc("apply", run.path, "decisions.csv")
    assert code == 2
    assert "named by position, 0 to 8" in printed.err
    write_decisions("3,relabel,dog")
    code, printed = ulc("apply", run.path, "decisions.csv")
    assert "--features kind" in printed.out
    assert names_of(prepared("data.corrected.csv"))[3] == "dog"


# --- Python and command line


def test_python_takes_a_run_a_frame_and_a_path(table_run):
    frame = pd.DataFrame({"id": ["r0", "r4"], "decision": ["accept", None], "label": ["dog", None]})
    done = package.apply_decisions(str(table_run.path), frame, "x.csv")
    assert (done.accepted, done.changed, done.out) == (1, 1, "x.csv")
    run = package.load_run(table_run.path)
    done = package.apply_decisions(run, accepting=package.Accepting(below=0.15))
    assert (done.accepted_unseen, done.out) == (1, "data.corrected.csv")
    with pytest.raises(InputError, match="unknown decision"):
        package.apply_decisions(run, frame.assign(decision="keep"))


def test_what_next_says_can_be_typed_into_train(ulc, table_run):
    """`ulc train` accepts the printed options, also column names with spaces."""
    text = TABLE.replace("kind", "my kind").replace("id,", "my id,")
    Path("data.csv").write_text(text, encoding="utf-8")
    data = DataSpec(source="table", path="data.csv", id="my id", features=("my kind", "note"))
    run = judged_run(data, {0: "dog"}, "spaces")
    write_decisions("r0,accept,dog")
    _, printed = ulc("apply", run.path, "decisions.csv", "--json")
    typed = shlex.split(json.loads(printed.out)["next_command"])
    assert typed[:3] == ["ulc", "audit", "data.corrected.csv"]
    options = ["-a", "ce", "--epochs", "1", "--set", "batch_size=4", "--json"]
    code, printed = ulc("train", *typed[2:], "--verified", "verified", *options)
    assert code == 0
    (trained,) = json.loads(printed.out)
    assert trained["spec"]["data"]["features"] == ["my kind", "note"]
    folder = package.load_run(trained["run"]).folder
    assert np.flatnonzero(folder.verified).tolist() == [0]
    table = pd.read_csv(folder.path / "labels.csv").set_index("id")
    assert table.loc["r0", "verified"]
    assert table.loc["r0", "label_score"] == 1
    assert not table.loc["r0", "is_label_issue"]
    assert folder.judgement.clean_probability[0] == 1
    assert (folder.path / "labels.parquet").is_file()


def test_features_that_are_no_names_are_refused(ulc, table_run):
    code, printed = ulc("train", "data.csv", "--features", "kind,,note")
    assert code == 2
    assert "give names separated by commas" in printed.err


def test_flags_in_a_parquet_column_of_numbers_stay_numbers(ulc):
    pytest.importorskip("pyarrow")
    columns = {"id": range(9), "label": [0, 1, 2] * 3, "a": range(9), "verified": [1] + [0] * 8}
    pd.DataFrame(columns).to_parquet("data.parquet")
    data = DataSpec(source="table", path="data.parquet", verified="verified")
    run = judged_run(data, {3: "1"})
    write_decisions("3,accept,1")
    assert ulc("apply", run.path, "decisions.csv", "-q")[0] == 0
    after = pd.read_parquet("data.corrected.parquet")
    assert after["verified"].tolist() == [1, 0, 0, 1, 0, 0, 0, 0, 0]
    assert after["verified"].dtype == np.int64


def test_an_npz_that_has_lost_its_labels_is_told(ulc):
    vectors = np.arange(18.0).reshape(9, 2)
    np.savez("data.npz", X=vectors, y=np.arange(9) % 3)
    run = judged_run(DataSpec(source="npz", path="data.npz"), {0: "1"})
    np.savez("data.npz", X=vectors)
    code, printed = ulc("apply", run.path, "--accept-all")
    assert (code, printed.err) == (2, "ulc: data.npz: has no array 'y' any more; put it back\n")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems allow no such names")
def test_an_image_whose_name_is_no_text_is_told():
    path = Path(os.fsdecode(b"photos/b\xe4r.png")).absolute()
    with pytest.raises(InputError, match=r"b.*r\.png: its name is not valid text, so no table can"):
        path_in_table(path, Path())
    assert path_in_table(Path("photos/bär.png"), Path()) == "photos/bär.png"
