"""Runs of an algorithm or a network of one's own, before and after its file was edited."""

import importlib
import sys
from dataclasses import replace

import numpy as np
import pytest

import ulc
from stub_data import embeddings
from ulc.config import NetworkSpec
from ulc.embedding.backbones import load_backbone
from ulc.errors import InputError
from ulc.experiments.side_by_side import run_side_by_side
from ulc.training.loop import TrainingProgress
from ulc.training.model import Model
from ulc.training.run import run

ALGORITHM = """
from ulc.algorithms.cross_entropy import CrossEntropy

class Own(CrossEntropy):
    pass
"""
NETWORK = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 6)
    def forward(self, vectors):
        return self.layer(vectors)
"""
BACKBONE = """
from torch import nn

class Embed(nn.Module):
    size = 8
    def forward(self, images):
        return images.mean((2, 3))
"""
EDITED = "was edited after this run began; train anew with --fresh, or undo the edit"


class Stop(TrainingProgress):
    def on_epoch(self, record):
        raise KeyboardInterrupt


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write the user's files; they are imported anew, as in a new process."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    np.savez(tmp_path / "data.npz", **embeddings())

    def call(algorithm=ALGORITHM, network=NETWORK, backbone=BACKBONE):
        files = {"own_method": algorithm, "own_net": network, "own_embed": backbone}
        for name, content in files.items():
            (tmp_path / f"{name}.py").write_text(content)
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()

    call()
    return call


@pytest.fixture
def spec(tmp_path):
    return ulc.RunSpec(
        data={"source": "npz", "path": str(tmp_path / "data.npz")},
        algorithm="own_method:Own",
        network={"name": "own_net:Net"},
        epochs=2,
    )


def test_a_finished_run_is_read_again_as_long_as_nothing_is_edited(write, spec, tmp_path):
    first = run(spec, tmp_path / "runs").read("records.jsonl")
    write()
    assert run(spec, tmp_path / "runs").read("records.jsonl") == first


@pytest.mark.parametrize(
    ("edited", "name"),
    [
        ({"algorithm": ALGORITHM + "# better\n"}, "algorithm 'own_method:Own'"),
        ({"network": NETWORK.replace("6", "7")}, "network 'own_net:Net'"),
    ],
)
def test_a_finished_run_of_an_edited_file_is_not_read_but_named(
    write, spec, tmp_path, edited, name
):
    run(spec, tmp_path / "runs")
    write(**edited)
    with pytest.raises(InputError, match=f"the file of the {name} {EDITED}"):
        run(spec, tmp_path / "runs")
    ulc.train(spec, tmp_path / "runs", fresh=True)
    run(spec, tmp_path / "runs")


@pytest.mark.slow
def test_a_process_of_its_own_does_not_read_a_run_of_an_edited_file(write, spec, tmp_path):
    run(spec, tmp_path / "runs")
    write(algorithm=ALGORITHM + "# better\n")
    with pytest.raises(InputError, match=EDITED):
        run_side_by_side([spec], tmp_path / "runs", [TrainingProgress()])


def test_a_stopped_run_of_an_edited_file_does_not_go_on(write, spec, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(spec, tmp_path / "runs", progress=Stop())
    write(algorithm=ALGORITHM + "# better\n")
    with pytest.raises(InputError, match=EDITED):
        run(spec, tmp_path / "runs")
    write()
    assert run(spec, tmp_path / "runs").done


@pytest.mark.parametrize(
    "edited", [NETWORK.replace("6", "7"), NETWORK.replace("s)\n", "s) ** 2\n")]
)
def test_the_model_of_an_edited_network_is_not_called_damaged(write, spec, tmp_path, edited):
    """Neither where its weights fit no longer nor where only its forward is another."""
    folder = run(spec, tmp_path / "runs")
    Model.load(folder, trust=True).save_file(tmp_path / "model.safetensors")
    assert edited != NETWORK
    write(network=edited)
    says = "network 'own_net:Net' was edited after the model was trained; undo the edit"
    with pytest.raises(InputError, match=says):
        Model.load(folder, trust=True)
    with pytest.raises(InputError, match=says):
        Model.load_file(tmp_path / "model.safetensors", trust=True)


def test_the_code_of_this_package_is_not_hashed(write, spec, tmp_path):
    folder = run(spec, tmp_path / "runs")
    assert set(folder.read_json("environment.json")["own_code"]) == {"algorithm", "network"}
    ours = spec.model_copy(update={"algorithm": "ce", "network": NetworkSpec()})
    folder = run(ours, tmp_path / "runs")
    assert folder.read_json("environment.json")["own_code"] == {}


def test_a_finished_audit_of_an_edited_network_is_not_read_but_named(write, tmp_path):
    settings = {"network": "own_net:Net", "epochs": 2}
    data, out = tmp_path / "data.npz", tmp_path / "audits"
    ulc.audit(data, out, **settings)
    ulc.audit(data, out, **settings)
    write(network=NETWORK + "# better\n")
    with pytest.raises(InputError, match=f"the file of the network 'own_net:Net' {EDITED}"):
        ulc.audit(data, out, **settings)


def test_an_edited_backbone_has_another_fingerprint(write):
    before = load_backbone("own_embed:Embed").fingerprint()
    write()
    assert load_backbone("own_embed:Embed").fingerprint() == before
    write(backbone=BACKBONE.replace("mean", "amax"))
    assert load_backbone("own_embed:Embed").fingerprint() != before


def test_the_fingerprint_of_a_backbone_of_a_library_does_not_count_code(write):
    own = load_backbone("own_embed:Embed")
    library = replace(own, name="timm:embed").fingerprint()
    write(backbone=BACKBONE + "# better\n")
    assert replace(load_backbone("own_embed:Embed"), name="timm:embed").fingerprint() == library


def test_a_finished_audit_of_an_edited_backbone_is_not_read_but_named(write, tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    pixels = rng.integers(0, 100, (40, 8, 8, 3)) + 100 * labels[:, None, None, None]
    np.savez(tmp_path / "images.npz", X=pixels.astype(np.uint8), y=labels)
    data, out = tmp_path / "images.npz", tmp_path / "audits"
    settings = {"embed": "own_embed:Embed", "epochs": 2}
    first = ulc.audit(data, out, **settings)
    assert ulc.audit(data, out, **settings).path == first.path
    write(backbone=BACKBONE + "# better\n")
    with pytest.raises(InputError, match=f"the file of the backbone 'own_embed:Embed' {EDITED}"):
        ulc.audit(data, out, **settings)
    assert ulc.audit(data, out, fresh=True, **settings).path == first.path
