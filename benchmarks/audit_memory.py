"""Peak memory of an audit of vectors as rows grow, and what a million rows would need.

Each size is audited in its own process: random vectors of 256 numbers around a centre for each
class, a fifth of the labels drawn anew. `trained_gib` is the peak when both trainings have ended,
`peak_gib` that of the whole audit. The slope between the two largest sizes gives `per_row_kib` and,
for sizes below a million, the peak of a million rows. `--sizes 1000000` audits a million. Arrays
above 1 MiB are given back to the system when they are freed, at every size (glibc decides by size
otherwise), so that small sizes tell of large ones.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.growth import WIDTH, peak_memory
from benchmarks.timing import Repeats, check_bound, new_parser, parse_options, report_result
from ulc.auditing.audit import run_audit
from ulc.auditing.spec import AuditProgress, AuditSpec
from ulc.config import DataSpec
from ulc.training.loop import TrainingProgress

MILLION = 1_000_000
LIMIT = 8.0  # GiB


def main(argv: list[str]) -> None:
    parser = new_parser(__doc__)
    parser.set_defaults(repeats=1)
    parser.add_argument("--sizes", type=int, nargs="+", default=[50_000, 100_000])
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument(
        "--epochs", type=int, help="of both trainings; default: as an audit chooses"
    )
    parser.add_argument("--one", type=Path, metavar="NPZ", help="only audit this file, here")
    options = parse_options(parser, argv)
    if options.one:
        print(json.dumps(audit_here(options.one, options.epochs)))
        return
    rows = []
    for size in sorted(options.sizes):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "vectors.npz"
            write_vectors(file, size, options.classes)
            rows.append({"rows": size, **audit_in_subprocess(file, options)})
    if len(rows) > 1:
        few, many = rows[-2:]
        slope = (many["peak_gib"] - few["peak_gib"]) / (many["rows"] - few["rows"])
        many["per_row_kib"] = slope * 2**20
        many["million_gib"] = many["peak_gib"] + slope * (MILLION - many["rows"])
    measured = [row["peak_gib"] for row in rows if row["rows"] >= MILLION]
    title = "audit of a million vectors: peak memory in GiB"
    bounds = [check_bound(title, Repeats(tuple(measured)), "≤", LIMIT)] if measured else []
    report_result("audit_memory", options, rows, bounds)


def write_vectors(file: Path, rows: int, classes: int) -> None:
    """Write an npz file of vectors and labels."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, classes, rows)
    given = np.where(rng.random(rows) < 0.2, rng.integers(0, classes, rows), true)
    centres = rng.standard_normal((classes, WIDTH), dtype=np.float32)
    vectors = rng.standard_normal((rows, WIDTH), dtype=np.float32)
    for start in range(0, rows, 10_000):
        vectors[start : start + 10_000] += centres[true[start : start + 10_000]]
    np.savez(file, X=vectors, y=given)


def audit_in_subprocess(file: Path, options: Any) -> dict[str, Any]:
    """Audit the file in a process of its own, whose peak memory is that of the audit."""
    command = [sys.executable, "-m", "benchmarks.audit_memory", "--one", str(file)]
    command += ["--threads", str(options.threads)]
    command += [] if options.epochs is None else ["--epochs", str(options.epochs)]
    env = os.environ | {"MALLOC_MMAP_THRESHOLD_": str(2**20)}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env)
    return json.loads(done.stdout.splitlines()[-1])


def audit_here(file: Path, epochs: int | None) -> dict[str, Any]:
    """Audit the file; seconds of processor time and peak memory."""
    before, progress = peak_memory(), PeakAfterTraining()
    spec = AuditSpec(data=DataSpec(source="npz", path=str(file)), epochs=epochs)
    run_audit(spec, file.parent / "audits", device="cpu", progress=progress)
    return {
        "processor_seconds": time.process_time(),
        "start_gib": before,
        "trained_gib": progress.trained,
        "peak_gib": peak_memory(),
    }


class PeakAfterTraining(AuditProgress):
    """Notes the peak memory after each training."""

    trained = 0.0

    @contextmanager
    def training(self, title: str, epochs: int) -> Iterator[TrainingProgress]:
        """The callbacks of a training; the peak is noted at its end."""
        with super().training(title, epochs) as progress:
            yield progress
        self.trained = peak_memory()


if __name__ == "__main__":
    main(sys.argv[1:])
