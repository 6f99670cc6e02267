"""Code that only a file names does not run: models, specs, embeddings, estimators of a stranger."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import ulc
from stub_data import embeddings
from ulc.algorithms import find_algorithm
from ulc.config import DataSpec, NetworkSpec, RunSpec
from ulc.embedding.backbones import check_backbone_trust, load_backbone
from ulc.embedding.stored import StoredEmbedding
from ulc.errors import InputError
from ulc.networks import backbone_maker
from ulc.training.model import Model
from ulc.training.run import run

OWN = """
from pathlib import Path
from torch import nn
from ulc.algorithms.cross_entropy import CrossEntropy

Path("was-run").touch()

class Net(nn.Module):
    size = 8
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 6)
    def forward(self, vectors):
        return self.layer(vectors)

class Own(CrossEntropy):
    pass

def trap(*_, **__):
    Path("was-called").touch()
"""
REFUSED = "which is code outside this package and is not run because a file asks for it"


@pytest.fixture(autouse=True)
def _evil_module(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    Path("evil.py").write_text(OWN)
    np.savez("data.npz", **embeddings())
    yield
    sys.modules.pop("evil", None)


def spec(**change):
    data = {"source": "npz", "path": str(Path("data.npz").absolute())}
    return RunSpec(data=data, algorithm="ce", epochs=1, options={"batch_size": 8}, **change)


@pytest.fixture
def folder():
    """A finished run of a built-in network, made before any file was forged."""
    return run(spec(), Path("runs"))


def forge(folder, name, change):
    content = folder.read_json(name)
    change(content)
    (folder.path / name).write_text(json.dumps(content))
    (folder.path / "checksums.json").unlink()  # who forges a folder forges its checksums


def forge_network(folder):
    forge(folder, "model.json", lambda content: content["network"].update(name="evil:Net"))


def refused(code, printed):
    assert code == 2
    assert REFUSED in printed.err
    assert "if you trust it, say --trust" in printed.err
    assert not Path("was-run").exists()


def test_predict_and_export_do_not_import_the_network_of_a_strangers_model(ulc, folder):
    forge_network(folder)
    refused(*ulc("predict", folder.path, "data.npz", "-q"))
    refused(*ulc("export", folder.path, "--safetensors", "m.safetensors"))
    assert not Path("m.safetensors").exists()


def test_python_does_not_import_the_network_of_a_strangers_model(folder):
    forge_network(folder)
    for load in (lambda: Model.load(folder), lambda: ulc.load_run(folder.path).model):
        with pytest.raises(InputError, match=REFUSED):
            load()
    assert not Path("was-run").exists()


def test_resume_does_not_import_the_algorithm_or_network_of_a_strangers_spec(ulc):
    for name, change in {
        "a": {"algorithm": "evil:Own"},
        "n": {"network": {"name": "evil:Net"}},
    }.items():
        wanted = RunSpec.model_validate(spec().model_dump() | change)
        path = Path(name) / wanted.folder_name
        path.mkdir(parents=True)
        (path / "spec.toml").write_text(wanted.write())
        refused(*ulc("resume", path, "-q"))
        refused(*ulc("train", "--spec", path / "spec.toml", "-q"))


@pytest.mark.parametrize("change", ['embed = "evil:Net"', '[network]\nname = "evil:Net"'])
def test_resume_does_not_import_code_of_a_strangers_audit(ulc, change):
    Path("audit").mkdir()
    content = f'{change}\n[data]\nsource = "npz"\npath = "data.npz"\n'
    Path("audit/audit.toml").write_text(content)
    refused(*ulc("resume", "audit", "-q"))


def test_an_embedding_in_a_strangers_file_is_not_imported():
    stored = StoredEmbedding("evil:Net", 8, 8, 8, "", None)
    with pytest.raises(InputError, match=REFUSED):
        stored.load_backbone("f.npz")
    assert not Path("was-run").exists()


@pytest.mark.parametrize("name", ["timm:hf_hub:evil/net", "timm:local-dir:/tmp/x", "timm:a/b"])
def test_a_file_names_no_hub_or_folder_of_backbones(name):
    with pytest.raises(InputError, match=REFUSED):
        check_backbone_trust(name, "f.npz", trust=False)
    check_backbone_trust(name, "f.npz", trust=True)
    check_backbone_trust("timm:resnet18.a1_in1k", "f.npz", trust=False)
    check_backbone_trust("efficientnet-lite0", "f.npz", trust=False)


def test_who_trusts_a_file_or_has_named_the_code_may_use_it(ulc):
    own = spec(network=NetworkSpec(name="evil:Net")).model_copy(update={"algorithm": "evil:Own"})
    made = ulc_train(own)
    assert made.model.spec.network.name == "evil:Net"  # named in this program
    for path in Path("runs").iterdir():
        assert ulc("predict", path, "data.npz", "-q", "--trust")[0] == 0
        assert ulc("export", path, "--safetensors", "m.safetensors", "--trust")[0] == 0
        assert ulc("resume", path, "--trust", "-q")[0] == 0
    with pytest.raises(InputError, match=REFUSED):
        Model.load_file(Path("m.safetensors"))
    assert Model.load_file(Path("m.safetensors"), trust=True).spec.network.name == "evil:Net"
    assert ulc("train", "--spec", made.path / "spec.toml", "--trust", "-q")[0] == 0


def ulc_train(wanted):
    return ulc.train(wanted, "runs")


def test_a_run_that_lies_where_ours_belongs_may_not_name_other_code(folder):
    """The user named no code, so the finished folder of the same spec may not either."""
    forge_network(folder)
    with pytest.raises(InputError):
        ulc_train(spec()).model.predict_proba(np.zeros((2, 4)))
    assert not Path("was-run").exists()


def test_a_saved_estimator_does_not_import_what_its_file_names():
    arrays = embeddings()
    fitted = ulc.NoisyLabelClassifier("ce", network="evil:Net", epochs=1).fit(
        arrays["X"], arrays["y"]
    )
    fitted.save("fitted")
    with pytest.raises(InputError, match=REFUSED):
        ulc.NoisyLabelClassifier.load("fitted")
    again = ulc.NoisyLabelClassifier.load("fitted", trust=True)
    assert np.array_equal(again.predict(arrays["X"]), fitted.predict(arrays["X"]))


@pytest.mark.parametrize("name", ["evil:trap", "os:abort", "builtins:print", "json:JSONDecoder"])
def test_nothing_but_a_class_of_networks_or_algorithms_is_called(name):
    with pytest.raises(InputError, match="name a class derived from torch"):
        backbone_maker(NetworkSpec(name=name), (4,))
    with pytest.raises(InputError, match="name a class derived from torch"):
        load_backbone(name)
    with pytest.raises(InputError, match="name a class derived from"):
        find_algorithm(name)
    assert not Path("was-called").exists()


@pytest.mark.parametrize("name", ["sentence-transformers:evil/model", "model2vec:/tmp/x"])
def test_a_text_model_that_only_a_file_names_is_not_loaded(ulc, name):
    wanted = spec().model_copy(
        update={"data": DataSpec(source="table", path="t.csv", text_model=name)}
    )
    path = Path("runs") / wanted.folder_name
    path.mkdir(parents=True)
    (path / "spec.toml").write_text(wanted.write())
    refused(*ulc("resume", path, "-q"))
    refused(*ulc("train", "--spec", path / "spec.toml", "-q"))
