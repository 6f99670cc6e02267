"""Laws of embedding: order, batches, resuming, the cache, and what a features file holds."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import nn
from torch.nn import functional as F
from toy_backbones import Killed, Toy

from ulc.config import DataSpec
from ulc.data.sources import load_source, npz
from ulc.data.sources.source import Source
from ulc.embedding.backbones import Backbone, LoadedNetwork, load_backbone
from ulc.embedding.embed import CHUNK, Embedder, embed, resize_and_normalise
from ulc.errors import InputError

CPU = torch.device("cpu")


def images(count=90, shape=(3, 8, 8), seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, *shape)).astype(np.uint8)


def source(train=None, test=None):
    train = images() if train is None else train
    test = images(30, train.shape[1:], seed=1) if test is None else test
    return Source(
        name="toy",
        inputs=train,
        labels=np.arange(len(train)) % 3,
        true=np.arange(len(train)) // 2 % 3,
        class_names=("a", "b", "ç"),
        test_inputs=test,
        test_labels=np.arange(len(test)) % 3,
    )


def embedder(network=None, cache="cache", **changes):
    network = Toy() if network is None else network
    backbone = Backbone("toy", LoadedNetwork(network, 8), 12)
    return Embedder(backbone, Path(cache), CPU, **changes)


def pooled(inputs, through=None):
    return np.concatenate(list((through or embedder()).chunks(inputs)))


def test_the_order_of_the_images_is_kept():
    inputs = images(CHUNK + 40)
    order = np.random.default_rng(2).permutation(len(inputs))
    np.testing.assert_allclose(pooled(inputs)[order], pooled(inputs[order]), atol=1e-6)


def test_the_batch_size_does_not_matter():
    inputs = images(CHUNK + 40)
    one = pooled(inputs, embedder(cache="one", batch_size=1))
    for size in (7, 32, 10_000):
        other = pooled(inputs, embedder(cache=f"of {size}", batch_size=size))
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_features_are_those_of_the_network_in_evaluation_mode_which_is_given_back_after():
    network, inputs = Toy().train(), images(10)
    found = pooled(inputs, embedder(network))
    assert network.training
    assert network.norm.num_batches_tracked == 0
    with torch.no_grad():
        wanted = network.eval()(
            resize_and_normalise(torch.tensor(inputs), LoadedNetwork(network, 8))
        )
    np.testing.assert_array_equal(found, wanted.numpy())


def test_a_killed_run_goes_on_to_the_bits_of_an_unbroken_one():
    inputs = images(3 * CHUNK - 5)
    unbroken = pooled(inputs, embedder(cache="unbroken"))
    with pytest.raises(KeyboardInterrupt):
        pooled(inputs, embedder(Killed()))
    after = Toy()
    np.testing.assert_array_equal(pooled(inputs, embedder(after)), unbroken)
    assert after.seen == len(inputs) - CHUNK  # the first chunk was finished before the kill


def test_images_seen_before_do_not_run_the_network():
    inputs = images(CHUNK + 40)
    first = pooled(inputs)
    again = Toy()
    np.testing.assert_array_equal(pooled(inputs, embedder(again, batch_size=3)), first)
    assert again.seen == 0
    pooled(np.concatenate([inputs[:CHUNK], images(9, seed=5)]), embedder(again))
    assert again.seen == 9


def test_other_images_weights_sizes_or_names_are_not_mistaken_for_those_seen():
    pooled(images())
    changed = images()
    changed[50, 0, 0, 0] ^= 1
    same_bytes = images().reshape(-1, 3, 4, 16)
    cases = [
        (embedder(Toy()), changed),
        (embedder(Toy()), same_bytes),
        (embedder(Toy(seed=1)), images()),
    ]
    for field, value in (("size", 9), ("mean", (0.0, 0.0, 0.0)), ("interpolation", "bicubic")):
        loaded = dataclasses.replace(embedder(Toy()).backbone.loaded, **{field: value})
        cases.append((Embedder(Backbone("toy", loaded, 12), Path("cache"), CPU), images()))
    cases.append(
        (Embedder(Backbone("other:toy", LoadedNetwork(Toy(), 8), 12), Path("cache"), CPU), images())
    )
    for through, inputs in cases:
        pooled(inputs, through)
        assert through.backbone.loaded.network.seen == len(inputs)


@settings(deadline=None)
@given(st.data())
def test_a_damaged_chunk_is_computed_again(data):
    inputs = images(6)
    wanted = pooled(inputs)
    (path,) = embedder().cache.folder.iterdir()
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[place] ^= data.draw(st.integers(1, 255))
    else:
        content = content[:place]
    path.write_bytes(bytes(content))
    network = Toy()
    np.testing.assert_array_equal(pooled(inputs, embedder(network)), wanted)
    assert network.seen == 6
    assert pooled(inputs, embedder(network)) is not None
    assert network.seen == 6  # and is whole again


def test_grey_images_are_seen_as_colour_images_of_three_equal_channels():
    grey = images(20, (1, 5, 7))
    colour = np.repeat(grey, 3, axis=1)
    np.testing.assert_array_equal(pooled(grey), pooled(colour, embedder(cache="colour")))


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (2, 3), (40, 1)])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_tiny_and_oblong_images_of_one_colour_keep_it(shape, interpolation):
    loaded = LoadedNetwork(
        nn.Identity(), 8, mean=(0.5,) * 3, std=(0.25,) * 3, interpolation=interpolation
    )
    batch = torch.tensor([51, 102, 204], dtype=torch.uint8).view(1, 3, 1, 1).expand(2, 3, *shape)
    wanted = torch.tensor([-1.2, -0.4, 1.2]).view(1, 3, 1, 1).expand(2, 3, 8, 8)
    torch.testing.assert_close(resize_and_normalise(batch, loaded), wanted)


def test_images_that_shrink_are_smoothed_and_others_are_not():
    chess = np.indices((16, 16)).sum(axis=0) % 2 * 255
    batch = torch.tensor(chess, dtype=torch.uint8).expand(1, 3, 16, 16)
    plain = {"mean": (0.0,) * 3, "std": (1.0,) * 3}
    small = resize_and_normalise(batch, LoadedNetwork(nn.Identity(), 5, **plain))
    assert (small - 0.5).abs().max() < 0.06  # the mean of black and white
    large = resize_and_normalise(
        batch, LoadedNetwork(nn.Identity(), 32, interpolation="bicubic", **plain)
    )
    torch.testing.assert_close(large, F.interpolate(batch / 255, (32, 32), mode="bicubic"))


def test_a_features_file_is_read_back_with_all_that_the_source_knows(tmp_path):
    known = source()
    done = embed(known, embedder())
    done.write(tmp_path / "features.npz")
    read = npz.load(tmp_path / "features.npz")
    assert done.arrays["X"].dtype == np.float16
    np.testing.assert_array_equal(read.inputs, done.arrays["X"].astype(np.float32))
    np.testing.assert_array_equal(read.labels, known.labels)
    np.testing.assert_array_equal(read.true, known.true)
    np.testing.assert_array_equal(read.test_labels, known.test_labels)
    assert read.test_inputs.shape == (30, 12)
    assert read.class_names == known.class_names
    assert not {"ids", "verified"} & done.arrays.keys()


def test_a_source_without_truth_or_test_set_gives_a_file_without(tmp_path):
    bare = dataclasses.replace(source(), true=None, test_inputs=None, test_labels=None)
    done = embed(bare, embedder())
    assert done.arrays.keys() == {"X", "y", "class_names"}


def test_names_and_checks_of_rows_ride_along_without_a_pickle(tmp_path):
    known = source()
    object.__setattr__(known, "ids", np.array([f"photo {i}.jpg" for i in range(90)], object))
    object.__setattr__(known, "verified", np.arange(90) % 2 == 0)
    embed(known, embedder()).write(tmp_path / "features.npz")
    with np.load(tmp_path / "features.npz", allow_pickle=False) as content:
        assert content["ids"][7] == "photo 7.jpg"
        assert content["verified"].sum() == 45


def test_twice_gives_the_same_file_and_test_images_do_not_shape_training_features(tmp_path):
    for name in ("a", "b"):
        embed(source(), embedder(cache=f"cache {name}"), pca=5).write(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    black = embed(source(test=np.zeros((4, 3, 8, 8), np.uint8)), embedder(), pca=5)
    with np.load(tmp_path / "a") as content:
        np.testing.assert_array_equal(content["X"], black.arrays["X"])


def test_progress_counts_every_image_of_both_parts():
    told = []
    embed(source(images(CHUNK + 1)), embedder(), on_progress=lambda *numbers: told.append(numbers))
    total = CHUNK + 31
    assert told == [(0, total), (CHUNK, total), (CHUNK + 1, total), (total, total)]


def test_vectors_and_odd_channels_are_refused():
    vectors = Source("vectors", np.ones((6, 4), np.float32), np.arange(6) % 2, ("a", "b"))
    with pytest.raises(
        InputError, match=r"vectors: holds vectors of 4 numbers, not images; train on them"
    ):
        embed(vectors, embedder())
    with pytest.raises(InputError, match=r"images have 4 channels; give grey \(1\) or colour"):
        embed(source(images(shape=(4, 8, 8))), embedder())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Fickle", r"gives \(90, 11\) for 90 images; its shape must be \(90, 12\)"),
        ("Poor", r"fails on a batch of 90 \(out of memory\); lower --batch-size"),
        ("Undefined", r"gives NaN or infinity for image 7; check its weights"),
    ],
)
def test_a_backbone_that_fails_is_named_and_nothing_is_kept(name, message):
    inputs = images() // 2
    inputs[7] = 255
    backbone = load_backbone(f"toy_backbones:{name}")
    through = Embedder(backbone, Path("cache"), CPU, batch_size=100)
    with pytest.raises(InputError, match=f"backbone 'toy_backbones:{name}' {message}"):
        embed(source(inputs), through)
    assert not Path("cache").exists()


def test_a_cache_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"cannot be made .*choose another --cache"):
        pooled(images(), embedder(cache=tmp_path / "file"))


def test_images_that_are_read_lazily_have_the_same_features(monkeypatch):
    monkeypatch.setenv("ULC_IMAGE_WORKERS", "0")
    for name, part in (("a", images(9)), ("b", images(9, seed=1))):
        Path("photos", name).mkdir(parents=True)
        for number, pixels in enumerate(part):
            Image.fromarray(pixels.transpose(1, 2, 0)).save(Path("photos", name, f"{number}.png"))
    found = [
        embed(load_source(DataSpec(source="folder", path="photos", lazy=lazy)), embedder()).arrays
        for lazy in (False, True)
    ]
    assert np.array_equal(found[0]["X"], found[1]["X"])
