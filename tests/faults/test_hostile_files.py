"""Files that hang a reader or take more memory than they look: refused before they are read."""

import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from recorded_runs import recorded_run
from ulc.config import RunSpec, StoredSpec, read_toml
from ulc.data.label_files import read_label_file, write_label_file
from ulc.errors import InputError
from ulc.experiments.figure_data import find_after_warm_up
from ulc.experiments.finished_runs import find_runs
from ulc.networks.weights import read_weights
from ulc.storage.files import check_output_file
from ulc.storage.run_folder import RunFolder
from ulc.training import checkpoint

BOUND = r"would take .* of memory, more than the .* that one file may take; .*ULC_MEMORY_LIMIT"
pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes")


@pytest.fixture
def bounded(monkeypatch):
    monkeypatch.setenv("ULC_MEMORY_LIMIT", "1MB")


@pytest.fixture
def folder():
    return recorded_run(RunSpec()).path


def put_pipe(path):
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def put_device(path):
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/urandom")


def deflate(content):
    """The zip of `torch.save`, compressed."""
    buffer, small = io.BytesIO(), io.BytesIO()
    torch.save(content, buffer)
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(small, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            new.writestr(member.filename, old.read(member))
    return small.getvalue()


@pipes
@pytest.mark.parametrize("put", [put_pipe, put_device])
@pytest.mark.parametrize("name", ["checksums.json", "data.json", "judgement.npz", "model.json"])
def test_a_pipe_or_a_device_in_a_run_folder_is_refused_at_once(folder, put, name):
    put(folder / name)
    with pytest.raises(InputError, match=rf"{name} is damaged \(.*no regular file\)"):
        RunFolder(folder).read(name if name != "checksums.json" else "summary.json")


@pipes
@pytest.mark.parametrize("put", [put_pipe, put_device])
def test_a_pipe_or_a_device_as_the_settings_of_an_audit_is_refused_at_once(folder, put):
    put(folder / "audit.toml")
    with pytest.raises(InputError, match=r"audit.toml was changed .*no regular file"):
        RunFolder(folder).check_spec_file("audit.toml")


@pipes
def test_the_command_refuses_a_pipe_in_place_of_the_checksums(ulc, folder):
    put_pipe(folder / "checksums.json")
    code, printed = ulc("show", folder)
    assert code == 2
    assert printed.err.count("\n") == 1
    assert "no regular file" in printed.err


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize(
    "name", ["health.json", "model.safetensors", "spec.toml", "checksums.json"]
)
def test_a_sparse_file_in_a_run_folder_is_refused_by_the_bound_of_memory(folder, name):
    with (folder / name).open("ab") as stream:
        stream.truncate(3 * 2**30)
    with pytest.raises(InputError, match=f"{name} {BOUND}"):
        RunFolder(folder).check_spec_file(name)
    with pytest.raises(InputError, match=f"{name} {BOUND}"):
        RunFolder(folder).read(name)


@pytest.mark.usefixtures("bounded")
def test_label_files_that_are_small_only_on_the_disk_are_refused():
    Path("l.pt").write_bytes(deflate({"noisy": torch.zeros(2**19)}))
    assert Path("l.pt").stat().st_size < 100_000
    with pytest.raises(InputError, match=f"l.pt: its content {BOUND}"):
        read_label_file(Path("l.pt"))


@pytest.mark.usefixtures("bounded")
def test_labels_of_a_pt_file_within_the_bound_are_read():
    labels = np.arange(1000)
    write_label_file(Path("l.pt"), labels, labels)
    assert (read_label_file(Path("l.pt"), "noisy_label") == labels).all()


@pytest.mark.usefixtures("bounded")
def test_json_labels_count_with_the_memory_of_their_objects():
    Path("l.json").write_text("[" + "{}," * 20_000 + "{}]")
    with pytest.raises(InputError, match=f"l.json {BOUND}"):
        read_label_file(Path("l.json"))
    Path("l.json").write_text(json.dumps([7] * 10_000))
    assert len(read_label_file(Path("l.json"))) == 10_000


@pytest.mark.usefixtures("bounded")
def test_weights_that_are_small_only_on_the_disk_are_refused():
    Path("w.pth").write_bytes(deflate({"a": torch.zeros(2**19)}))
    with pytest.raises(InputError, match=f"w.pth: its content {BOUND}"):
        read_weights(Path("w.pth"))


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("name", ["w.pth", "w.safetensors"])
def test_weights_that_are_not_a_zip_count_with_their_size(name):
    Path(name).write_bytes(bytes(2**20 + 1))
    with pytest.raises(InputError, match=f"{name} {BOUND}"):
        read_weights(Path(name))


def test_weights_of_the_older_format_are_read():
    torch.save({"a": torch.ones(3)}, "w.pth", _use_new_zipfile_serialization=False)
    assert read_weights(Path("w.pth"))["a"].tolist() == [1, 1, 1]


@pytest.mark.usefixtures("bounded")
def test_a_checkpoint_that_is_small_only_on_the_disk_is_refused(folder):
    run = RunFolder(folder)
    run.write("checkpoint.pt", deflate({"epoch": 0, "state": torch.zeros(2**17)}))
    assert checkpoint.read(run)["epoch"] == 0
    run.write("checkpoint.pt", deflate({"epoch": 0, "state": torch.zeros(2**19)}))
    with pytest.raises(InputError, match=f"checkpoint.pt: its content {BOUND}"):
        checkpoint.read(run)


DOTTED = "a" + ".a" * 101
LONG_KEYS = {
    "a key": f"{DOTTED} = 1",
    "a key of quoted parts": '"=".' * 101 + "a = 1",
    "blanks": "a" + " .\ta" * 101 + " = 1",
    "a section": f"[{DOTTED}]",
    "a list of sections": f"[[{DOTTED}]]",
    "a table in a line": f"x = {{{DOTTED} = 1}}",
    "after a text of several lines": f'x = [""" \'\n """"", {{{DOTTED} = 1}}] #\'',
    "after a comment with a quote": f"# don't\n{DOTTED} = 1",
}


@pytest.mark.parametrize("text", LONG_KEYS.values(), ids=LONG_KEYS)
def test_a_key_of_many_dots_is_refused(text):
    Path("s.toml").write_text(text)
    with pytest.raises(InputError, match=r"s.toml: .*\(a key of more than 100 dots\)"):
        read_toml(Path("s.toml"))


def test_other_dots_are_not_those_of_a_key():
    dots, row = "." * 200, [0.5] * 200
    Path("s.toml").write_text(
        f"# {dots}\nx = '{dots}'\ny = \"{dots}\\\"{dots}\"\nz = '''\n{dots}'''\n"
        f"rows = [\n{row},\n{row}]\n" + "a." * 100 + "a = 1\n"
    )
    content = read_toml(Path("s.toml"))
    assert content["rows"] == [row, row]
    assert content["x"] == content["z"] == dots
    assert content["y"] == f'{dots}"{dots}'


def test_a_spec_of_more_than_a_megabyte_is_refused_when_read_and_when_written():
    Path("s.toml").write_text("#" * 2**20)
    assert read_toml(Path("s.toml")) == {}
    Path("s.toml").write_text("#" * (2**20 + 1))
    with pytest.raises(InputError, match=r"s.toml: .*\(more than 1,048,576 bytes\)"):
        read_toml(Path("s.toml"))

    class Wordy(StoredSpec):
        text: str

    Path("t.toml").write_text(Wordy(text="a" * 1000).write())
    assert Wordy.read(Path("t.toml")).text == "a" * 1000
    with pytest.raises(InputError, match="the spec takes more than 1,048,576 bytes"):
        Wordy(text="a" * 2**20).write()


LOSSES = {
    "given has shape ()": {"given": np.array(3)},
    "given has shape (2, 2)": {"given": np.zeros((2, 2), int)},
    "true has shape ()": {"true": np.array(3)},
    "loss holds NaN or infinite values": {"loss": np.array([0.5, np.nan, 1, 2])},
    "clean_probability holds NaN": {"clean_probability": np.full(4, np.nan)},
    "epistemic holds NaN or infinite": {"epistemic": np.array([0, 1, np.inf, 0])},
}


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("reason", LOSSES)
def test_figures_refuse_damaged_losses_in_one_sentence(ulc, folder, number, reason):
    pytest.importorskip("matplotlib")
    arrays = {"given": np.arange(4), "true": np.arange(4)}
    arrays |= {name: np.full(4, 0.5) for name in ("loss", "epistemic", "clean_probability")}
    RunFolder(folder).write_arrays("after_warmup.npz", arrays | LOSSES[reason])
    code, printed = ulc("figure", number, folder)
    assert code == 2
    assert printed.err.count("\n") == 1
    assert f"after_warmup.npz is damaged ({reason}" in printed.err


def test_uncertainty_that_is_not_estimated_is_no_damage(folder):
    arrays = {"given": np.arange(4), "true": np.arange(4), "epistemic": np.full(4, np.nan)}
    arrays |= {name: np.full(4, 0.5) for name in ("loss", "clean_probability")}
    RunFolder(folder).write_arrays("after_warmup.npz", arrays)
    (run,) = find_runs([folder])[0]
    assert np.isnan(find_after_warm_up([run], "figure2").epistemic).all()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_or_device_is_never_replaced_by_a_file(ulc, tmp_path):
    os.mkfifo(tmp_path / "labels.json")
    code, printed = ulc("noise", tmp_path / "labels.json")
    assert code == 2
    assert "a pipe or device" in printed.err
    assert (tmp_path / "labels.json").is_fifo()
    with pytest.raises(InputError, match="a pipe or device; give the name of a file"):
        check_output_file("--out", tmp_path / "labels.json")
