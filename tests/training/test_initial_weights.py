"""A file of initial weights belongs to a run as its data do: other weights make another run."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ulc.config import DataSpec, NetworkSpec, RunSpec
from ulc.data import identity
from ulc.data.identity import DataIdentity
from ulc.data.prepare import prepare
from ulc.errors import InputError
from ulc.networks import backbone_maker
from ulc.storage.run_folder import RunFolder
from ulc.training.placing import place
from ulc.training.run import finished_run, run


def test_a_file_of_initial_weights_belongs_to_the_run(monkeypatch):
    monkeypatch.setattr(identity, "SETTLED", -60.0)
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (8, 8, 8, 3), np.uint8)
    np.savez("data.npz", X=pixels, y=np.arange(8) % 2)
    data = DataSpec(source="npz", path=str(Path("data.npz").absolute()))
    plain = {"name": "resnet50", "width": 2}
    spec = RunSpec(data=data, algorithm="ce", network=NetworkSpec(**plain), epochs=1)
    content = prepare(spec, torch.device("cpu")).identity.content
    weights = Path("w.pth").absolute()
    state = backbone_maker(spec.network, (3, 8, 8))().state_dict()
    torch.save(state, weights)
    network = NetworkSpec(**plain, weights=str(weights))
    named = spec.model_copy(update={"network": network})
    old = run(named, Path("runs"))
    assert old.read_json("identity.json")["content"] != content
    assert finished_run(named, Path("runs")).path == old.path
    torch.save({name: each / 2 for name, each in state.items()}, weights)
    assert finished_run(named, Path("runs")) is None
    new = run(named, Path("runs"))
    assert new.path != old.path
    assert new.read("model.safetensors") != old.read("model.safetensors")
    torch.save(state, weights)
    assert run(named, Path("runs")).path == old.path


def test_a_stopped_run_of_other_initial_weights_is_not_resumed():
    folder = RunFolder.create(Path("stopped"), RunSpec(network=NetworkSpec(weights="w.pth")))
    folder.write_json("identity.json", {"content": "old", "files": None, "images": True})
    with pytest.raises(InputError, match="a stopped run whose data or weights have changed"):
        place(folder.path, DataIdentity(content="new", files=None, images=True))
