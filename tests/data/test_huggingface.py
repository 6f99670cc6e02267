"""Hugging Face data sets on the disk."""

import io
import json
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ulc.config import DataSpec
from ulc.data.sources import huggingface, load_source
from ulc.data.sources.pictures import decode_pictures
from ulc.errors import InputError

datasets = pytest.importorskip("datasets")


def load(content, **options):
    content.save_to_disk("saved")
    return load_source(DataSpec(source="huggingface", path="saved", **options))


def pictures(*reds):
    return [Image.new("RGB", (8, 8), (red, 0, 0)) for red in reds]


def with_images(*reds, labels=(1, 0, 1)):
    features = datasets.Features(
        picture=datasets.Image(),
        label=datasets.ClassLabel(names=["zebra", "ant", "none"]),
        id=datasets.Value("string"),
    )
    rows = {"picture": pictures(*reds), "label": list(labels), "id": [f"r{red}" for red in reds]}
    return datasets.Dataset.from_dict(rows, features=features)


def test_images_and_class_labels_in_their_own_order():
    source = load(with_images(3, 1, 2))
    assert source.inputs.shape == (3, 3, 8, 8)
    assert source.inputs[:, 0, 0, 0].tolist() == [3, 1, 2]
    assert source.class_names == ("zebra", "ant", "none")
    assert source.labels.tolist() == [1, 0, 1]
    assert source.ids == ("r3", "r1", "r2")


def test_train_and_test_are_two_sets():
    both = datasets.DatasetDict(train=with_images(3, 1, 2), test=with_images(7, labels=[2]))
    source = load(both)
    assert source.test_inputs[:, 0, 0, 0].tolist() == [7]
    assert source.test_labels.tolist() == [2]


def test_columns_of_numbers_and_text():
    rows = {"kind": ["b", "a", "b"], "x": [1.0, 2.0, 4.0], "word": ["u", "v", "u"]}
    both = datasets.DatasetDict(
        train=datasets.Dataset.from_dict(rows), test=datasets.Dataset.from_dict(rows)
    )
    source = load(both, label="kind")
    assert source.class_names == ("a", "b")
    assert source.labels.tolist() == [1, 0, 1]
    assert source.inputs.shape == (3, 3)
    assert np.array_equal(source.test_inputs, source.inputs)
    assert [column.name for column in source.encoding.columns] == ["x", "word"]


def test_features_that_are_named_go_before_images():
    numbers = with_images(3, 1, 2).add_column("x", [1.0, 2.0, 4.0])
    assert load(numbers, features=("x",)).inputs.shape == (3, 1)
    with pytest.raises(InputError, match="no column 'picture', which the option 'features'"):
        load_source(DataSpec(source="huggingface", path="saved", features=("picture",)))


def test_a_label_of_minus_one_is_none():
    source = load(with_images(3, 1, 2, 4, labels=[1, -1, 0, 0]))
    assert source.unlabelled == 1
    assert source.ids == ("r3", "r2", "r4")
    assert source.inputs[:, 0, 0, 0].tolist() == [3, 2, 4]


def test_a_broken_image_is_named_by_its_row():
    packed = io.BytesIO()
    pictures(1)[0].save(packed, "png")
    cells = [{"bytes": each, "path": None} for each in (packed.getvalue(), b"no", None)]
    features = datasets.Features(image=datasets.Image(), label=datasets.Value("int64"))
    rows = {"image": [*cells[:2], None, cells[0], cells[0]], "label": [5, 7, 5, 7, 5]}
    broken = datasets.Dataset.from_dict(rows, features=features)
    with pytest.raises(InputError, match=r"saved: train, row 1: not a readable image .*; 2 of 5"):
        load(broken)
    source = load_source(DataSpec(source="huggingface", path="saved", skip_broken=True))
    assert source.labels.tolist() == [0, 1, 0]
    assert source.class_names == ("5", "7")


def test_rows_without_a_label_and_broken_images_together_keep_their_positions():
    packed = io.BytesIO()
    pictures(1)[0].save(packed, "png")
    images = [{"bytes": each, "path": None} for each in (packed.getvalue(), b"no")]
    features = datasets.Features(image=datasets.Image(), label=datasets.Value("string"))
    rows = {"image": [images[1], *[images[0]] * 4], "label": ["a", None, "b", "a", "b"]}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk("saved")
    source = load_source(DataSpec(source="huggingface", path="saved", skip_broken=True))
    assert source.ids == ("2", "3", "4")
    assert source.labels.tolist() == [1, 0, 1]
    assert (len(source.skipped), source.unlabelled) == (1, 1)


def test_what_cannot_be_read():
    with pytest.raises(InputError, match="nowhere: not a readable Hugging Face data set"):
        load_source(DataSpec(source="huggingface", path="nowhere"))
    with pytest.raises(InputError, match=r"no split 'train' \(splits: test\)"):
        load(datasets.DatasetDict(test=with_images(3, 1, 2)))
    with pytest.raises(InputError, match="the column 'id' holds no images"):
        load(with_images(3, 1, 2), image="id")
    with pytest.raises(InputError, match="no column 'z', which the option 'image' names"):
        load(with_images(3, 1, 2), image="z")


@pytest.mark.parametrize("last", [-1, 2**30])
def test_numbers_of_an_arrow_file_that_would_end_the_process_are_refused(last):
    """Where each text begins and ends; Arrow itself believes what the file says."""
    rows = datasets.Dataset.from_dict({"word": list("uvuvu"), "label": [0, 1, 0, 1, 0]})
    rows.save_to_disk("saved")
    path = Path("saved/data-00000-of-00001.arrow")
    ends = struct.pack("<6i", *range(6))
    assert path.read_bytes().count(ends) == 1
    path.write_bytes(path.read_bytes().replace(ends, struct.pack("<6i", 0, 1, 2, 3, 4, last)))
    with pytest.raises(InputError, match="saved: not a readable Hugging Face data set"):
        load_source(DataSpec(source="huggingface", path="saved"))


@pytest.mark.parametrize("missing", ["label", "picture", "id"])
def test_a_test_set_needs_the_labels_and_the_images_but_no_ids(missing):
    test = with_images(7, 8, labels=[1, 2]).remove_columns([missing])
    both = datasets.DatasetDict(train=with_images(3, 1, 2), test=test)
    if missing == "id":
        assert len(load(both).test_inputs) == 2
        return
    wrong = "not every split has a column 'label'"
    if missing == "picture":
        wrong = "test: no image column 'picture'; add the column .*or name another one with --image"
    with pytest.raises(InputError, match=f"saved: {wrong}"):
        load(both)


@pytest.mark.parametrize("option", ["label", "id", "true", "verified"])
def test_a_column_of_images_is_nothing_else(option):
    with pytest.raises(
        InputError, match="not every split has a column 'picture' of text or numbers"
    ):
        load(with_images(3, 1, 2), **{option: "picture"})


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(huggingface, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"needs datasets; pip install 'ulc.huggingface.'"):
        load_source(DataSpec(source="huggingface", path="saved"))


def test_images_are_read_lazily_too_and_can_be_sent_to_other_processes(monkeypatch):
    monkeypatch.setenv("ULC_IMAGE_WORKERS", "0")
    source = load(with_images(3, 1, 2), lazy=True)
    assert not isinstance(source.inputs, np.ndarray)
    assert np.asarray(source.inputs)[:, 0, 0, 0].tolist() == [3, 1, 2]
    sent = pickle.loads(pickle.dumps(source.pictures))
    pixels, broken = decode_pictures(sent, (8, 8))
    assert pixels[:, 0, 0, 0].tolist() == [3, 1, 2]
    assert not broken


@pytest.mark.parametrize("name", [5, ["ant"], None])
def test_a_class_name_that_is_no_text_is_refused(name):
    with_images(3, 1, 2).save_to_disk("saved")
    path = Path("saved/dataset_info.json")
    content = json.loads(path.read_text())
    content["features"]["label"]["names"][1] = name
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"saved: not a readable .*\(.*name.* is no text\)"):
        load_source(DataSpec(source="huggingface", path="saved"))
