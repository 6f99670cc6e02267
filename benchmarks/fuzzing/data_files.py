"""Lists of Clothing1M, Hugging Face data sets, class names of CIFAR-100, and new rows."""

import pickle
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from PIL import Image

from ulc.config import DataSpec
from ulc.data.identity import identify
from ulc.data.sources import load_source
from ulc.data.sources.cifar import read_pickled_class_names
from ulc.networks.weights import read_weights
from ulc.prediction.predictor import Predictor
from ulc.storage.run_folder import RunFolder

ARROW = "data-00000-of-00001.arrow"
# Name of the reader and path of its file below the folder in which the fuzzer works.
PLACES = {
    "noisy_label_kv.txt": "clothing/noisy_label_kv.txt",
    "noisy_train_key_list.txt": "clothing/noisy_train_key_list.txt",
    "clean_test_key_list.txt": "clothing/clean_test_key_list.txt",
    "meta": "cifar/meta",
    "weights.safetensors": "w.safetensors",
    "new.npz": "new.npz",
}
if find_spec("datasets") is not None:
    PLACES |= {
        "dataset_dict.json": "splits/dataset_dict.json",
        "dataset_info.json": "set/dataset_info.json",
        "state.json": "set/state.json",
        "arrow": f"set/{ARROW}",
        "arrow of images": f"pictures/{ARROW}",
    }


def good_files(folder: Path) -> dict[str, bytes]:
    """Make a good file for each name of PLACES, below `folder`."""
    write_clothing(folder / "clothing")
    names = [f"name {k}" for k in range(100)]
    (folder / "cifar").mkdir()
    (folder / PLACES["meta"]).write_bytes(pickle.dumps({"fine_label_names": names}, 2))
    weights = {"conv.weight": torch.zeros(2, 3)}
    safetensors.torch.save_file(weights, folder / PLACES["weights.safetensors"])
    vectors = np.arange(36.0).reshape(12, 3)
    ids = [f"r{row}" for row in range(12)]
    np.savez(folder / PLACES["new.npz"], X=vectors, y=np.arange(12) % 3, ids=ids)
    if "arrow" in PLACES:
        write_sets(folder)
    return {name: (folder / place).read_bytes() for name, place in PLACES.items()}


def write_clothing(folder: Path) -> None:
    """Write a data set in the layout of Clothing1M, with two images in each split."""
    labels: dict[str, list[str]] = {"noisy": [], "clean": []}
    for split in ("noisy_train", "clean_val", "clean_test"):
        keys = [f"images/0/{split}{number}.png" for number in range(2)]
        for number, key in enumerate(keys):
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (90 * number, 0, 0)).save(folder / key)
            labels[split.partition("_")[0]].append(f"{key} {number + 9}")
        (folder / f"{split}_key_list.txt").write_text("\n".join(keys) + "\n")
    for kind, lines in labels.items():
        (folder / f"{kind}_label_kv.txt").write_text("\n".join(lines) + "\n")


def read_clothing(path: Path) -> None:
    """Read the data set as a training does: when images are needed, then all before training."""
    lazy = DataSpec(source="clothing1m", path=str(path.parent), size=8, lazy=True)
    identify(load_source(lazy), lazy, None, None)
    load_source(lazy.model_copy(update={"lazy": False, "skip_broken": True}))


def write_sets(folder: Path) -> None:
    """Write three Hugging Face data sets: columns, the same with a test split, and images."""
    import datasets

    datasets.disable_progress_bars()
    kinds = datasets.ClassLabel(names=["zebra", "ant"])
    ids = [f"r{row}" for row in range(6)]
    rows = {"x": [0.5 * row for row in range(6)], "word": list("uvuvuv"), "id": ids}
    columns = datasets.Dataset.from_dict(rows | {"label": [0, 1] * 3})
    columns = columns.cast_column("label", kinds)
    columns.save_to_disk(str(folder / "set"))
    both = datasets.DatasetDict(train=columns, test=columns)
    both.save_to_disk(str(folder / "splits"))
    images = [Image.new("RGB", (8, 8), (20 * row, 0, 0)) for row in range(4)]
    features = datasets.Features(image=datasets.Image(), label=kinds)
    pictures = {"image": images, "label": [0, 1] * 2}
    datasets.Dataset.from_dict(pictures, features=features).save_to_disk(str(folder / "pictures"))


def read_set(path: Path) -> None:
    """Read the Hugging Face data set in the folder of the file."""
    load_source(DataSpec(source="huggingface", path=str(path.parent)))


@cache
def predictor(folder: Path) -> Predictor:
    """The predictor of the run in `folder`/run."""
    return Predictor.open(RunFolder.open(folder / "run"), torch.device("cpu"))


def predict(path: Path) -> None:
    """Predict new rows as `ulc predict` does."""
    model = predictor(path.parent)
    model.predict(model.read(DataSpec(source="npz", path=str(path))))


READS: dict[str, Callable[[Path], object]] = {
    "noisy_label_kv.txt": read_clothing,
    "noisy_train_key_list.txt": read_clothing,
    "clean_test_key_list.txt": read_clothing,
    "meta": read_pickled_class_names,
    "weights.safetensors": read_weights,
    "new.npz": predict,
    "dataset_dict.json": read_set,
    "dataset_info.json": read_set,
    "state.json": read_set,
    "arrow": read_set,
    "arrow of images": read_set,
}
