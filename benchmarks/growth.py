"""Time and peak memory of an epoch of ULC as examples and classes grow.

Each size is measured in its own process, on random vectors of 256 numbers. `seconds` is one epoch
after warm-up and the judgement, `prepare_seconds` is the scaling of the vectors; making the
networks is in neither. `peak_gib` is the peak memory of the process, `data_gib` its part above
the idle process. An exponent p means that the figure grows as N to the power p.
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

from benchmarks.timing import Repeats, check_bound, new_parser, parse_options, report_result

WIDTH = 256


def main(argv: list[str]) -> None:
    parser = new_parser(__doc__)
    parser.set_defaults(repeats=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--classes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--one", type=int, nargs=2, metavar=("N", "K"), help="only this size, here")
    options = parse_options(parser, argv)
    if options.one:
        print(json.dumps(train_one_epoch(*options.one)))
        return
    first, *others = options.classes
    shapes = [(size, first) for size in options.sizes]
    shapes += [(options.sizes[0], classes) for classes in others]
    measured: dict[tuple[int, int], list[dict[str, Any]]] = {shape: [] for shape in shapes}
    for _ in range(options.repeats):
        for shape in shapes:
            measured[shape].append(measure_in_subprocess(*shape, options.threads))
    rows = [row for repeats in measured.values() for row in repeats]
    bounds = check_growth(measured[shapes[0]], measured[options.sizes[-1], first])
    report_result("growth", options, rows, bounds)


def check_growth(small: list[dict[str, Any]], large: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Check exponents between the smallest and the largest size, and the largest one's memory."""
    if small is large:
        return []
    examples = large[0]["examples"]
    growth = math.log(examples / small[0]["examples"])

    def exponents(name: str) -> Repeats:
        pairs = zip(small, large, strict=True)
        ratios = [max(big[name], 1e-3) / max(little[name], 1e-3) for little, big in pairs]
        return Repeats(tuple(math.log(ratio) / growth for ratio in ratios))

    peak = Repeats(tuple(row["peak_gib"] for row in large))
    return [
        check_bound("epoch of ULC: exponent of time in N", exponents("seconds"), "≤", 1.05),
        check_bound("epoch of ULC: exponent of memory in N", exponents("data_gib"), "≤", 1.05),
        check_bound(f"epoch of ULC, N = {examples:,}: peak memory in GiB", peak, "≤", 8.0),
    ]


def measure_in_subprocess(examples: int, classes: int, threads: int) -> dict[str, Any]:
    """Measure one size in its own process."""
    command = [sys.executable, "-m", "benchmarks.growth", "--threads", str(threads)]
    command += ["--one", str(examples), str(classes)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def train_one_epoch(examples: int, classes: int) -> dict[str, Any]:
    """Train one epoch on random vectors; seconds and memory."""
    from ulc.algorithms import configure, find_algorithm
    from ulc.config import NetworkSpec
    from ulc.data.augment import strong_augmentation, weak_augmentation
    from ulc.data.preprocessing import Preprocessing
    from ulc.data.sources.source import Source
    from ulc.data.training import TensorData
    from ulc.networks import network_maker

    before = peak_memory()
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, examples)
    centres = rng.normal(size=(classes, WIDTH)).astype(np.float32)
    inputs = rng.standard_normal((examples, WIDTH), dtype=np.float32)
    for start in range(0, examples, 10_000):  # in pieces, so that no temporary array sets the peak
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
    # Half of the examples are trusted at every size: the work depends on that share.
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
        "peak_gib": peak_memory(),
        "data_gib": peak_memory() - before,
    }


def peak_memory() -> float:
    """Return the peak memory of this process in GiB.

    `getrusage` is no use here: it starts at the parent process's memory.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    (held,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(held) / 2**20


if __name__ == "__main__":
    main(sys.argv[1:])
