"""What the benchmarks share: interleaved timing, options, and how a result is written."""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch


@dataclass(frozen=True)
class Timing:
    """Seconds of each repeat."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.seconds)

    def over(self, other: "Timing") -> dict[str, float]:
        """Ratio to another timing, repeat by repeat: median, smallest, largest."""
        ratios = [a / b for a, b in zip(self.seconds, other.seconds, strict=True)]
        return {"ratio": median(ratios), "low": min(ratios), "high": max(ratios)}


def interleaved(
    pieces: dict[str, Callable[[], object]], repeats: int, *, warm_up: bool = True
) -> dict[str, Timing]:
    """Time each piece in turn, again and again: what slows the machine slows them all.

    Each runs once before, untimed, unless there is nothing to warm up.
    """
    for piece in pieces.values() if warm_up else ():
        piece()
    seconds: dict[str, list[float]] = {name: [] for name in pieces}
    for _ in range(repeats):
        for name, piece in pieces.items():
            began = time.perf_counter()
            piece()
            seconds[name].append(time.perf_counter() - began)
    return {name: Timing(tuple(each)) for name, each in seconds.items()}


def arguments(title: str) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=title.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="the result as the last line")
    parser.add_argument("--out", type=Path, help="write the result to this file too")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    return parser


def add_data(parser: argparse.ArgumentParser) -> None:
    """Where the data lie."""
    cifar, features = os.environ.get("ULC_CIFAR10"), os.environ.get("ULC_FEATURES")
    parser.add_argument("--cifar", default=cifar, help="folder of CIFAR-10, or $ULC_CIFAR10")
    parser.add_argument("--features", default=features, help="npz of vectors, or $ULC_FEATURES")


def begin(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the options and set the number of threads."""
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    return options


def claim(what: str, measured: float, relation: str, limit: float) -> dict[str, Any]:
    """A figure with what it should be."""
    held = measured <= limit if relation == "≤" else measured >= limit
    return {"what": what, "measured": measured, "relation": relation, "limit": limit, "held": held}


def finish(
    name: str,
    options: argparse.Namespace,
    rows: list[dict[str, Any]],
    claims: list[dict[str, Any]] | None = None,
) -> None:
    """Print the result, or write it as JSON."""
    settings = {key: str(value) for key, value in vars(options).items() if not hides(key)}
    result = {
        "benchmark": name,
        "machine": machine(),
        "settings": settings,
        "rows": rows,
        "claims": claims or [],
    }
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if options.json:
        print(json.dumps(result))
        return
    for row in rows:
        print("  ".join(f"{key} {shown(value)}" for key, value in row.items()))
    for each in claims or []:
        verdict = "held" if each["held"] else "NOT HELD"
        limits = f"{each['relation']} {shown(each['limit'])}"
        print(f"{each['what']}: {shown(each['measured'])} ({limits}: {verdict})")


def hides(key: str) -> bool:
    """Paths belong to whoever measures, not to the result."""
    return key in {"json", "out", "cifar", "features"}


def shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def machine() -> dict[str, Any]:
    """On what it was measured."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }
