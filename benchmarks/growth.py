"""Time and peak memory of an epoch of ULC as examples and classes grow.

Each size is measured in a process of its own: random vectors, 256 numbers each, one epoch after
warm-up and the judgement (`seconds`), after the vectors were scaled (`prepare_seconds`); making the
networks is in neither. Memory is the peak of the whole process; the exponent of memory is of
what lies above an idle process that has loaded everything.
"""

import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.timing import arguments, begin, claim, finish

WIDTH = 256


def main(argv: list[str]) -> None:
    parser = arguments(__doc__)
    parser.set_defaults(repeats=1)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--classes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--one", type=int, nargs=2, metavar=("N", "C"), help="this size, here")
    options = begin(parser, argv)
    if options.one:
        print(json.dumps(one(*options.one)))
        return
    first = options.classes[0]
    rows = [apart(size, first, options.threads) for size in options.sizes]
    claims = growth_claims(rows)
    rows += [apart(options.sizes[0], each, options.threads) for each in options.classes[1:]]
    finish("growth", options, rows, claims)


def growth_claims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Exponents between the smallest and the largest size, and the largest one's memory."""
    small, large = rows[0], rows[-1]
    if small is large:
        return []
    larger = math.log(large["examples"] / small["examples"])
    grown = {
        name: math.log(max(large[name], 1e-3) / max(small[name], 1e-3)) / larger
        for name in ("seconds", "data_gib")
    }
    return [
        claim("exponent of time in N", grown["seconds"], "≤", 1.05),
        claim("exponent of memory in N", grown["data_gib"], "≤", 1.05),
        claim(f"peak memory at N = {large['examples']:,}, GiB", large["peak_gib"], "≤", 8.0),
    ]


def apart(examples: int, classes: int, threads: int) -> dict[str, Any]:
    """Measure in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.growth", "--threads", str(threads)]
    command += ["--one", str(examples), str(classes)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def one(examples: int, classes: int) -> dict[str, Any]:
    """Train one epoch on this many random vectors."""
    from ulc.algorithms import configure, find_algorithm
    from ulc.config import NetworkSpec
    from ulc.data.augment import strong_augmentation, weak_augmentation
    from ulc.data.preprocessing import Preprocessing
    from ulc.data.sources.source import Source
    from ulc.data.training import TensorData
    from ulc.networks import network_maker

    before = peak()
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, examples)
    centres = rng.normal(size=(classes, WIDTH)).astype(np.float32)
    inputs = rng.standard_normal((examples, WIDTH), dtype=np.float32)
    for start in range(0, examples, 10_000):  # in pieces, so that the data alone are the peak
        inputs[start : start + 10_000] += centres[labels[start : start + 10_000]]
    wrong = rng.random(examples) < 0.3
    given = np.where(wrong, rng.integers(0, classes, examples), labels)
    began = time.perf_counter()
    source = Source("random", inputs, given, tuple(map(str, range(classes))))
    preprocessing = Preprocessing.fit(source)
    stored = preprocessing.stored(inputs)
    del source, inputs
    data = TensorData(
        stored=stored,
        given=torch.from_numpy(given),
        num_classes=classes,
        seed=0,
        preprocessing=preprocessing,
        augment=weak_augmentation((WIDTH,)),
        strong=strong_augmentation((WIDTH,)),
    )
    prepared = time.perf_counter()
    config = configure("ulc", {"warmup_epochs": 0})
    new_network = network_maker(NetworkSpec(), (WIDTH,), classes, torch.device("cpu"))
    algorithm = find_algorithm("ulc").build(config, data, new_network)
    # Half of the examples at every size: the work would else depend on what is trusted.
    half = torch.arange(examples) % 2 == 0
    from unittest.mock import patch

    built = time.perf_counter()
    with patch("ulc.algorithms.ulc.divide", lambda *_: half):
        algorithm.run_epoch(0)
    algorithm.judge()
    seconds = time.perf_counter() - built
    return {
        "examples": examples,
        "classes": classes,
        "seconds": seconds,
        "prepare_seconds": prepared - began,
        "peak_gib": peak(),
        "data_gib": peak() - before,
    }


def peak() -> float:
    """GiB this process has held at most.

    Not getrusage's: that one starts at what the parent process held.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    (held,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(held) / 2**20


if __name__ == "__main__":
    main(sys.argv[1:])
