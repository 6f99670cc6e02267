"""Files of run folders that few commands read: for new rows, checksums, the spec of an audit."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from ulc.auditing.spec import AuditSpec
from ulc.config import DataSpec, RunSpec
from ulc.embedding.projection import Projection
from ulc.embedding.stored import StoredEmbedding
from ulc.labels.confusion import ConfusionModel
from ulc.prediction.predictor import Predictor, read_stored_embedding
from ulc.storage.run_folder import RunFolder
from ulc.training.run import run

# of a run on a table (two), on sentences, on features of photographs, and of an audit (two)
OTHER_FILES = (
    "encoding.json", "noise.json", "text.npz", "embedding.npz", "checksums.json", "audit.toml",
)  # fmt: skip
COLUMNS = {"table": "a,kind,label", "text": "text,label"}


def make_other_runs(folder: Path) -> dict[str, Path]:
    """Train tiny runs on a table and on sentences below `folder`; return each file by its name."""
    table, text = (make_run(folder, kind) for kind in COLUMNS)
    rng = np.random.default_rng(0)
    probability = rng.dirichlet(np.ones(2), 24).astype(np.float32)
    noise = ConfusionModel.fit(probability, np.arange(24) % 2)
    RunFolder(table).write_json("noise.json", noise.model_dump(mode="json"))
    photos = shutil.copytree(table, folder / "photos-run")
    projection = Projection(np.zeros(4), 1.0, np.eye(4)[:, :3], 0.9)
    embedding = StoredEmbedding("efficientnet-lite0", 224, 8, 8, "0123", projection)
    RunFolder(photos).write_arrays("embedding.npz", embedding.arrays())
    audit = shutil.copytree(table, folder / "audit-run")
    spec = AuditSpec(data=DataSpec(source="table", path=str(folder / "table.csv")))
    RunFolder(audit).write("audit.toml", spec.write().encode())
    for each in (table, text, photos):
        (each / "checksums.json").unlink()  # it would hide what is behind it
    places = (table, table, text, photos, audit, audit)
    return {name: place / name for name, place in zip(OTHER_FILES, places, strict=True)}


def make_run(folder: Path, kind: str) -> Path:
    """Train a run on 24 rows of a table or of sentences."""
    rows = [
        f"{row},{'xy'[row % 2]},{'pq'[row % 2]}" if kind == "table" else
        f"the {['red', 'green'][row % 2]} thing number {row} is here,{'pq'[row % 2]}"
        for row in range(24)
    ]  # fmt: skip
    data = folder / f"{kind}.csv"
    data.write_text("\n".join([COLUMNS[kind], *rows]) + "\n")
    spec = RunSpec(
        data=DataSpec(source="table", path=str(data), text="text" if kind == "text" else None),
        algorithm="ce",
        options={"batch_size": 8},
        epochs=1,
    )
    shutil.copytree(run(spec, folder / "runs").path, folder / f"{kind}-run")
    return folder / f"{kind}-run"


def other_reader(name: str) -> Callable[[Path], None]:
    """A function that reads this file of a run folder as commands do."""

    def read(changed: Path) -> None:
        if name == "audit.toml":
            AuditSpec.read(changed)
            return
        folder = RunFolder.open(changed.parent)
        if name == "checksums.json":
            folder.read("model.json")
            return
        if name == "embedding.npz":
            read_stored_embedding(folder)
            return
        predictor = Predictor.open(folder, torch.device("cpu"))
        kind = changed.parent.name.removesuffix("-run")
        rows = predictor.read(
            DataSpec(source="table", path=str(changed.parents[1] / f"{kind}.csv"))
        )
        predictor.predict(rows)

    return read
