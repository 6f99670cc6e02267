"""The data belong to a run: changed data never show, resume or remove a run of the data before."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import ulc
from ulc.auditing import AuditProgress
from ulc.config import DataSpec, NoiseSpec, RunSpec
from ulc.data import identity
from ulc.errors import InputError
from ulc.report.gain import plain_run
from ulc.training.loop import TrainingProgress
from ulc.training.placing import first_folder
from ulc.training.run import finished_run, resume, run, start_fresh

COUNT = 24


def arrays():
    rng = np.random.default_rng(0)
    labels = np.arange(COUNT) % 2
    return {
        "X": (rng.normal(size=(COUNT, 3)) + 3 * labels[:, None]).astype(np.float32),
        "y": labels,
        "y_true": labels,
        "class_names": np.array(["cat", "dog"]),
        "ids": np.array([f"row {place}" for place in range(COUNT)]),
        "verified": np.zeros(COUNT, bool),
        "X_test": rng.normal(size=(4, 3)).astype(np.float32),
        "y_test": np.array([0, 1, 0, 1]),
    }


def with_cell(values, place, value):
    changed = values.copy()
    changed[place] = value
    return changed


CHANGES = {
    "a label": lambda data: {"y": with_cell(data["y"], 5, 0)},
    "a feature": lambda data: {"X": with_cell(data["X"], (3, 1), 0.5)},
    "a true label": lambda data: {"y_true": with_cell(data["y_true"], 5, 0)},
    "a class name": lambda data: {"class_names": np.array(["cat", "fox"])},
    "an id": lambda data: {"ids": with_cell(data["ids"], 2, "row x")},
    "a verified mark": lambda data: {"verified": with_cell(data["verified"], 2, True)},
    "a test label": lambda data: {"y_test": np.array([0, 1, 0, 0])},
    "a test input": lambda data: {"X_test": data["X_test"] + 1},
    "a row": lambda data: {
        name: values[1:] if len(values) == COUNT else values for name, values in data.items()
    },
}


@pytest.fixture
def spec():
    np.savez("data.npz", **arrays())
    source = DataSpec(source="npz", path=str(Path("data.npz").absolute()))
    return RunSpec(data=source, algorithm="ce", epochs=3)


def change_data(what):
    content = arrays()
    np.savez("data.npz", **(content | CHANGES[what](content)))


class StopAfter(TrainingProgress):
    def on_epoch(self, record):
        if record["epoch"] == 1:
            raise KeyboardInterrupt


def on_the_disk(root):
    return {path: path.read_bytes() for path in Path(root).rglob("*") if path.is_file()}


@pytest.mark.parametrize("what", CHANGES)
def test_beside_a_finished_run_of_other_data_a_new_one_is_trained(spec, what):
    old = run(spec, Path("runs"))
    before = on_the_disk("runs")
    change_data(what)
    new = run(spec, Path("runs"))
    assert new.path.parent == old.path.parent
    assert first_folder(new.path) == old.path.absolute()
    assert new.path != old.path
    assert new.done
    now = on_the_disk("runs")
    assert {path: now[path] for path in before} == before
    np.savez("data.npz", **arrays())
    assert run(spec, Path("runs")).path == old.path
    change_data(what)
    assert run(spec, Path("runs")).path == new.path
    assert len(list(Path("runs").iterdir())) == 2


@pytest.mark.parametrize("what", CHANGES)
def test_a_stopped_run_of_other_data_is_neither_resumed_nor_touched(spec, what):
    with pytest.raises(KeyboardInterrupt):
        run(spec, Path("runs"), progress=StopAfter(), save_every=0)
    (folder,) = Path("runs").iterdir()
    before = on_the_disk("runs")
    change_data(what)
    message = r"a stopped run whose data have changed since it began; undo the change"
    with pytest.raises(InputError, match=message):
        run(spec, Path("runs"))
    with pytest.raises(InputError, match=message):
        resume(folder)
    assert on_the_disk("runs") == before
    np.savez("data.npz", **arrays())
    resumed = resume(folder)
    whole = run(spec, Path("whole"))
    for name in ("model.safetensors", "labels.csv", "judgement.npz"):
        assert resumed.read(name) == whole.read(name)


def test_a_stopped_run_beside_another_is_resumed_only_with_its_own_data(spec):
    run(spec, Path("runs"))
    change_data("a label")
    with pytest.raises(KeyboardInterrupt):
        run(spec, Path("runs"), progress=StopAfter(), save_every=0)
    (beside,) = Path("runs").glob("*-data-*")
    change_data("a feature")
    with pytest.raises(InputError, match="data have changed"):
        resume(beside)
    change_data("a label")
    assert resume(beside).path == beside


def test_a_label_file_belongs_to_the_data(spec):
    noisy = arrays()["y"]
    np.savez("noise.npz", noisy_label=noisy)
    noise = NoiseSpec(kind="file", file=str(Path("noise.npz").absolute()))
    spec = spec.model_copy(update={"noise": noise})
    old = run(spec, Path("runs"))
    np.savez("noise.npz", noisy_label=with_cell(noisy, 3, 0))
    assert run(spec, Path("runs")).path != old.path


def test_a_finished_run_is_found_without_reading_the_data(spec, monkeypatch):
    monkeypatch.setattr(identity, "SETTLED", -60.0)  # else files of this second are read again
    done = run(spec, Path("runs"))

    def forbidden(*_):
        raise AssertionError("read")

    with monkeypatch.context() as patched:
        patched.setattr("ulc.training.run.prepare", forbidden)
        assert run(spec, Path("runs")).path == done.path
        os.utime("data.npz", ns=(0, 0))
        with pytest.raises(AssertionError, match="read"):
            run(spec, Path("runs"))
    assert run(spec, Path("runs")).path == done.path  # the content is the same
    found = finished_run(spec, Path("runs"))  # and its new time is remembered
    assert found is not None
    assert found.path == done.path


def test_a_file_that_was_just_written_is_read_again(spec):
    run(spec, Path("runs"))
    assert finished_run(spec, Path("runs")) is None


def test_fresh_removes_the_run_of_these_data_alone(spec):
    old = run(spec, Path("runs"))
    change_data("a label")
    new = run(spec, Path("runs"))
    start_fresh(spec, Path("runs"))
    assert [path for path in (old.path, new.path) if path.exists()] == [old.path]


def test_fresh_removes_a_stopped_run_of_other_data(spec):
    with pytest.raises(KeyboardInterrupt):
        run(spec, Path("runs"), progress=StopAfter(), save_every=0)
    change_data("a label")
    start_fresh(spec, Path("runs"))
    assert run(spec, Path("runs")).done
    assert len(list(Path("runs").iterdir())) == 1


@pytest.mark.parametrize("name", ["identity.json", "checksums.json"])
def test_a_damaged_identity_is_told_and_fresh_helps(spec, name):
    (run(spec, Path("runs")).path / name).write_bytes(b"{")
    with pytest.raises(InputError, match=r"is damaged .*--fresh"):
        run(spec, Path("runs"))
    start_fresh(spec, Path("runs"))
    assert run(spec, Path("runs")).done


def test_a_run_whose_data_are_unknown_counts_as_one_of_other_data(spec):
    old = run(spec, Path("runs"))
    (old.path / "identity.json").unlink()
    assert run(spec, Path("runs")).path != old.path


def test_a_report_compares_only_runs_of_the_same_data(spec):
    plain = run(spec, Path("runs"))
    method = run(spec.model_copy(update={"algorithm": "pencil"}), Path("runs"))
    assert plain_run(method).path == plain.path.absolute()
    change_data("a label")
    changed = run(method.spec, Path("runs"))
    assert plain_run(changed) is None
    newer = run(spec, Path("runs"))
    assert plain_run(changed).path == newer.path.absolute()
    assert plain_run(method).path == plain.path.absolute()


def draw_images():
    """Noise of one size in two class folders, and a table that lists the same files."""
    rng = np.random.default_rng(0)
    rows = []
    for place in range(8):
        path = Path("images", "cat" if place % 2 else "dog", f"{place}.bmp")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8)).save(path)
        rows.append({"path": str(path), "label": path.parent.name})
    pd.DataFrame(rows).to_csv("table.csv", index=False)


@pytest.mark.parametrize(("source", "path"), [("folder", "images"), ("table", "table.csv")])
def test_a_changed_image_of_the_same_size_is_noticed(monkeypatch, source, path):
    monkeypatch.setattr(identity, "SETTLED", -60.0)
    draw_images()
    data = DataSpec(source=source, path=str(Path(path).absolute()))
    spec = RunSpec(data=data, algorithm="ce", epochs=1)
    old = run(spec, Path("runs"))
    found = finished_run(spec, Path("runs"))
    assert found is not None
    assert found.path == old.path
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save("images/dog/2.bmp")
    assert finished_run(spec, Path("runs")) is None
    assert run(spec, Path("runs")).path != old.path


QUICK = {"epochs": 2, "options": {"passes": 2, "warmup_epochs": 1}}


@pytest.mark.slow
def test_the_audit_after_an_apply_is_a_new_one(ulc, spec):
    """`ulc apply` writes over the file, and recommends to audit it again."""
    options = ("--epochs", "2", "--set", "warmup_epochs=1", "--set", "passes=2", "--quiet")
    code, printed = ulc("audit", "data.npz", *options)
    assert code == 0, printed.err
    old = Path(printed.out.strip())
    Path("decisions.csv").write_text("id,decision,label\nrow 3,relabel,cat\n")
    code, printed = ulc("apply", old, "decisions.csv", "--out", "data.npz", "--force")
    assert code == 0, printed.err
    code, printed = ulc("audit", "data.npz", *options)
    new = Path(printed.out.strip())
    assert (code, new.parent) == (0, old.parent)
    assert new != old
    assert ulc("audit", "data.npz", *options)[1].out.strip() == str(new)
    assert f"The data have changed: {old} is of other data" in ulc("show", new)[1].out


def test_a_stopped_audit_of_other_data_is_neither_resumed_nor_touched(spec):
    class Stop(AuditProgress):
        def training(self, title, epochs):
            if title == "ULC+":
                raise KeyboardInterrupt
            return super().training(title, epochs)

    with pytest.raises(KeyboardInterrupt):
        ulc.audit("data.npz", "audits", progress=Stop(), **QUICK)
    (folder,) = Path("audits").iterdir()
    assert len(list((folder / "runs").glob("*/done"))) == 1
    before = on_the_disk("audits")
    change_data("a label")
    with pytest.raises(InputError, match="data have changed"):
        ulc.audit("data.npz", "audits", **QUICK)
    assert on_the_disk("audits") == before
    assert ulc.audit("data.npz", "audits", fresh=True, **QUICK).path == folder


def test_sentences_about_the_data_do_not_make_other_data():
    """A file that is not read changes only a warning."""
    draw_images()
    data = DataSpec(source="folder", path=str(Path("images").absolute()))
    spec = RunSpec(data=data, algorithm="ce", epochs=1)
    old = run(spec, Path("runs"))
    Path("images", "cat", "notes.txt").write_text("to do")
    assert run(spec, Path("runs")).path == old.path
