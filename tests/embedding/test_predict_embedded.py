"""A run on embedded images predicts new images: they are embedded in the same way."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from toy_backbones import Toy

from ulc import load_run
from ulc.embedding.stored import StoredEmbedding
from ulc.errors import InputError
from ulc.storage.files import read_npz

TOY = ("--backbone", "toy_backbones:Toy")
NAMES = ("cat", "dog", "tea")


def photographs(folder, size, count=10, seed=0):
    rng = np.random.default_rng(seed)
    for number in range(3 * count):
        path = Path(folder, NAMES[number % 3], f"{number:03}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 60, (size, size + number % 2, 3))
        pixels[..., number % 3] += 150
        Image.fromarray(pixels.astype(np.uint8)).save(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run on photographs of 80 pixels, resized to 64, embedded at 8, five components."""
    from ulc.config import DataSpec, RunSpec
    from ulc.data.sources import load_source
    from ulc.embedding.backbones import load_backbone
    from ulc.embedding.embed import Embedder, embed
    from ulc.training.device import choose_device
    from ulc.training.run import run

    home = tmp_path_factory.mktemp("embedded run")
    photographs(home / "photos", 80)
    source = load_source(DataSpec(source="folder", path=str(home / "photos")))
    backbone = load_backbone("toy_backbones:Toy")
    embedder = Embedder(backbone, home / "cache", choose_device("cpu"))
    embed(source, embedder, pca=5).write(home / "features.npz")
    data = DataSpec(source="npz", path=str(home / "features.npz"))
    spec = RunSpec(data=data, algorithm="ce", options={"batch_size": 8}, epochs=6)
    return home, run(spec, home).path


def frame(ulc, *arguments):
    code, printed = ulc("predict", *arguments, "--trust", "--out", "p.csv", "-q")
    assert (code, printed.err) == (0, "")
    return pd.read_csv("p.csv")


def test_the_run_keeps_how_its_images_were_embedded(made):
    home, run = made
    kept = StoredEmbedding.read(read_npz(run / "embedding.npz"), "run")
    beside = StoredEmbedding.read(read_npz(home / "features.npz"), "features")
    assert kept.same_as(beside)
    assert (kept.backbone, kept.size, kept.height, kept.width) == ("toy_backbones:Toy", 8, 64, 64)
    assert kept.projection.directions.shape == (12, 5)


def test_photographs_are_predicted_as_their_features_are(made, ulc):
    home, run = made
    by_photo = frame(ulc, run, home / "photos")
    by_features = frame(ulc, run, home / "features.npz")
    pd.testing.assert_frame_equal(by_photo, by_features)
    with np.load(home / "features.npz") as arrays:
        wanted = load_run(run).model.predict_proba(arrays["X"].astype(np.float32))
    np.testing.assert_allclose(by_photo["confidence"], wanted.max(1), rtol=1e-4)
    assert (by_photo["given_label"] == by_photo["predicted_label"]).mean() > 0.9


def test_new_photographs_loose_or_as_an_array_are_embedded_too(made, ulc):
    _, run = made
    photographs("new", 100, count=2, seed=1)
    found = frame(ulc, run, "new", "--cache", "kept")
    assert list(found["predicted_label"]) == list(found["given_label"])
    assert list(Path("kept").rglob("*.pooled"))
    Path("loose").mkdir()
    for path in Path("new").rglob("*.png"):
        path.rename(f"loose/{path.name}")
    loose = frame(ulc, run, "loose").sort_values("predicted_label", kind="stable")
    np.testing.assert_allclose(loose["confidence"], found["confidence"], rtol=1e-3)
    grey = np.full((2, 64, 64), 90, np.uint8)
    assert len(load_run(run, trust=True).predict(grey)) == 2
    same = load_run(run, trust=True).predict(np.repeat(grey[:, None], 3, axis=1))
    assert list(load_run(run, trust=True).predict(grey)["confidence"]) == list(same["confidence"])


def test_the_command_from_photographs_to_predictions(ulc):
    photographs("photos", 20, count=8)
    assert ulc("embed", "photos", *TOY, "--out", "f.npz", "-q")[0] == 0
    code, printed = ulc(
        "train", "f.npz", "-a", "ce", "--epochs", 1, "--set", "batch_size=8", "--json", "-q"
    )
    (run,) = json.loads(printed.out)
    code, printed = ulc("predict", run["run"], "photos", "--trust")
    assert code == 0
    assert "24/24" in printed.err


def test_features_that_another_embedding_made_are_refused(made, ulc):
    _, run = made
    photographs("new", 80, seed=2)
    ulc("embed", "new", *TOY, "--out", "other.npz", "--pca", 5, "-q")
    code, printed = ulc("predict", run, "other.npz")
    assert code == 2
    assert "other.npz: not embedded as the run's data" in printed.err
    with np.load("other.npz") as arrays:
        np.savez("bare.npz", X=arrays["X"])
    assert ulc("predict", run, "bare.npz", "-q")[0] == 0


def test_a_backbone_with_other_weights_is_refused(made, ulc, monkeypatch):
    _, run = made
    photographs("new", 80, count=1)
    before = Toy.__init__
    monkeypatch.setattr(Toy, "__init__", lambda self: before(self, seed=1))
    code, printed = ulc("predict", run, "new", "--trust", "-q")
    assert code == 2
    assert "backbone 'toy_backbones:Toy' differs in weights, code or preprocessing" in printed.err


def test_a_damaged_embedding_is_said(made):
    _, run = made
    arrays = read_npz(run / "embedding.npz")
    assert StoredEmbedding.read({"X": np.ones(3)}, "bare.npz") is None
    del arrays["embedding_scale"]
    with pytest.raises(InputError, match=r"f\.npz: the description of the embedding is damaged"):
        StoredEmbedding.read(arrays, "f.npz")
