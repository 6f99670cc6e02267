"""The files of a run folder, and all that commands read of them."""

import io
import json
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from ulc.applying.run_rows import RunRows
from ulc.cli import audit_command, tables
from ulc.cli.screen import console
from ulc.config import DataSpec, RunSpec
from ulc.report import training_record
from ulc.report.findings import Findings
from ulc.report.gain import judging_run
from ulc.storage.run_folder import RunFolder
from ulc.training import checkpoint
from ulc.training.environment import choose_threads
from ulc.training.model import Model
from ulc.training.own_code import check_own_code
from ulc.training.placing import inputs_changed
from ulc.training.run import run

RUN_FILES = (
    "data.json", "health.json", "summary.json", "environment.json", "model.json", "records.jsonl",
    "ids.json", "audit.json", "verified.json", "identity.json", "spec.toml", "judgement.npz",
    "model.safetensors", "checkpoint.pt",
)  # fmt: skip
Step = Callable[[RunFolder], object]


def make_run(folder: Path) -> Path:
    """Train a tiny run, and copy it to `folder`/run."""
    data = folder / "good.npz"
    vectors = np.random.default_rng(0).normal(size=(24, 3))
    ids = np.array([f"r{i}" for i in range(24)])
    labels, verified = np.arange(24) % 3, np.arange(24) < 2
    np.savez(data, X=vectors, y=labels, ids=ids, verified=verified, X_test=vectors, y_test=labels)
    spec = RunSpec(
        data=DataSpec(source="npz", path=str(data)),
        algorithm="ce",
        options={"batch_size": 8},
        epochs=2,
        held_out=0.2,
    )
    shutil.copytree(run(spec, folder / "runs").path, folder / "run")
    (folder / "run" / "checksums.json").unlink()  # it would hide what is behind it
    training = {"run": "gone", "held_out_agreement": 0.5, "kept_epoch": 1, "warnings": ["fell"]}
    audit = {
        "data": {"source": "npz", "path": str(data)},
        "noise_rate": 0.1,
        "noise_interval": [0.1, 0.3],
        "why": "the plain model",
        "plain": training,
        "ulc_plus": training,
    }
    (folder / "run" / "audit.json").write_text(json.dumps(audit))
    return folder / "run"


def show_result(folder: RunFolder) -> None:
    show(tables.result_table({"title": folder}))


def show_health(folder: RunFolder) -> None:
    show(*tables.health_tables(folder))


def show_suspects(folder: RunFolder) -> None:
    show(tables.suspects_table(folder, 5))


def show(*texts: Any) -> None:
    """Print as commands do, to nowhere."""
    with redirect_stdout(io.StringIO()):
        screen = console()
        for text in texts:
            screen.print(text)


def show_audit(folder: RunFolder) -> None:
    with redirect_stdout(io.StringIO()):
        audit_command.print_audit(folder, labels=5)


def report(folder: RunFolder) -> None:
    records = judging_run(folder).records
    training_record.learning_curves(records)
    training_record.warnings(folder, Findings.of(folder), records)


def resume(folder: RunFolder) -> None:
    choose_threads(folder)
    check_own_code(folder, folder.spec)


def compare_data(folder: RunFolder) -> None:
    inputs_changed(folder)


def predict(folder: RunFolder) -> None:
    Model.load(folder).predict_proba(np.zeros((2, 3)))


# Fast ones first: most changed files are refused by the first step that opens them.
STEPS: tuple[Step, ...] = (
    resume, checkpoint.read, RunRows.of, predict, compare_data, report, show_result, show_health,
    show_suspects, show_audit,
)  # fmt: skip


def run_reader(path: Path) -> Callable[[Path], None]:
    """A function that reads this file of a good run folder in all ways that commands do.

    A step that does not open the file is left out: what it reads stays as it is, so no change of
    this file can change what it does.
    """
    steps = [step for step in STEPS if opens(step, path)]

    def read(changed: Path) -> None:
        folder = RunFolder.open(changed.parent)
        for step in steps:
            step(folder)

    return read


def opens(step: Step, path: Path) -> bool:
    """Whether this step on the file's folder opens the file."""
    opened: list[str] = []
    listening = True

    def listen(event: str, arguments: tuple[Any, ...]) -> None:
        if listening and event == "open":
            opened.append(str(arguments[0]))

    sys.addaudithook(listen)  # it cannot be removed
    step(RunFolder.open(path.parent))
    listening = False
    return str(path) in opened
