"""Random kills of trainings and audits, random flips of bits in run folders; counts what comes out.

python -m benchmarks faults [--kills 1000] [--flips 10000] [--seed 0]

Kills: each algorithm and an audit are trained in a process that is killed (SIGKILL) at random
moments and started again until it ends. The result must have the same bits as an unbroken run, and
no temporary file, held lock or process may be left. POSIX only: the processes are forked.

Flips: one random bit of a random file of a finished run is flipped; `ulc show` and `ulc predict`
must refuse the folder in one sentence or print the same bits as before. The same for a stopped run,
which is resumed (a tenth of the flips).
"""

import argparse
import io
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from functools import partial
from pathlib import Path

import numpy as np
import torch

from ulc.algorithms import ALGORITHMS
from ulc.auditing import audit_spec, run_audit, workspace
from ulc.cli import app
from ulc.config import DataSpec, RunSpec
from ulc.errors import InputError
from ulc.storage.files import TEMPORARY
from ulc.storage.run_folder import RunFolder
from ulc.training.loop import TrainingProgress
from ulc.training.run import resume, run

# Files whose bits do not depend on when the run was killed; records have seconds in them.
RESULTS = ("model.safetensors", "model.json", "judgement.npz", "labels.csv", "health.json")
EPOCHS = 4
GOOD = ("noticed", "same bits")
Job = Callable[[Path], RunFolder]


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--flips", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    torch.set_num_threads(1)  # a forked process cannot use torch's threads
    rng = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        data = write_data(root)
        kills, broken = kill_all(new_jobs(data), root, options.kills, rng)
        flips = flip_finished(data, root, options.flips, rng)
        resumed = flip_stopped(data, root, options.flips // 10, rng)
    print(f"{kills['kills']} kills of {kills['runs']} runs: {len(broken)} broken {broken or ''}")
    print(f"{options.flips} flips, show and predict: {dict(flips)}")
    print(f"{options.flips // 10} flips, resume: {dict(resumed)}")
    if broken or set(flips | resumed) - set(GOOD):
        sys.exit(1)


def write_data(root: Path) -> Path:
    """Write a tiny data set with wrong labels; return its path."""
    rng = np.random.default_rng(0)
    true = np.arange(60) % 3
    inputs = (rng.normal(size=(60, 4)) + 3 * np.eye(3, 4)[true]).astype(np.float32)
    given = np.where(rng.random(60) < 0.2, (true + 1) % 3, true)
    path = root / "data.npz"
    np.savez(path, X=inputs, y=given, ids=[f"row {place}" for place in range(60)])
    return path


def new_spec(data: Path, algorithm: str) -> RunSpec:
    source = DataSpec(source="npz", path=str(data))
    return RunSpec(data=source, algorithm=algorithm, epochs=EPOCHS)


def new_jobs(data: Path) -> dict[str, Job]:
    """Return what is killed: an audit, and a training of each algorithm."""
    jobs: dict[str, Job] = {"audit": partial(audit_often_saved, audit_spec(data, epochs=2))}
    return jobs | {
        name: partial(run, new_spec(data, name), device="cpu", save_every=0) for name in ALGORITHMS
    }


def audit_often_saved(spec, out: Path) -> RunFolder:
    """Audit with a checkpoint after each epoch of each training."""
    workspace.run = partial(run, save_every=0)
    try:
        return run_audit(spec, out, device="cpu")
    finally:
        workspace.run = run


def kill_all(
    jobs: dict[str, Job], root: Path, kills: int, rng: np.random.Generator
) -> tuple[Counter[str], list[str]]:
    """Kill the jobs in turn until there were `kills` kills; return counts, and what was broken."""
    count: Counter[str] = Counter(kills=0, runs=0)
    broken = []
    whole = {}
    for name, job in jobs.items():
        began = time.perf_counter()
        whole[name] = job(root / "whole"), time.perf_counter() - began
    while count["kills"] < kills:
        for name, job in jobs.items():
            out = root / "killed"
            most = min(int(rng.integers(1, 8)), kills - count["kills"])
            expected, seconds = whole[name]
            count["kills"] += kill_until_done(partial(job, out), seconds, most, rng)
            count["runs"] += 1
            broken += [f"{name}: {each}" for each in find_faults(expected, job(out), out)]
            shutil.rmtree(out)
            if count["kills"] >= kills:
                break
    return count, broken


def kill_until_done(
    job: Callable[[], object], seconds: float, most: int, rng: np.random.Generator
) -> int:
    """Start the job and kill it at a random moment, `most` times or until it is done; count."""
    kills = 0
    for _ in range(most):
        child = os.fork()
        if child == 0:
            try:
                job()
            finally:
                os._exit(0)
        time.sleep(float(rng.uniform(0, seconds)))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            break
        kills += 1
    return kills


def find_faults(expected: RunFolder, found: RunFolder, out: Path) -> list[str]:
    """Compare a run that was killed with an unbroken one, and look for what was left behind."""
    faults = [name for name in RESULTS if found.read(name) != expected.read(name)]
    faults += [str(path) for path in out.rglob("*") if TEMPORARY.fullmatch(path.name)]
    if len(list(out.iterdir())) != 1:
        faults.append("more than one folder")
    with found.locked():  # raises if a lock is left
        return faults


def flip_finished(
    data: Path, root: Path, flips: int, rng: np.random.Generator, remove: str | None = None
) -> Counter[str]:
    """Flip bits of a finished run before `ulc show` and `ulc predict`; count the outcomes.

    remove: name of a file that is removed from the run first; None: none
    """
    folder = run(new_spec(data, "ulc"), root / "finished", device="cpu")
    if remove:
        (folder.path / remove).unlink()

    def use() -> object:
        return use_run(folder.path, data, root / "predicted.csv")

    expected = use()
    return Counter(flip_and_try(folder.path, use, expected, rng) for _ in range(flips))


def flip_stopped(data: Path, root: Path, flips: int, rng: np.random.Generator) -> Counter[str]:
    """Flip bits of a stopped run before it is resumed; count the outcomes."""
    spec = new_spec(data, "ulc")
    expected = resulting_bits(run(spec, root / "unbroken", device="cpu"))
    out = root / "stopped"
    with suppress(KeyboardInterrupt):
        run(spec, out, device="cpu", save_every=0, progress=StopAfter(2))
    (stopped,) = out.iterdir()
    copy = root / "resumed" / stopped.name
    outcomes: Counter[str] = Counter()
    for _ in range(flips):
        shutil.copytree(stopped, copy)
        outcomes[
            flip_and_try(copy, lambda: resulting_bits(resume(copy, device="cpu")), expected, rng)
        ] += 1
        shutil.rmtree(copy)
    return outcomes


class StopAfter(TrainingProgress):
    """Stops a training after some epochs."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def on_epoch(self, record) -> None:
        if record["epoch"] + 1 == self.epochs:
            raise KeyboardInterrupt


def resulting_bits(folder: RunFolder) -> list[bytes]:
    return [folder.read(name) for name in RESULTS]


def use_run(path: Path, data: Path, table: Path) -> tuple[str, bytes]:
    """Return what `ulc show` prints for people and for programs, and what `ulc predict` writes."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        app(["show", str(path)], standalone_mode=False)
        app(["show", str(path), "--json"], standalone_mode=False)
        arguments = ["predict", str(path), str(data), "--out", str(table), "--quiet"]
        app(arguments, standalone_mode=False)
    return printed.getvalue(), table.read_bytes()


def flip_and_try(
    folder: Path, use: Callable[[], object], expected: object, rng: np.random.Generator
) -> str:
    """Flip a random bit of a random file, use the folder, flip it back; return the outcome."""
    files = sorted(path for path in folder.iterdir() if path.stat().st_size)
    path = files[rng.integers(len(files))]
    content = path.read_bytes()
    place, bit = int(rng.integers(len(content))), int(rng.integers(8))
    path.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
    try:
        return "same bits" if use() == expected else f"wrong: {path.name}"
    except InputError as error:
        return "noticed" if "\n" not in str(error) else f"several lines: {path.name}"
    except Exception as error:
        return f"{type(error).__name__}: {path.name}"
    finally:
        path.write_bytes(content)


if __name__ == "__main__":
    main(sys.argv[1:])
