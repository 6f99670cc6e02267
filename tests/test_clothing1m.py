"""Clothing1M from its lists to the test accuracy of the chosen networks, on a small stand-in."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from stub_clothing import CLASSES, SIZES, clothing1m
from ulc.config import DataSpec, NetworkSpec, RunSpec
from ulc.data.lazy.images import LazyImages
from ulc.data.prepare import prepare
from ulc.data.sources import load_source
from ulc.data.sources.clothing1m import ListedPictures, read_keys, read_labels
from ulc.errors import InputError
from ulc.experiments.paper.cells import paper_sweep
from ulc.settings.presets import with_preset
from ulc.settings.variants import variant
from ulc.training.loop import TrainingProgress
from ulc.training.run import resume, run

SMALL = {"name": "small_cnn", "width": 4}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return clothing1m(tmp_path_factory.mktemp("clothing") / "Clothing1M")


@pytest.fixture(autouse=True)
def _without_workers(monkeypatch):
    monkeypatch.setenv("ULC_IMAGE_WORKERS", "0")


def data_spec(tree, **options):
    return DataSpec(source="clothing1m", path=str(tree), **({"size": 16} | options))


def spec_of(tree, algorithm, epochs=3, **options):
    """The preset, with a small network and fewer examples in an epoch than the data have."""
    part = {"epoch_examples": 70}
    fewer = {"ce": part, "elr_plus": part, "meta_learning": {"tasks": 2}, "pencil": {}}.get(
        algorithm, {"warmup_examples": 112, "epoch_examples": 84}
    )
    sizes = {"batch_size": 16} | fewer | options
    network = NetworkSpec(**SMALL)
    spec = RunSpec(data=data_spec(tree, lazy=True), network=network)
    return variant(spec, algorithm, epochs=epochs, options=sizes)


def without_times(folder):
    return [{k: v for k, v in record.items() if k != "seconds"} for record in folder.records]


def test_the_lists_say_which_image_is_in_which_set(tree):
    source = load_source(data_spec(tree))
    assert len(source.inputs) == SIZES["noisy_train"]
    assert len(source.valid_inputs) == SIZES["clean_val"]
    assert len(source.test_inputs) == SIZES["clean_test"]
    assert len(source.class_names) == CLASSES
    assert source.labels[:5].tolist() == [0, 1, 2, 4, 4]
    assert source.valid_labels[:5].tolist() == source.test_labels[:5].tolist() == [0, 1, 2, 3, 4]
    assert source.ids[1] == str(tree / "images/1/01/noisy_train1,1.jpg")


def test_read_lazily_it_is_the_same(tree):
    whole, lazy = load_source(data_spec(tree)), load_source(data_spec(tree, lazy=True))
    assert isinstance(lazy.inputs, LazyImages)
    for name in ("inputs", "valid_inputs", "test_inputs"):
        assert np.array_equal(np.asarray(getattr(lazy, name)), getattr(whole, name))


def test_networks_see_seven_eighths_of_the_stored_images(tree):
    prepared = prepare(RunSpec(data=data_spec(tree)), torch.device("cpu"))
    assert prepared.training.preprocessing.input_shape == (3, 14, 14)
    assert next(prepared.training.batches(8)).inputs.shape == (8, 3, 14, 14)
    (centre,) = next(prepared.training.in_order(8)).views
    assert centre.shape == (8, 3, 14, 14)
    stored = prepared.training.stored[:8, :, 1:15, 1:15]
    assert torch.equal(centre, prepared.training.preprocessing.ready(stored))


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (
            lambda root: (root / "clean_label_kv.txt").unlink(),
            r"clean_label_kv.txt: no such file; .*archive of annotations",
        ),
        (
            lambda root: (root / "noisy_label_kv.txt").write_text("images/0/00/a.jpg 14\n"),
            r"noisy_label_kv.txt: line 1 is .*not an image and a class from 0 to 13",
        ),
        (
            lambda root: (root / "clean_val_key_list.txt").write_text("images/x.jpg\n"),
            r"clean_val_key_list.txt: images/x.jpg has no label in clean_label_kv.txt",
        ),
        (
            lambda root: (root / "clean_test_key_list.txt").write_text(""),
            r"clean_test_key_list.txt: names no images",
        ),
        (
            lambda root: (root / "images").rename(root / "pictures"),
            r"noisy_train0,1.jpg: no such image, .*make it a link",
        ),
    ],
)
def test_a_broken_tree_is_one_sentence(tmp_path, break_it, message):
    root = clothing1m(tmp_path / "broken", size=(4, 4))
    break_it(root)
    with pytest.raises(InputError, match=message) as caught:
        load_source(data_spec(root))
    assert "\n" not in str(caught.value)


def test_broken_images_are_left_out_if_asked(tmp_path):
    root = clothing1m(tmp_path / "broken", size=(4, 4))
    for name in ("1/01/noisy_train1,1.jpg", "0/00/clean_val0,1.jpg"):
        (root / "images" / name).write_text("no image")
    source = load_source(data_spec(root, lazy=True, skip_broken=True))
    assert len(source.skipped) == 2
    assert source.labels[:4].tolist() == [0, 2, 4, 4]
    assert source.valid_labels[:2].tolist() == [1, 2]
    with pytest.raises(InputError, match=r"noisy_train1,1.jpg: not a readable image"):
        np.asarray(load_source(data_spec(root, lazy=True)).inputs)


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm", ["ulc", "ulc-fixmatch", "dividemix", "elr_plus", "ce", "meta_learning", "pencil"]
)
def test_the_recipe_runs_from_the_lists_to_the_test_accuracy(tree, algorithm):
    finished = run(spec_of(tree, algorithm), Path("runs"))
    records, summary = finished.records, finished.read_json("summary.json")
    accuracies = np.array([record["validation"]["accuracy"] for record in records])
    assert accuracies.shape == (3, 1 if algorithm in ("ce", "meta_learning", "pencil") else 2)
    assert summary["chosen"]["epochs"] == accuracies.argmax(0).tolist()
    assert summary["chosen"]["validation_accuracy"] == accuracies.max(0).tolist()
    labels = (finished.path / "labels.csv").read_text().splitlines()
    assert len(labels) == SIZES["noisy_train"] + 1
    assert 0 <= summary["training"]["last"]["accuracy"] <= 1


@pytest.mark.slow
def test_the_saved_model_holds_the_chosen_networks(tree):
    from ulc.training.model import Model

    chosen = run(spec_of(tree, "ce"), Path("chosen"))
    test = prepare(chosen.spec, torch.device("cpu")).truth.test
    accuracy = (Model.load(chosen).predict_stored(test.stored).argmax(1) == test.labels).mean()
    summary = chosen.read_json("summary.json")
    assert summary["training"]["last"]["accuracy"] == pytest.approx(accuracy)
    (epoch,) = summary["chosen"]["epochs"]
    assert chosen.records[epoch]["test"]["training"]["accuracy"] == pytest.approx(accuracy)


@pytest.mark.slow
def test_a_stopped_run_resumes_to_the_same_bits_with_the_networks_it_had_chosen(tree):
    class Stop(TrainingProgress):
        def on_epoch(self, record):
            if record["epoch"] == 1:
                raise KeyboardInterrupt

    spec = spec_of(tree, "ulc", epochs=4)
    unbroken = run(spec, Path("unbroken"))
    with pytest.raises(KeyboardInterrupt):
        run(spec, Path("stopped"), progress=Stop(), save_every=0)
    resumed = resume(Path("stopped") / unbroken.path.name)
    assert without_times(resumed) == without_times(unbroken)
    for name in ("summary.json", "model.safetensors", "labels.csv"):
        assert resumed.read(name) == unbroken.read(name)


def test_the_preset_names_network_weights_and_the_size_of_an_epoch(tree):
    spec = with_preset(RunSpec(data=data_spec(tree), algorithm="ulc"))
    assert spec.network == NetworkSpec(name="resnet50", weights="imagenet")
    assert spec.epochs == 80
    assert (spec.options["warmup_examples"], spec.options["epoch_examples"]) == (64_000, 32_000)
    own = NetworkSpec(weights="file.pth")
    spec = with_preset(RunSpec(data=data_spec(tree), algorithm="ulc", network=own))
    assert spec.network == NetworkSpec(name="resnet50", weights="file.pth")
    spec = with_preset(RunSpec(data=data_spec(tree), network=NetworkSpec(**SMALL)))
    assert spec.network == NetworkSpec(**SMALL)


def test_table_3_of_the_paper_is_made_of_these_runs(tree):
    cells = paper_sweep("table3", str(tree)).cells([0])
    assert [cell.row for cell in cells] == [
        "CE", "ML", "PENCIL", "DivideMix", "ELR+", "ULC", "ULC with FixMatch",
    ]  # fmt: skip
    assert {cell.spec.network.name for cell in cells} == {"resnet50"}
    assert {cell.spec.data.source for cell in cells} == {"clothing1m"}
    assert {cell.row: cell.spec.epochs for cell in cells}["ELR+"] == 15


@pytest.mark.slow
def test_the_command_trains_it_with_weights_from_a_file(tree, ulc):
    from ulc.networks.resnet50 import ResNet50

    backbone = ResNet50((3, 14, 14), width=2)
    torch.save({**backbone.state_dict(), "fc.weight": torch.zeros(5, 64)}, "weights.pth")
    code, printed = ulc(
        "train", f"clothing1m:{tree}", "-a", "ce", "--epochs", 1, "--size", 16, "--lazy",
        "--weights", "weights.pth", "--set", "network.width=2", "--json", "-q",
    )  # fmt: skip
    assert code == 0, printed.err
    (result,) = json.loads(printed.out)
    assert result["summary"]["chosen"]["epochs"] == [0]
    Path("weights.pth").unlink()  # a trained model does not need them
    code, printed = ulc("predict", result["run"], tree / "images" / "0", "-q", "--out", "new.csv")
    assert code == 0, printed.err


def test_rows_held_out_beside_a_validation_set_are_refused(tree):
    spec = RunSpec(data=data_spec(tree), held_out=0.2)
    with pytest.raises(InputError, match="has a validation set already"):
        prepare(spec, torch.device("cpu"))


def test_empty_lines_of_a_list_are_no_images_but_count_as_lines(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("\nimages/0/a.jpg 3\n\n  \nimages/0/b.jpg 13\n")
    assert read_labels(path) == {"images/0/a.jpg": 3, "images/0/b.jpg": 13}
    path.write_text("\n\nimages/0/a.jpg 14\n")
    with pytest.raises(
        InputError, match=r"line 3 is 'images/0/a.jpg 14', not an image and a class"
    ):
        read_labels(path)
    path.write_text("\n \n")
    with pytest.raises(InputError, match=r"list.txt: names no images; unpack it again"):
        read_keys(path)


def test_a_slice_of_listed_pictures_is_a_list_of_them(tree):
    keys = (tree / "clean_val_key_list.txt").read_text().split()
    pictures = ListedPictures(tree, keys)
    some = pictures[3:9:2]
    assert len(some) == 3
    assert [each.name for each in some] == [pictures[place].name for place in (3, 5, 7)]
