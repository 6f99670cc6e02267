"""Time, memory and size of `ulc report` on a run of a million rows.

python benchmarks/report_million.py WHERE [--rows 1000000] [--classes 10] [--kind table|images]

Writes synthetic data and a run folder below WHERE, makes the report in a subprocess, and prints
seconds, memory and size.
"""

import argparse
import io
import resource
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

from ulc.config import DataSpec, RunSpec
from ulc.data.table_encoding import TableEncoding
from ulc.labels.judgement import Judgement
from ulc.storage.run_folder import RunFolder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("where", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--kind", choices=("table", "images"), default="table")
    chosen = parser.parse_args()
    chosen.where.mkdir(parents=True, exist_ok=True)
    judgement = make_judgement(chosen.rows, chosen.classes)
    names = [f"class {number}" for number in range(chosen.classes)]
    source = write_table if chosen.kind == "table" else write_images
    data = source(chosen.where, judgement, names)
    run = write_run(chosen.where / f"run-{chosen.kind}", judgement, names, data)
    del judgement
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "ulc", "report", str(run)], check=True)
    seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    memory = used.ru_maxrss / 2**20
    size = (run / "report.html").stat().st_size / 1e6
    print(
        f"{chosen.kind}, {chosen.rows:,} rows, {chosen.classes} classes: "
        f"{seconds:.1f} s ({used.ru_utime + used.ru_stime:.1f} s of processor), "
        f"{memory:.2f} GiB at most, {size:.2f} MB"
    )


def make_judgement(rows: int, classes: int) -> Judgement:
    """Make a judgement that contradicts a tenth of the labels."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, classes, rows)
    moved = (true + rng.integers(1, classes, rows)) % classes
    given = np.where(rng.random(rows) < 0.1, moved, true)
    prediction = rng.random((rows, classes), np.float32) + 0.05
    prediction[np.arange(rows), true] += rng.gamma(2, classes, rows).astype(np.float32)
    prediction /= prediction.sum(1, keepdims=True)
    clean = np.where(given == true, rng.beta(8, 1, rows), rng.beta(1, 8, rows))
    return Judgement(
        given=given,
        clean_probability=clean.astype(np.float32),
        prediction=prediction,
        epistemic=rng.random(rows, np.float32),
        aleatoric=rng.random(rows, np.float32),
    )


def write_table(where: Path, judgement: Judgement, names: list[str]) -> DataSpec:
    """Write a table with eight columns of numbers and one of text."""
    rng = np.random.default_rng(1)
    rows = len(judgement.given)
    table = pd.DataFrame(rng.normal(size=(rows, 8)).round(3), columns=[f"x{i}" for i in range(8)])
    table["town"] = np.array(["Athens", "Bern", "Cairo"])[rng.integers(0, 3, rows)]
    table["label"] = np.array(names)[judgement.given]
    table.to_csv(where / "table.csv", index=False)
    return DataSpec(source="table", path=str(where / "table.csv"))


def write_images(where: Path, judgement: Judgement, names: list[str]) -> DataSpec:
    """Write grey images of 28 pixels."""
    rows = len(judgement.given)
    images = np.random.default_rng(1).integers(0, 256, (rows, 28, 28), np.uint8)
    np.savez(where / "images.npz", X=images, y=judgement.given, class_names=np.array(names))
    return DataSpec(source="npz", path=str(where / "images.npz"))


def write_run(path: Path, judgement: Judgement, names: list[str], data: DataSpec) -> Path:
    """Write the files that a report reads."""
    folder = RunFolder.create(path, RunSpec(data=data, epochs=1))
    sizes = np.bincount(judgement.given, minlength=len(names))
    folder.write_json(
        "data.json",
        {
            "examples": len(judgement.given),
            "class_names": names,
            "given_sizes": sizes.tolist(),
            "small_classes": [],
        },
    )
    folder.write_json("environment.json", {"packages": {"ulc": version("ulc")}})
    buffer = io.BytesIO()
    np.savez(buffer, **judgement.stored())  # type: ignore[arg-type]
    folder.write("judgement.npz", buffer.getvalue())
    folder.write_records([{"epoch": 0, "train": {"loss": 1.0}}])
    folder.write_json("summary.json", {})
    if data.source == "table":  # for the map of the data
        columns = pd.read_csv(str(data.path), nrows=10_000).drop(columns="label")
        encoding = TableEncoding.fit(columns, str(data.path))
        folder.write_json("encoding.json", encoding.model_dump(mode="json"))
    folder.finish()
    return path


if __name__ == "__main__":
    main()
