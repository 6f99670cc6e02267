"""Tables: roles of columns, labels and ids, images, and what is refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from ulc.config import DataSpec
from ulc.data.sources import load_source, table
from ulc.errors import InputError

TEN = "label,a,b\n" + "".join(f"{'xy'[i % 2]},{i},{i * i}\n" for i in range(10))


def load(text, name="data.csv", **options):
    if isinstance(text, str):
        Path(name).write_text(text, encoding="utf-8")
    elif isinstance(text, bytes):
        Path(name).write_bytes(text)
    elif text is not None:
        text.to_parquet(name)
    return load_source(DataSpec(source="table", path=name, **options))


def refused(text, message, name="data.csv", **options):
    with pytest.raises(InputError, match=message) as caught:
        load(text, name, **options)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_ten_rows_are_a_table():
    source = load(TEN)
    assert source.class_names == ("x", "y")
    assert source.labels.tolist() == [0, 1] * 5
    assert source.inputs.shape == (10, 2)
    assert np.allclose(source.inputs.mean(0), 0, atol=1e-6)
    assert np.allclose(source.inputs.std(0), 1, atol=1e-6)
    assert source.ids is None
    assert source.verified is None
    assert [column.name for column in source.encoding.columns] == ["a", "b"]


def test_tabs_and_parquet_say_the_same():
    tabbed = load(TEN.replace(",", "\t"), "data.tsv")
    typed = load(pd.DataFrame([row.split(",") for row in TEN.split()[1:]], columns=list("yab")),
                 "data.parquet")  # fmt: skip
    numbered = pd.read_csv("data.tsv", sep="\t")
    for other in (tabbed, typed, load(numbered, "typed.PARQUET")):
        assert np.array_equal(other.inputs, load(TEN).inputs)
        assert np.array_equal(other.labels, load(TEN).labels)
        assert other.class_names == ("x", "y")


def test_two_columns_of_one_name_are_refused_whatever_the_separator():
    for separator in ",;":
        text = "label,a,a\nx,1,2\ny,3,4\n".replace(",", separator)
        refused(text, "2 columns are called 'a'; rename them")


def test_a_damaged_parquet_file_is_refused_in_one_sentence():
    """A changed byte of its footer; a text that is no UTF-8, which pandas would decode later."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    load(pd.DataFrame({"y": ["x", "y"] * 6, "a": range(12)}), "data.parquet")
    content = bytearray(Path("data.parquet").read_bytes())
    content[-12:-8] = b"\xff" * 4
    refused(bytes(content), "not a readable parquet file", "data.parquet")
    starts = pa.py_buffer(np.arange(13, dtype=np.int32).tobytes())
    text = pa.StringArray.from_buffers(12, starts, pa.py_buffer(b"ab\xff" * 4))
    parquet.write_table(pa.table({"y": ["x", "y"] * 6, "a": text}), "text.parquet")
    refused(None, "not a readable parquet file", "text.parquet")


def test_a_byte_order_mark_quotes_and_windows_lines_do_no_harm():
    text = '\ufefflabel,"a, b"\r\n"x, z",1\r\ny,2\r\ny,3\r\n'
    source = load(text)
    assert source.class_names == ("x, z", "y")
    assert source.encoding.columns[0].name == "a, b"


@pytest.mark.parametrize("name", ["label", "given_label", "class", "target", "y"])
def test_the_label_column_is_known_by_its_name(name):
    assert load(TEN.replace("label", name)).class_names == ("x", "y")


def test_of_two_such_columns_the_first_name_counts_and_the_option_before_it():
    text = "y,label,a\n1,u,1\n2,u,2\n1,v,3\n"
    assert load(text).class_names == ("u", "v")
    assert load(text, label="y").class_names == ("1", "2")


def test_a_label_column_of_another_name_is_asked_for_and_the_columns_are_listed():
    text = TEN.replace("label", "kind")
    refused(text, r"no column is called label, .*--label .columns: kind, a, b")
    assert load(text, label="kind").class_names == ("x", "y")
    many = ",".join(f"c{i}" for i in range(30)) + "\n" + ",".join("1" * 30)
    refused(many, "c18, c19 and 10 more")


@pytest.mark.parametrize("option", ["label", "image", "id", "true", "verified"])
def test_an_option_that_names_no_column_is_told_the_columns(option):
    refused(TEN, f"no column 'z', which the option '{option}' names; columns: label, a, b",
            **{option: "z"})  # fmt: skip
    refused(TEN, "no column 'z', which the option 'features' names", features=("a", "z"))


def test_labels_that_are_numbers_are_sorted_as_numbers_and_need_not_begin_at_zero():
    text = "label,a\n10,1\n9,2\n-1,3\n9,4\n"
    source = load(text)
    assert source.class_names == ("-1", "9", "10")
    assert source.labels.tolist() == [2, 1, 0, 1]


def test_whole_numbers_with_a_decimal_point_are_whole_numbers():
    """As pandas writes a column of them that had a missing value."""
    frame = pd.DataFrame({"y": [1.0, 2.0, 1.0], "y_true": [1, 2, 2], "a": [1, 2, 3]})
    source = load(frame, "data.parquet")
    assert source.class_names == ("1", "2")
    assert source.true.tolist() == [0, 1, 1]
    assert load("y,a\n1.0,1\n2.5,2\n1.0,3\n").class_names == ("1.0", "2.5")


def test_true_labels_may_have_classes_that_no_given_label_has():
    source = load("label,true_label,a\nx,x,1\ny,z,2\nx,y,3\n")
    assert source.class_names == ("x", "y", "z")
    assert source.true.tolist() == [0, 2, 1]
    assert load("label,truth,a\nx,x,1\ny,z,2\nx,y,3\n", true="truth").true.tolist() == [0, 2, 1]


def test_true_labels_ids_and_flags_are_no_features():
    text = "id,label,y_true,true_label,verified,a\n" + "".join(
        f"r{i},{'xy'[i % 2]},x,x,yes,{i}\n" for i in range(4)
    )
    source = load(text, true="y_true")
    assert [column.name for column in source.encoding.columns] == ["a"]
    assert source.encoding.left_out == {}


def test_ids_stay_as_they_are():
    assert load("id,label,a\n007,x,1\nb,y,2\n 5 ,x,3\n").ids == ("007", "b", "5")
    assert load("label,a,name\nx,1,p\ny,2,q\nx,3,r\n", id="name").ids == ("p", "q", "r")


def test_the_index_that_pandas_writes_is_the_id_and_no_feature():
    Path("data.csv").write_text("")
    frame = pd.DataFrame({"label": ["x", "y", "x"], "a": [1, 2, 3]}, index=[7, 5, 6])
    source = load(frame.to_csv())
    assert source.ids == ("7", "5", "6")
    assert [column.name for column in source.encoding.columns] == ["a"]


def test_what_was_checked_is_said_in_many_ways_and_nothing_means_no():
    words = ["True", "false", "YES", "no", "t", "F", "y", "N", "1", "0", ""]
    text = "verified,label,a\n" + "".join(
        f"{word},{'xy'[i % 2]},{i}\n" for i, word in enumerate(words)
    )
    assert load(text).verified.tolist() == [True, False] * 5 + [False]
    frame = pd.DataFrame({"verified": [True, None, False], "y": ["x", "x", "y"], "a": [1, 2, 3]})
    assert load(frame, "data.parquet").verified.tolist() == [True, False, False]
    refused(text.replace("YES", "perhaps"), "column 'verified': row 3 .* 'perhaps'; give yes or no")


def test_features_that_are_named_are_all_that_is_learned_from():
    source = load(TEN, features=("b",))
    assert [column.name for column in source.encoding.columns] == ["b"]


def test_a_class_may_have_one_member_and_there_may_be_a_thousand():
    assert load(TEN + "z,3,3\n").class_names == ("x", "y", "z")
    text = "label,a\n" + "".join(f"{i % 1000},{i}\n" for i in range(1001))
    assert load(text).class_names == tuple(map(str, range(1000)))


@pytest.mark.parametrize("empty", ["", "  ", "NA", "NaN", "null"])
def test_rows_without_a_label_are_counted_and_left_out(empty):
    source = load(TEN.replace("y,3,9", f"{empty},3,9"))
    assert source.unlabelled == 1
    assert source.ids == ("0", "1", "2", "4", "5", "6", "7", "8", "9")
    without = load(TEN.replace("y,3,9\n", ""))
    assert np.array_equal(source.inputs, without.inputs)
    assert source.notes[-1].startswith("1 of 10 rows have no label: they are left out of learning")
    assert without.unlabelled == 0
    assert without.ids is None


def test_a_table_without_any_label_is_refused():
    refused("label,a\n,1\n,2\n", "no row has a label in the column 'label'; fill some")


def test_rows_are_counted_with_those_that_were_left_out():
    text = "label,id,a\n,p,1\ny,,2\nx,x,2\ny,y,3\n"
    refused(text, "column 'id': row 2 below the header has no id")
    text = "label,flag,a\n,yes,1\ny,,2\nx,so,2\ny,no,3\n"
    refused(text, "row 3 below .* 'so'", verified="flag")


def test_other_gaps_are_named_too():
    refused("label,y_true,a\nx,x,1\ny,,2\nx,x,2\n", "column 'y_true': row 2 .* no true label")
    refused("label,id,a\nx,x,1\ny,,2\nx,x,2\n", "column 'id': row 2 below the header has no id")
    refused("label,image\nx,a.png\ny,\nx,c.png\n", "column 'image': row 2 .* no path")


BAD = {
    "empty": ("", "its first line is empty; begin with the names of the columns"),
    "only a header": ("label,a\n", "holds no rows below its header; fill it"),
    "duplicate names": ("label,a,a\nx,1,2\n", "2 columns are called 'a'; rename them"),
    "binary": (b"PK\x03\x04\x00\x00" * 50, "not a text file; save the table as CSV in UTF-8"),
    "a long row": (TEN + "x,1,2,3\n", "not a table .Expected 3 fields in line 12, saw 4"),
    "all rows long": ("label,a\nx,1,2\ny,3,4\n", "not a table .*as many values as the header"),
    "an open quote": (TEN + '"x,1,2\n', "not a table"),
    "one class": (TEN.replace("y", "x"), "all labels are the same class"),
    "no class twice": ("label,a\nx,1\ny,2\nz,3\n", "every row has a label of its own in the col"),
    "labels alone": ("label\nx\ny\nx\n", "nothing to learn from .no other columns"),
    "constants": ("label,a,b\nx,1,u\ny,1,\nx,1,v\n", "'a' is constant, 'b' is an identifier"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", BAD)
def test_a_text_that_is_no_table(wrong):
    text, message = BAD[wrong]
    refused(text, message)


def test_a_file_that_is_not_there_or_not_a_table():
    refused(None, "no such file; give the path of a table", "nowhere.csv")
    Path("folder.csv").mkdir()
    refused(None, "a folder; give the path", "folder.csv")
    refused("a", "a table ends in .csv, .tsv, .parquet", "data.xlsx")
    refused(b"PAR1 nonsense", "not a readable parquet file", "data.parquet")
    refused(b"", "not a readable parquet file", "empty.parquet")


def test_parquet_says_what_to_install(monkeypatch):
    monkeypatch.setattr(table, "find_spec", lambda name: None)
    refused(b"", "parquet needs pyarrow; pip install 'ulc.parquet.'", "data.parquet")


def test_lists_are_no_features():
    frame = pd.DataFrame({"y": ["u", "v", "u"], "a": [1, 2, 3], "list": [[1, 2], [3], [4]]})
    refused(frame, "column 'list': its values are lists; name the columns", "data.parquet")
    assert load(frame, "data.parquet", features=("a",)).inputs.shape == (3, 1)


@pytest.fixture
def images():
    Path("shots").mkdir()
    for number in range(4):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(f"shots/{number}.png")


ROWS = "file,label,note\nshots/3.png,x,1\nshots/0.png,y,2\nshots/2.png,x,3\n"


def test_paths_are_relative_to_the_table_and_name_the_rows(images):
    source = load(ROWS)
    assert source.inputs[:, 0, 0, 0].tolist() == [3, 0, 2]
    assert source.ids[0] == str(Path.cwd() / "shots/3.png")
    assert source.encoding is None
    Path("deep").mkdir()
    text = ROWS.replace("shots", "../shots").replace("../shots/0", f"{Path.cwd()}/shots/0")
    assert np.array_equal(load(text, "deep/data.csv").inputs, source.inputs)
    numbered = ROWS.splitlines()
    text = "\n".join([f"id,{numbered[0]}", *(f"{i},{row}" for i, row in enumerate(numbered[1:]))])
    assert load(text).ids == ("0", "1", "2")


def test_a_column_of_paths_is_known_by_name_and_suffix_or_named(images):
    assert load(ROWS.replace("file", "path")).inputs.ndim == 4
    assert load(ROWS.replace("file", "picture"), image="picture").inputs.ndim == 4
    assert load(ROWS.replace("png", "txt")).inputs.ndim == 2


def test_images_and_features_are_not_mixed(images):
    refused(ROWS, "images, from text or from features; give one", features=("note",), image="file")
    assert load(ROWS, features=("note",)).inputs.shape == (3, 1)


def test_an_image_that_is_missing_or_broken_is_named(images):
    Path("shots/0.png").unlink()
    with pytest.raises(InputError, match=r"shots/0.png: not a readable image .no such file.; 1 of"):
        load(ROWS)
    source = load(ROWS + "shots/1.png,y,4\n", skip_broken=True)
    assert source.labels.tolist() == [0, 0, 1]
    assert len(source.skipped) == 1


def test_a_second_table_is_the_test_set():
    Path("test.csv").write_text("b,label,a\n4,y,2\n1,x,1\n9,,3\n", encoding="utf-8")
    source, alone = load(TEN, test="test.csv"), load(TEN)
    assert np.array_equal(source.inputs, alone.inputs)
    assert source.test_labels.tolist() == [1, 0]  # a row without a label tests nothing
    assert np.array_equal(source.test_inputs, source.inputs[[2, 1]])


def test_a_second_table_of_images_starts_from_its_own_folder():
    for folder, colour in (("here", "red"), ("there", "blue")):
        Path(folder).mkdir()
        for number in range(4):
            Image.new("RGB", (8, 8), colour).save(Path(folder, f"{number}.png"))
    rows = "image,label\n" + "".join(f"{i}.png,{'xy'[i % 2]}\n" for i in range(4))
    Path("there/test.csv").write_text(rows, encoding="utf-8")
    source = load(rows, "here/data.csv", test="there/test.csv")
    assert source.test_inputs[:, :, 0, 0].tolist() == [[0, 0, 255]] * 4
    assert source.inputs[:, :, 0, 0].tolist() == [[255, 0, 0]] * 4


def test_a_second_table_without_a_column_or_label_is_refused():
    for text, message in (
        ("label,a\nx,1\n", r"--test test.csv: no column 'b', which the training table has"),
        ("label,a,b\n,1,1\n", r"--test test.csv: no row has a label in the column 'label'"),
    ):
        Path("test.csv").write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=message):
            load(TEN, test="test.csv")
