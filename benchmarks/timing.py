"""Shared by the benchmarks: timing in turns, options, bounds, and the result as JSON."""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch


@dataclass(frozen=True)
class Repeats:
    """The values of one figure in all repetitions."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)

    def over(self, other: "Repeats") -> "Repeats":
        """Ratio to another figure, repetition by repetition."""
        return Repeats(tuple(a / b for a, b in zip(self.values, other.values, strict=True)))

    def columns(self, name: str) -> dict[str, float]:
        """Median, lowest and highest value as columns of a result row."""
        return {name: self.median, "low": self.low, "high": self.high}


def time_in_turns(
    pieces: dict[str, Callable[[], object]],
    repeats: int,
    *,
    warm_up: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Repeats]:
    """Return the seconds of each piece; the pieces take turns, so load slows all of them alike.

    warm_up: run each piece once before, untimed
    clock: returns seconds; `time.process_time` does not count the time of other programs
    """
    for piece in pieces.values() if warm_up else ():
        piece()
    seconds: dict[str, list[float]] = {name: [] for name in pieces}
    for _ in range(repeats):
        for name, piece in pieces.items():
            began = clock()
            piece()
            seconds[name].append(clock() - began)
    return {name: Repeats(tuple(each)) for name, each in seconds.items()}


def new_parser(title: str) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark."""
    parser = argparse.ArgumentParser(description=title.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print the result as one JSON line")
    parser.add_argument("--out", type=Path, help="write the result to this JSON file too")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    return parser


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the paths of the data."""
    cifar, features = os.environ.get("ULC_CIFAR10"), os.environ.get("ULC_FEATURES")
    parser.add_argument("--cifar", default=cifar, help="folder of CIFAR-10, or $ULC_CIFAR10")
    parser.add_argument("--features", default=features, help="npz of vectors, or $ULC_FEATURES")


def parse_options(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Parse the options, set the number of threads, and note the load of the machine."""
    options = parser.parse_args(argv)
    options.load_before = os.getloadavg()[0]
    torch.set_num_threads(options.threads)
    return options


def check_bound(what: str, measured: Repeats, relation: str, limit: float) -> dict[str, Any]:
    """Compare the spread of a figure with its bound; `relation` is "≤" or "≥".

    Reached: every repetition keeps the bound. Missed: none does. Not shown: the spread spans the
    bound, or there is only one repetition.
    """
    keeps = [value <= limit if relation == "≤" else value >= limit for value in measured.values]
    verdict = "not shown"
    if len(keeps) > 1 and all(keeps):
        verdict = "reached"
    elif len(keeps) > 1 and not any(keeps):
        verdict = "missed"
    return {
        "what": what,
        **measured.columns("median"),
        "repeats": len(measured.values),
        "relation": relation,
        "limit": limit,
        "verdict": verdict,
    }


def report_result(
    name: str,
    options: argparse.Namespace,
    rows: list[dict[str, Any]],
    bounds: Sequence[dict[str, Any]] = (),
) -> None:
    """Print the result, and write it as JSON if the options say so."""
    hidden = {"json", "out", "cifar", "features", "load_before"}  # paths are not part of a result
    settings = {key: str(value) for key, value in vars(options).items() if key not in hidden}
    result = {
        "benchmark": name,
        "machine": describe_machine() | {"load_before": options.load_before},
        "settings": settings,
        "rows": rows,
        "bounds": list(bounds),
    }
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if options.json:
        print(json.dumps(result))
        return
    for row in rows:
        print("  ".join(f"{key} {format_value(value)}" for key, value in row.items()))
    for each in bounds:
        print("  ".join(map(format_value, each.values())))


def format_value(value: object) -> str:
    """Return a number with four digits, anything else as text."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def describe_machine() -> dict[str, Any]:
    """Return processor, cores and versions."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }
