"""What `python -m benchmarks faults` kills: trainings of every algorithm, and commands."""

import io
import os
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
from PIL import Image
from torch import Tensor, nn

from ulc.algorithms import ALGORITHMS
from ulc.auditing import audit_spec, run_audit, workspace
from ulc.cli import app
from ulc.config import DataSpec, RunSpec
from ulc.data.lazy.cache import FOLDER
from ulc.data.lazy.pool import VARIABLE
from ulc.training.run import run

EPOCHS = 4
COMMANDS = (
    "audit",
    "sweep",
    "tune",
    "embed",
    "apply",
    "report",
    "export",
    "predict",
    "noise",
    "table",
)
NAMES = (*ALGORITHMS, "lazy images", *COMMANDS)
Job = Callable[[Path], object]  # writes all its files below the folder that it is given


class Colours(nn.Module):
    """A backbone for `ulc embed`: the mean of each colour."""

    size, mean, std = 8, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)

    def forward(self, images: Tensor) -> Tensor:
        return images.mean(dim=(2, 3))


def write_data(root: Path) -> Path:
    """Write a tiny data set with wrong labels and a test set; return its path."""
    rng = np.random.default_rng(0)
    true = np.arange(60) % 3
    inputs = (rng.normal(size=(60, 4)) + 3 * np.eye(3, 4)[true]).astype(np.float32)
    given = np.where(rng.random(60) < 0.2, (true + 1) % 3, true)
    path = root / "data.npz"
    ids = [f"row {place}" for place in range(60)]
    np.savez(path, X=inputs, y=given, ids=ids, X_test=inputs[:12], y_test=true[:12])
    return path


def write_images(root: Path) -> Path:
    """Write random images, enough for three files in the cache; return their path."""
    pixels = np.random.default_rng(0).integers(0, 256, (600, 8, 8, 3), np.uint8)
    path = root / "images.npz"
    np.savez(path, X=pixels, y=np.arange(600) % 3)
    return path


def write_photos(root: Path) -> Path:
    """Write a folder of small image files; return its path."""
    pixels = np.random.default_rng(0).integers(0, 256, (24, 8, 8, 3), np.uint8)
    for number, each in enumerate(pixels):
        path = root / "photos" / "abc"[number % 3] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(each).save(path)
    return root / "photos"


def new_spec(data: Path, algorithm: str) -> RunSpec:
    source = DataSpec(source="npz", path=str(data))
    return RunSpec(data=source, algorithm=algorithm, epochs=EPOCHS)


def new_jobs(data: Path, root: Path) -> dict[str, Job]:
    """Return all jobs by name; what they read is written to `root`."""
    jobs: dict[str, Job] = {
        name: partial(run, new_spec(data, name), device="cpu", save_every=0) for name in ALGORITHMS
    }
    jobs["lazy images"] = partial(train_lazily, write_photos(root))
    jobs["audit"] = partial(audit_often_saved, audit_spec(data, epochs=2))
    jobs["sweep"] = ulc(
        "sweep", data, "--algorithms=ce", "--seeds=0,1", "--epochs=2", "--jobs=2", out="."
    )
    jobs["tune"] = ulc(
        "tune", data, "--algorithms=dividemix", "--values=0,25", "--epochs=2", "--quiet", out="."
    )
    backbone = f"--backbone={__name__}:Colours"
    jobs["embed"] = ulc("embed", write_images(root), backbone, "--quiet", out="features.npz")
    finished = run(new_spec(data, "ulc"), root / "read", device="cpu").path
    jobs["apply"] = ulc("apply", finished, "--accept-all", out="corrected.npz")
    jobs["report"] = ulc("report", finished, out="page.html")
    jobs["export"] = ulc("export", finished, option="--safetensors", out="model.safetensors")
    jobs["predict"] = ulc("predict", finished, data, "--quiet", out="predicted.csv")
    jobs["noise"] = ulc("noise", option="--seed=1", out="labels.pt")
    jobs["table"] = ulc("table", finished, out="table.md")
    return jobs


def train_lazily(photos: Path, out: Path) -> object:
    """Train on images that are read when needed; their cache lies in the job's folder."""
    data = DataSpec(source="folder", path=str(photos), size=8, lazy=True)
    spec = RunSpec(data=data, algorithm="ce", epochs=EPOCHS, options={"batch_size": 8})
    with patch.dict(os.environ, {FOLDER: str(out / "cache"), VARIABLE: "0"}):
        return run(spec, out / "runs", device="cpu", save_every=0)


def audit_often_saved(spec: RunSpec, out: Path) -> object:
    """Audit with a checkpoint after each epoch of each training."""
    workspace.run = partial(run, save_every=0)
    try:
        return run_audit(spec, out, device="cpu")
    finally:
        workspace.run = run


def ulc(*arguments: object, out: str, option: str = "--out") -> Job:
    """Return a job that calls the command in this process.

    out: what it writes, below the job's folder; option: the last word before it
    """

    def call(folder: Path) -> None:
        words = [*map(str, arguments), option, str(folder / out)]
        with redirect_stdout(io.StringIO()):
            app(words, standalone_mode=False)

    return call
