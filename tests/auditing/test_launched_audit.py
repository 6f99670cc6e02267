"""Audits whose models are trained side by side: the files of an ordinary audit."""

import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from test_audit import QUICK, blobs

import ulc as package
from ulc.auditing import AuditProgress, audit_spec
from ulc.auditing.data import prepare_data, read_source
from ulc.auditing.workspace import Workspace
from ulc.errors import InputError
from ulc.experiments.slurm_launcher import SlurmLauncher
from ulc.storage.run_folder import create_folder
from ulc.training.loop import TrainingProgress

# Times and places; checksums.json has the checksums of these, too.
OF_THE_DAY = {"checksums.json", "environment.json", "identity.json", "records.jsonl"}


class Heard(AuditProgress):
    """Collects the epochs of each training; `on_epoch` may raise."""

    def __init__(self, on_epoch=None):
        self.epochs = {}
        self.raises = on_epoch

    def training(self, title, epochs):
        told, raises = self.epochs.setdefault(title, []), self.raises

        class Training(TrainingProgress):
            def on_epoch(self, record):
                told.append(record["epoch"])
                if raises is not None:
                    raise raises

        return nullcontext(Training())


@pytest.fixture
def data():
    """Data by a relative path: they must be found from a process that starts elsewhere."""
    vectors, given, true = blobs(rows=120)
    np.savez("data.npz", X=vectors, y=given, y_true=true, ids=np.arange(120))
    return "data.npz"


def audit(*arguments, **settings):
    return package.audit(*arguments, device="cpu", **QUICK, **settings).folder


def files_of(folder):
    """The content of all files of an audit and its trainings that do not tell of the day."""
    found = [each for each in folder.path.rglob("*") if each.is_file()]
    kept = [each for each in found if each.name not in OF_THE_DAY and "logs" not in each.parts]
    return {str(each.relative_to(folder.path)): each.read_bytes() for each in kept}


LAUNCHERS = ["local", SlurmLauncher(cluster="local")]


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS, ids=["local", "slurm"])
def test_an_audit_by_a_launcher_has_the_files_of_an_ordinary_one(data, launcher, monkeypatch):
    """To the last bit; this process trains nothing; a finished audit is not repeated."""
    if launcher != "local":
        pytest.importorskip("submitit")
        if sys.platform == "win32":
            pytest.skip("submitit is used on Linux")
    heard, again = Heard(), Heard()
    plain = audit(data, "plain")
    monkeypatch.setattr("ulc.training.run.train_at", None)
    launched = audit(data, "launched", launcher=launcher, progress=heard)
    assert files_of(launched) == files_of(plain)
    assert heard.epochs == {"plain training": [0, 1], "ULC+": [0, 1, 2]}
    audit(data, "launched", launcher=launcher, progress=again)
    assert again.epochs == {}


@pytest.mark.slow
def test_an_audit_that_was_stopped_while_both_models_were_trained_goes_on_anywhere(data):
    plain = audit(data, "plain")
    with pytest.raises(KeyboardInterrupt):
        audit(data, "stopped", launcher="local", progress=Heard(KeyboardInterrupt()))
    (folder,) = Path("stopped").iterdir()
    assert not (folder / "labels.csv").exists()
    assert files_of(audit(data, "stopped")) == files_of(plain)


def prepared_twice(root, **settings):
    """The data of an audit as it prepares them itself, and again as another process does."""
    spec = audit_spec(root, **settings)
    cpu, progress = torch.device("cpu"), AuditProgress()
    source = read_source(spec, Path("audits"), cpu, progress)
    workspace = Workspace(create_folder(Path("audits/one")), cpu, progress)
    data = prepare_data(spec, source, workspace)
    return data.prepared, lambda: data.again(data.robust_spec, cpu)


def test_another_process_prepares_the_same_data(data):
    ours, prepare_again = prepared_twice(data, **QUICK)
    theirs = prepare_again()
    assert torch.equal(theirs.training.stored, ours.training.stored)
    assert torch.equal(theirs.held_out.stored, ours.held_out.stored)
    assert theirs.facts == ours.facts
    assert (theirs.ids, theirs.notes, theirs.warnings) == (ours.ids, ours.notes, ours.warnings)


def test_data_that_change_while_an_audit_goes_on_are_refused(data):
    _, prepare_again = prepared_twice(data, **QUICK)
    vectors, given, _ = blobs(rows=120, seed=1)
    np.savez(data, X=vectors, y=given)
    with pytest.raises(InputError, match="has changed since the audit began"):
        prepare_again()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--launcher", "nowhere"), "--launcher nowhere: unknown; choose local, ray, slurm"),
        (("--address", "host:1"), "--address: only with --launcher ray; leave it out"),
        (("--slurm", "time=9"), "--slurm: only with --launcher slurm; leave it out"),
    ],
)
def test_a_wrong_launcher_is_refused_before_anything_is_read(ulc, options, message):
    code, printed = ulc("audit", "data.npz", *options)
    assert (code, printed.err.strip()) == (2, f"ulc: {message}")


@pytest.mark.slow
def test_the_command_trains_both_models_side_by_side(ulc, data):
    settings = ("--epochs", "2", "--set", "passes=2", "--set", "warmup_epochs=1")
    code, printed = ulc("audit", data, "--launcher", "local", "--device", "cpu", *settings)
    assert code == 0
    assert "Handed over:" in printed.out
