"""`ulc embed`, from pictures to a file that `ulc train` reads."""

import json
from pathlib import Path

import numpy as np
import pytest

TOY = ("--backbone", "toy_backbones:Toy")


@pytest.fixture
def pictures(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.tile(np.arange(3), 20)
    arrays = rng.integers(0, 100, (60, 6, 6, 3)) + 100 * (labels == 1)[:, None, None, None]
    path = tmp_path / "pictures.npz"
    np.savez(
        path, X=arrays.astype(np.uint8), y=labels, X_test=arrays.astype(np.uint8), y_test=labels
    )
    return path


def test_pictures_become_features_that_can_be_trained_on(ulc, pictures):
    code, printed = ulc("embed", pictures, *TOY, "--out", "f.npz", "--pca", 5, "--json", "--quiet")
    assert (code, printed.err) == (0, "")
    told = json.loads(printed.out)
    assert (told["images"], told["test_images"], told["pooled"], told["features"]) == (
        60,
        60,
        12,
        5,
    )
    assert 0.5 < told["explained"] < 1
    assert list(Path(told["cache"]).iterdir())
    assert Path(told["cache"]).parent.name == "embedded"
    code, _ = ulc("train", "f.npz", "-a", "ce", "--epochs", 1, "--quiet")
    assert code == 0


def test_the_bar_goes_to_stderr_and_quiet_prints_nothing(ulc, pictures):
    code, printed = ulc("embed", pictures, *TOY, "--out", "f.npz")
    assert code == 0
    assert "60 + 60 images as 12 features" in printed.out
    assert "120/120" in printed.err
    assert ulc("embed", pictures, *TOY, "--out", "f.npz", "--quiet")[1] == ("", "")


def test_another_cache_can_be_named(ulc, pictures, tmp_path):
    ulc("embed", pictures, *TOY, "--out", "f.npz", "--cache", tmp_path / "mine", "-q")
    assert (tmp_path / "mine").is_dir()
    assert not Path("embedded").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pictures.npz", "--out", "f.csv"), "--out f.csv: let the name end in .npz"),
        (("pictures.npz", "--out", "no/f.npz"), "there is no folder no; make it first"),
        (("pictures.npz", "--out", "pictures.npz"), "these are the images themselves"),
        (("vectors.npz", "--out", "f.npz"), "vectors: holds vectors of 4 numbers, not images"),
        (("pictures.npz", "--out", "f.npz", "--pca", "13"), "--pca 13: 60 training images"),
        (("pictures.npz", "--out", "f.npz", "--device", "moon"), "device 'moon' does not work"),
        (("gone.npz", "--out", "f.npz"), "gone.npz: no such file"),
    ],
)
@pytest.mark.usefixtures("pictures")
def test_a_mistake_ends_in_one_sentence(ulc, arguments, message):
    np.savez("vectors.npz", X=np.ones((6, 4)), y=np.arange(6) % 2)
    code, printed = ulc("embed", *arguments, *TOY, "--quiet")
    assert code == 2
    assert message in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert not Path("f.npz").exists()
