"""Random kills of trainings and commands, random flips of bits in run folders; what comes out.

python -m benchmarks faults [--kills 1000] [--flips 10000] [--seed 0] [--job sweep]

Kills: a training of each algorithm and seven commands run in a process that is killed (SIGKILL) at
random moments, or while it writes a random file, and are started again until they end
(`fault_kills.py`). They must leave the same files with the same bits as an unbroken one, and no
temporary file, held lock or process. POSIX only: the processes are forked.

Flips: one random bit of a random file of a finished run is flipped; `ulc show` and `ulc predict`
must refuse the folder in one sentence or print the same bits as before. The same for a stopped run,
which is resumed (a tenth of the flips).
"""

import argparse
import io
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from pathlib import Path

import numpy as np
import torch

from benchmarks.fault_jobs import NAMES, new_jobs, new_spec, write_data
from benchmarks.fault_kills import kill_all
from ulc.cli import app
from ulc.errors import InputError
from ulc.storage.run_folder import RunFolder
from ulc.training.loop import TrainingProgress
from ulc.training.run import resume, run

# Files whose bits do not depend on when the run was stopped; records have seconds in them.
RESULTS = ("model.safetensors", "model.json", "judgement.npz", "labels.csv", "health.json")
GOOD = ("noticed", "same bits")


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--flips", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--job", choices=NAMES, action="append", help="kill this; default: all")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)  # a forked process cannot use torch's threads
    rng = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        data = write_data(root)
        jobs = new_jobs(data, root)
        chosen = {name: jobs[name] for name in options.job or NAMES}
        kills, broken = kill_all(chosen, root / "work", options.kills, rng)
        flips = flip_finished(data, root, options.flips, rng)
        resumed = flip_stopped(data, root, options.flips // 10, rng)
    print(f"{kills.total()} kills, {len(broken)} broken: {dict(kills)}", *broken, sep="\n")
    print(f"{options.flips} flips, show and predict: {dict(flips)}")
    print(f"{options.flips // 10} flips, resume: {dict(resumed)}")
    if broken or set(flips | resumed) - set(GOOD):
        sys.exit(1)


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
