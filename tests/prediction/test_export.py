"""An exported model gives PyTorch's probabilities for every batch size."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from ulc.config import NetworkSpec
from ulc.data.preprocessing import Preprocessing
from ulc.errors import InputError
from ulc.networks.classifier import HeadSpec
from ulc.prediction import export
from ulc.training.model import Model, ModelSpec

SHAPES = {"mlp": (6,), "small_cnn": (3, 18, 22), "narrow_resnet": (3, 18, 22)}


def model(network="mlp", networks=2, own=None):
    """An untrained model with batch norm statistics."""
    shape = SHAPES[network]
    channels = 3 if len(shape) == 3 else 6
    spec = ModelSpec(
        network=NetworkSpec(name=network, width=4),
        heads=HeadSpec(dropout=0.3, dropout_place="last_stage", logit_noise=True),
        networks=networks,
        preprocessing=Preprocessing(
            kind="image" if len(shape) == 3 else "vector",
            shape=shape,
            mean=(0.4,) * channels if len(shape) == 3 else (1e4,) * channels,
            std=(0.25,) * 3 if len(shape) == 3 else (2.0,),
        ),
        class_names=("cat", "dog", "чай"),
        class_prior=(0.7, 0.2, 0.1),
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = Model.untrained(spec, own)
        made.networks.train()
        for each in made.members:
            inputs = torch.from_numpy(export.random_inputs(spec.preprocessing, 8))
            each(spec.preprocessing.ready(inputs) if len(shape) == 3 else (inputs - 1e4) / 2)
    return made


def session(content):
    import onnxruntime

    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "networks", "prior"),
    [
        ("mlp", 1, (0.2, 0.3, 0.5)),
        ("small_cnn", 2, "balanced"),
        ("narrow_resnet", 1, "training"),
    ],
)
def test_the_graph_is_the_model_on_raw_inputs(network, networks, prior):
    one = model(network, networks)
    made = export.export_onnx(one, prior=prior)
    assert made.difference < 1e-5
    graph = session(made.content)
    rng = np.random.default_rng(7)
    for rows in (1, 5):
        inputs = rng.integers(0, 256, (rows, *SHAPES[network]))
        inputs = inputs.astype(np.uint8) if network != "mlp" else inputs.astype(np.float32) + 9_900
        (found,) = graph.run(None, {"inputs": inputs})
        np.testing.assert_allclose(found, one.predict_proba(inputs, prior=prior), atol=1e-5)
        assert found.argmax(1).shape == (rows,)
    about = graph.get_modelmeta().custom_metadata_map
    assert json.loads(about["class_names"]) == ["cat", "dog", "чай"]
    assert about["prior"] == (prior if isinstance(prior, str) else json.dumps(list(prior)))


def test_a_graph_that_differs_is_not_handed_over(monkeypatch):
    monkeypatch.setattr(export, "trace_to_onnx", lambda *_: tiny_graph())
    with pytest.raises(InputError, match=r"of 'mlp' differs from PyTorch by .*nothing was written"):
        export.export_onnx(model())


def test_a_graph_that_allows_one_batch_size_is_not_handed_over(monkeypatch):
    monkeypatch.setattr(export, "trace_to_onnx", lambda *_: tiny_graph(batch=2))
    with pytest.raises(InputError, match=r"of 'mlp' fails on a batch of 1 .*nothing was written"):
        export.export_onnx(model())


def tiny_graph(batch="batch"):
    """An ONNX graph that gives (0, 0, 0) for every row."""
    from onnx import TensorProto, helper

    zero = helper.make_node("Constant", [], ["zero"], value_float=0.0)
    shrink = helper.make_node("Slice", ["inputs", "start", "end", "axis"], ["part"])
    places = [
        helper.make_node("Constant", [], [name], value_ints=[value])
        for name, value in (("start", 0), ("end", 3), ("axis", 1))
    ]
    times = helper.make_node("Mul", ["part", "zero"], ["probabilities"])
    graph = helper.make_graph(
        [zero, *places, shrink, times],
        "zeros",
        [helper.make_tensor_value_info("inputs", TensorProto.FLOAT, [batch, 6])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [batch, 3])],
    )
    opset = helper.make_opsetid("", 18)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(export, "find_spec", lambda name: None if name == "onnxruntime" else 1)
    with pytest.raises(InputError, match=r"ONNX needs onnxruntime; .*pip install 'ulc\[onnx\]'"):
        export.export_onnx(model())


def test_one_safetensors_file_holds_all_of_the_model():
    one = model("small_cnn")
    one.save_file(Path("model.safetensors"))
    again = Model.load_file(Path("model.safetensors"))
    assert again.spec == one.spec
    inputs = export.random_inputs(one.spec.preprocessing, 5)
    for prior in ("training", "balanced"):
        np.testing.assert_array_equal(
            one.predict_proba(inputs, prior=prior), again.predict_proba(inputs, prior=prior)
        )


def test_a_file_that_is_no_model_is_said():
    with pytest.raises(InputError, match=r"gone: no such file; `ulc export` writes one"):
        Model.load_file(Path("gone"))
    Path("text").write_text("no model")
    with pytest.raises(InputError, match=r"text: not a readable model \(.*\); export it again"):
        Model.load_file(Path("text"))


@pytest.fixture
def run():
    from ulc.config import DataSpec, RunSpec
    from ulc.training.run import run

    lines = [f"{'uv'[i % 2]},{i % 2 + i / 99},{i % 5}" for i in range(24)]
    Path("t.csv").write_text("\n".join(["label,a,b", *lines]))
    data = DataSpec(source="table", path="t.csv")
    spec = RunSpec(data=data, algorithm="ce", options={"batch_size": 8}, epochs=1)
    return run(spec, Path("runs")).path


@pytest.mark.slow
def test_the_command_writes_both_and_tells_the_difference(ulc, run):
    code, printed = ulc(
        "export", run, "--onnx", "m.onnx", "--safetensors", "m.safetensors", "--json"
    )
    assert (code, printed.err) == (0, "")
    told = json.loads(printed.out)
    assert told["difference"] < 1e-5
    about = session(Path("m.onnx").read_bytes()).get_modelmeta().custom_metadata_map
    assert [each["name"] for each in json.loads(about["encoding"])["columns"]] == ["a", "b"]
    assert Model.load_file(Path("m.safetensors")).spec.class_names == ("u", "v")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "nothing to write; give --onnx"),
        (("--onnx", "no/m.onnx"), "--onnx no/m.onnx: there is no folder no"),
        (("--onnx", "m.onnx", "--prior", "even"), "unknown prior 'even'"),
        (("--safetensors", "m", "--prior", "balanced"), "--prior is only for --onnx"),
    ],
)
def test_a_mistake_ends_in_one_sentence(ulc, options, message):
    code, printed = ulc("export", "gone", *options)
    assert code == 2
    assert message in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert "not a run folder" in ulc("export", "gone", "--onnx", "m.onnx")[1].err
    assert not list(Path().iterdir())


def test_the_command_imports_nothing_heavy_for_its_help():
    script = (
        "import sys; sys.argv = ['ulc', 'export', '--help']\n"
        "from ulc.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'numpy', 'pandas', 'onnx'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
