"""Where the time beyond bare arithmetic goes: torch's profile of ULC's slice and of its arithmetic.

Milliseconds that each operation takes itself, in the slice and in the bare passes (see bare.py),
the largest differences first; `python` is what lies between the operations.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.slices import Bare, Slice, calls_of, cases, load
from benchmarks.timing import add_data, arguments, begin, finish


def main(argv: list[str]) -> None:
    parser = arguments(__doc__)
    add_data(parser)
    parser.add_argument("--networks", nargs="+", default=["small network", "MLP"])
    parser.add_argument("--examples", type=int, default=4096)
    parser.add_argument("--top", type=int, default=12)
    options = begin(parser, argv)
    rows: list[dict[str, Any]] = []
    for case in cases(options.examples, 16):
        if case.title in options.networks:
            piece = Slice.of("ulc", case, load(case, options))
            bare = Bare(piece, calls_of(piece), torch.channels_last).run
            rows += differences(case.title, profiled(piece.run), profiled(bare), options.top)
    finish("excess", options, rows)


def profiled(piece: Callable[[], object]) -> dict[str, tuple[float, int]]:
    """Own milliseconds and calls of each operation; `python` and `all` from an unprofiled run."""
    piece()
    began = time.perf_counter()
    piece()
    whole = 1e3 * (time.perf_counter() - began)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        piece()
    found = {each.key: (each.self_cpu_time_total / 1e3, each.count) for each in seen.key_averages()}
    operations = sum(spent for spent, _ in found.values())
    return found | {"python": (max(whole - operations, 0.0), 0), "all": (whole, 0)}


def differences(
    network: str,
    slices: dict[str, tuple[float, int]],
    bare: dict[str, tuple[float, int]],
    top: int,
) -> list[dict[str, Any]]:
    """The whole and Python's part, the operations with the largest excess, the rest together."""
    nothing = (0.0, 0)
    rows = [
        {
            "network": network,
            "operation": name.removeprefix("aten::"),
            "calls": calls,
            "ms": spent,
            "bare_calls": bare.get(name, nothing)[1],
            "bare_ms": bare.get(name, nothing)[0],
            "excess_ms": spent - bare.get(name, nothing)[0],
        }
        for name, (spent, calls) in slices.items()
    ]
    rows.sort(key=lambda row: -row["excess_ms"])
    heads = [row for name in ("all", "python") for row in rows if row["operation"] == name]
    parts = [row for row in rows if row not in heads]
    rest = {"network": network, "operation": f"{len(parts) - top} others"}
    for name in list(rows[0])[2:]:
        rest[name] = sum(row[name] for row in parts[top:])
    return [*heads, *parts[:top], rest]


if __name__ == "__main__":
    main(sys.argv[1:])
