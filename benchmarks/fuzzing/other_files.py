"""Files that lie in no run folder: label files of torch and NumPy, weights, estimators, λ_u."""

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

import ulc
from ulc.data.label_files import read_label_file, write_label_file
from ulc.experiments.figure_data import read_after_warm_up
from ulc.experiments.finished_runs import find_runs
from ulc.experiments.tuning import read_weights
from ulc.networks.weights import read_weights as read_network_weights

# Name of the reader and path of its file below the folder in which the fuzzer works.
PLACES = {
    "labels.npz": "l.npz",
    "labels.pt": "l.pt",
    "weights.pt": "w.pt",
    "tuned.toml": "weights.toml",
    "estimator": "model.safetensors",
    "after_warmup.npz": "warm-run/after_warmup.npz",
}
TUNED = b"""["CIFAR-10, Sym. 50 %".ulc]
doubtful_weight = 25.0
["CIFAR-10, Sym. 50 %".dividemix]
doubtful_weight = 0.0
"""
COLUMNS = ("CIFAR-10, Sym. 50 %", "CIFAR-10, Sym. 20 %")


def good_files(folder: Path) -> dict[str, bytes]:
    """Make a good file for each name of PLACES, below `folder`."""
    labels = np.arange(12) % 3
    for name in ("labels.npz", "labels.pt"):
        write_label_file(folder / PLACES[name], labels, labels)
    torch.save({"conv.weight": torch.zeros(2, 3)}, folder / PLACES["weights.pt"])
    (folder / PLACES["tuned.toml"]).write_bytes(TUNED)
    vectors = np.random.default_rng(0).normal(size=(24, 3))
    model = ulc.NoisyLabelClassifier("ce", epochs=1, random_state=0).fit(vectors, np.arange(24) % 2)
    model.save(folder / PLACES["estimator"])
    write_warm_run(folder)
    return {name: (folder / place).read_bytes() for name, place in PLACES.items()}


def write_warm_run(folder: Path) -> None:
    """Write after_warmup.npz into a copy of the run in `folder`/run."""
    run, rng = folder / PLACES["after_warmup.npz"], np.random.default_rng(0)
    run.parent.mkdir(exist_ok=True)
    for each in (folder / "run").iterdir():
        if each.is_file() and each.name not in ("audit.json", "lock"):
            (run.parent / each.name).write_bytes(each.read_bytes())
    names = ("loss", "epistemic", "clean_probability")
    columns = {name: rng.random(24, np.float32) for name in names}
    buffer = io.BytesIO()
    np.savez(buffer, given=np.arange(24) % 3, true=np.arange(24) % 3, **columns)
    run.write_bytes(buffer.getvalue())


def read_warm_run(path: Path) -> object:
    """Read the labels after warm-up as `ulc figure` does."""
    (run,), _ = find_runs([path.parent])
    return read_after_warm_up(run)


READS: dict[str, Callable[[Path], object]] = {
    "labels.npz": partial(read_label_file, key="noisy_label"),
    "labels.pt": partial(read_label_file, key="noisy_label"),
    "weights.pt": read_network_weights,
    "tuned.toml": partial(read_weights, columns=COLUMNS),
    "estimator": ulc.NoisyLabelClassifier.load,
    "after_warmup.npz": read_warm_run,
}
