"""Embedding by several processes: the same bits, and what is left if one dies."""

from pathlib import Path

import numpy as np
import pytest
import torch
import toy_backbones

from ulc.embedding.backbones import load_backbone
from ulc.embedding.embed import CHUNK, Embedder
from ulc.embedding.pool import choose_device_of, count_processes
from ulc.errors import InputError

CPU = torch.device("cpu")


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (4 * CHUNK + 40, 3, 8, 8)).astype(np.uint8)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def features(name, images, cache, processes):
    embedder = Embedder(load_backbone(f"toy_backbones:{name}"), Path(cache), CPU, 32, processes)
    found = np.concatenate(list(embedder.chunks(images)))
    return found, embedder.backbone.loaded.network.seen


def test_two_processes_give_the_bits_and_the_files_of_one(images):
    alone, computed = features("Toy", images, "alone", 1)
    both, computed_here = features("Toy", images, "both", 2)
    np.testing.assert_array_equal(both, alone)
    assert computed >= len(images)
    assert computed_here < CHUNK  # only what loading the backbone needs
    files = [
        {path.name: path.read_bytes() for path in Path(folder).rglob("*.pooled")}
        for folder in ("alone", "both")
    ]
    assert files[0] == files[1]
    assert len(files[0]) == 5


def test_after_the_death_of_a_process_the_same_command_goes_on(images, monkeypatch):
    """Each process of `Killed` dies within its second chunk."""
    with pytest.raises(InputError, match=r"has died.*the same command goes on"):
        features("Killed", images, "cache", 2)
    kept = list(Path("cache").rglob("*.pooled"))
    assert 1 <= len(kept) <= 2
    monkeypatch.setattr(toy_backbones.Killed, "survives", 10**9)
    found, computed = features("Killed", images, "cache", 1)
    missing = len(images) - CHUNK * len(kept)
    assert missing <= computed < missing + CHUNK
    np.testing.assert_array_equal(found, features("Toy", images, "other", 1)[0])


def test_the_command_takes_a_number_of_processes(ulc, images):
    np.savez("pictures.npz", X=images[:300], y=np.arange(300) % 3)
    shared = ("embed", "pictures.npz", "--backbone", "toy_backbones:Toy", "--quiet", "--out")
    assert ulc(*shared, "one.npz", "--cache", "a")[0] == 0
    assert ulc(*shared, "two.npz", "--cache", "b", "--processes", 2)[0] == 0
    assert Path("one.npz").read_bytes() == Path("two.npz").read_bytes()


def test_a_mistake_in_another_process_is_the_sentence_of_one(images):
    with pytest.raises(InputError, match=r"fails on a batch of 32 \(out of memory\)"):
        features("Poor", images[:300], "cache", 2)


def test_the_variable_is_a_number(monkeypatch):
    monkeypatch.delenv("ULC_EMBED_PROCESSES", raising=False)
    assert count_processes() == 1
    monkeypatch.setenv("ULC_EMBED_PROCESSES", "3")
    assert count_processes() == 3
    for wrong in ("0", "two", "-1"):
        monkeypatch.setenv("ULC_EMBED_PROCESSES", wrong)
        with pytest.raises(InputError, match="give a whole number above 0"):
            count_processes()


def test_processes_take_the_gpus_in_turn(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [choose_device_of(number, "cuda") for number in range(3)] == [
        "cuda:0",
        "cuda:1",
        "cuda:0",
    ]
    assert choose_device_of(1, "cpu") == "cpu"
    assert choose_device_of(1, "cuda:1") == "cuda:1"
