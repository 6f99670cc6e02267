"""A run: the files in its folder, and how it is resumed."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from ulc import load_run, train
from ulc.config import DataSpec, ImbalanceSpec, NoiseSpec, RunSpec
from ulc.data.prepare import label, prepare
from ulc.errors import InputError
from ulc.storage.run_folder import RunFolder
from ulc.training.loop import TrainingProgress
from ulc.training.run import run
from ulc.training.scores import summarise


@pytest.fixture
def spec(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 40)
    centres = rng.normal(size=(3, 5)) * 3
    path = tmp_path / "toy.npz"
    np.savez(
        path,
        X=centres[labels] + rng.normal(size=(120, 5)),
        y=labels,
        X_test=centres[labels] + rng.normal(size=(120, 5)),
        y_test=labels,
    )
    return RunSpec(
        data=DataSpec(source="npz", path=str(path)),
        imbalance=ImbalanceSpec(kind="half", ratio=4),
        noise=NoiseSpec(kind="symmetric", rate=0.3),
        algorithm="ulc",
        options={"warmup_epochs": 2, "batch_size": 16, "warmup_batch_size": 16},
        epochs=6,
    )


def test_a_run_is_a_folder_that_holds_everything(spec, tmp_path):
    done = train(spec, tmp_path / "runs")
    names = {path.name for path in done.path.iterdir()} - {"lock", "labels.parquet"}
    assert names == {
        "spec.toml", "environment.json", "data.json", "records.jsonl", "checkpoint.pt",
        "judgement.npz", "outputs.npz", "labels.csv", "model.safetensors", "model.json",
        "summary.json", "health.json", "corrected.csv", "done", "checksums.json", "identity.json",
        "after_warmup.npz",
    }  # fmt: skip
    assert len(done.records) == 6
    transition = np.array(done.folder.read_json("data.json")["transition"])
    assert np.allclose(transition.sum(1), 1)
    record = done.records[-1]
    for prior in ("training", "balanced"):
        assert 0 <= record["test"][prior]["accuracy"] <= 1
        assert len(record["test"][prior]["per_class_accuracy"]) == 3
    assert {"auc", "average_precision", "precision", "recall", "trusted_correct"} <= set(
        record["labels"]["small"]
    )
    measures = {"epistemic", "aleatoric", "aleatoric_spread", "weight_norm", "class_noise"}
    assert measures == set(record["groups"]["small"])


def test_ulc_hands_over_the_outputs_of_algorithm_1(spec, tmp_path):
    done = train(spec, tmp_path / "runs")
    with np.load(done.path / "outputs.npz") as outputs:
        examples = len(done.judgement.given)
        assert outputs["corrected_labels"].shape == (2, examples, 3)
        assert outputs["instance_noise_std"].shape == (2, examples, 3)
        assert outputs["class_noise_std"].shape == (2, 3, 3)
        assert np.allclose(outputs["corrected_labels"].sum(2), 1, atol=1e-5)


def test_the_saved_model_predicts_what_was_scored(spec, tmp_path):
    done = train(spec, tmp_path / "runs")
    with np.load(spec.data.path) as content:
        inputs, labels = content["X_test"].astype(np.float32), content["y_test"]
    model = load_run(done.path).model
    for prior in ("training", "balanced"):
        accuracy = (model.predict_proba(inputs, prior=prior).argmax(1) == labels).mean()
        assert accuracy == pytest.approx(done.records[-1]["test"][prior]["accuracy"])
    skewed = model.predict_proba(inputs, prior=[1, 0, 0])
    assert (skewed.argmax(1) == 0).all()


class StopAfter(TrainingProgress):
    def __init__(self, epoch):
        self.epoch = epoch

    def on_epoch(self, record):
        if record["epoch"] == self.epoch:
            raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("held_out", [0.0, 0.2])
def test_a_stopped_run_goes_on_to_the_same_bits(spec, tmp_path, held_out):
    spec = spec.model_copy(update={"held_out": held_out})
    whole = run(spec, tmp_path / "whole")
    for epoch in (0, 1, 3):
        out = tmp_path / f"stopped after {epoch}"
        with pytest.raises(KeyboardInterrupt):
            run(spec, out, progress=StopAfter(epoch), save_every=0)
        assert_same_run(whole, run(spec, out, save_every=0))


@pytest.mark.parametrize("kept", [[0], [0, 2], []])
def test_records_that_do_not_reach_the_checkpoint_are_noticed(spec, tmp_path, kept):
    """Even if they were cut at the end of a line."""
    with pytest.raises(KeyboardInterrupt):
        run(spec, tmp_path, progress=StopAfter(2), save_every=0)
    (path,) = (each for each in tmp_path.iterdir() if each.is_dir())
    folder = RunFolder(path)
    folder.write_records([folder.records[epoch] for epoch in kept])
    with pytest.raises(InputError, match=r"records.jsonl is damaged .*--fresh"):
        run(spec, tmp_path)


@pytest.mark.slow
def test_a_run_killed_by_force_goes_on_to_the_same_bits(spec, tmp_path):
    whole = run(spec, tmp_path / "whole")
    spec_file = tmp_path / "spec.toml"
    spec_file.write_text(spec.write())
    script = (
        # what torch chooses by itself is not always what OMP_NUM_THREADS says
        "import sys, torch; torch.set_num_threads(int(sys.argv[3]))\n"
        "from pathlib import Path; from ulc.config import RunSpec;"
        "from ulc.training.run import run; from ulc.training.loop import TrainingProgress\n"
        "class Slow(TrainingProgress):\n"
        "    def on_epoch(self, record):\n"
        "        import time; print(record['epoch'], flush=True)\n"
        "        time.sleep(60 if record['epoch'] == 3 else 0)\n"
        "run(RunSpec.read(Path(sys.argv[1])), Path(sys.argv[2]), progress=Slow(), save_every=0)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, spec_file, tmp_path / "parts", str(torch.get_num_threads())],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == b"3":
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    parts = run(spec, tmp_path / "parts")
    assert_same_run(whole, parts)


def assert_same_run(one: RunFolder, other: RunFolder):
    def without_time(folder):
        return [{k: v for k, v in record.items() if k != "seconds"} for record in folder.records]

    assert without_time(one) == without_time(other)
    assert one.read_json("summary.json") == other.read_json("summary.json")
    assert one.read("model.safetensors") == other.read("model.safetensors")
    for name, values in one.judgement.arrays().items():
        assert np.array_equal(values, other.judgement.arrays()[name], equal_nan=True), name


def test_a_finished_run_is_not_repeated(spec, tmp_path):
    first = run(spec, tmp_path)
    before = (first.path / "records.jsonl").stat().st_mtime_ns
    time.sleep(0.01)
    second = run(spec, tmp_path)
    assert second.path == first.path
    assert (second.path / "records.jsonl").stat().st_mtime_ns == before


def test_a_second_process_is_kept_out(spec, tmp_path):
    folder = run(spec, tmp_path)
    (folder.path / "done").unlink()
    with folder.locked(), pytest.raises(InputError, match="another process"):
        run(spec, tmp_path)


def test_true_labels_known_or_not_the_training_is_the_same(spec, tmp_path):
    """Truth never reaches an algorithm: hide it, and the weights are the same bits."""
    known = run(spec, tmp_path / "known")
    with np.load(spec.data.path) as content:
        arrays = {name: content[name] for name in content.files}
    labels = known.judgement.given
    inputs = label(spec).source.inputs
    hidden_path = tmp_path / "hidden.npz"
    np.savez(hidden_path, X=inputs, y=labels, X_test=arrays["X_test"], y_test=arrays["y_test"])
    hidden_spec = spec.model_copy(
        update={
            "data": DataSpec(source="npz", path=str(hidden_path)),
            "noise": NoiseSpec(),
            "imbalance": ImbalanceSpec(),
        }
    )
    hidden = run(hidden_spec, tmp_path / "hidden")
    assert "labels" not in hidden.records[-1]
    assert known.read("model.safetensors") == hidden.read("model.safetensors")


def test_best_is_the_maximum_and_last_the_mean_of_the_window():
    """Ten epochs: the last 10 // 5 = 2 count; accuracies 0.1 … 0.8, 0.9, 0.5."""
    accuracies = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.5]
    records = [
        {
            "epoch": i,
            "test": {p: {"accuracy": a, "small_accuracy": None} for p in ("training", "balanced")},
        }
        for i, a in enumerate(accuracies)
    ]
    summary = summarise(records, 10)
    assert summary["training"]["best_on_test"] == 0.9
    assert summary["training"]["best_epoch_on_test"] == 8
    assert summary["training"]["last"] == {"accuracy": pytest.approx(0.7), "small_accuracy": None}
    assert summarise(records[:3], 3)["last_epochs"] == 1
    assert summarise(records, 300)["last_epochs"] == 10


def test_divergence_is_said_with_its_remedy(spec, tmp_path):
    wild = spec.model_copy(update={"algorithm": "ce", "options": {"sgd": {"lr": 1e30}}})
    with pytest.raises(InputError, match=r"diverged; lower the learning rate .*--set sgd\.lr"):
        run(wild, tmp_path)


@pytest.mark.slow
def test_a_run_of_prepared_data_is_the_same_run(spec, tmp_path):
    spec = spec.model_copy(update={"held_out": 0.2})
    prepared = prepare(spec, torch.device("cpu"))
    assert_same_run(run(spec, tmp_path / "read"), run(spec, tmp_path / "one", prepared=prepared))
    all_rows = spec.model_copy(update={"held_out": 0.0})
    handed = run(all_rows, tmp_path / "one", prepared=prepared.with_all_rows())
    assert_same_run(run(all_rows, tmp_path / "read"), handed)


def test_records_are_json_without_nan(spec, tmp_path):
    folder = run(spec, tmp_path)
    for line in (folder.path / "records.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(name))


def test_the_environment_is_recorded(spec, tmp_path):
    environment = run(spec, tmp_path).read_json("environment.json")
    recorded = environment["packages"]["torch"]
    assert torch.__version__.partition("+")[0] == recorded.partition("+")[0]
