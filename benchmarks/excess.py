"""Profile of the time beyond bare arithmetic: ULC's slice beside its bare passes (see bare.py).

Milliseconds of each torch operation without its callees, largest difference first; `python` is the
time between the operations.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.slices import BarePasses, Slice, load_case, make_cases, record_calls
from benchmarks.timing import add_data_options, new_parser, parse_options, report_result


def main(argv: list[str]) -> None:
    parser = new_parser(__doc__)
    add_data_options(parser)
    parser.add_argument("--networks", nargs="+", default=["small network", "MLP"])
    parser.add_argument("--examples", type=int, default=4096)
    parser.add_argument("--top", type=int, default=12)
    options = parse_options(parser, argv)
    rows: list[dict[str, Any]] = []
    for case in make_cases(options.examples, 16):
        if case.title in options.networks:
            piece = Slice.of("ulc", case, load_case(case, options))
            bare = BarePasses(piece, record_calls(piece), torch.channels_last).run
            rows += list_differences(
                case.title, profile_operations(piece.run), profile_operations(bare), options.top
            )
    report_result("excess", options, rows)


def profile_operations(piece: Callable[[], object]) -> dict[str, tuple[float, int]]:
    """Return milliseconds and calls of each operation; `python` and `all` are timed unprofiled."""
    piece()
    began = time.perf_counter()
    piece()
    whole = 1e3 * (time.perf_counter() - began)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        piece()
    found = {each.key: (each.self_cpu_time_total / 1e3, each.count) for each in seen.key_averages()}
    operations = sum(spent for spent, _ in found.values())
    return found | {"python": (max(whole - operations, 0.0), 0), "all": (whole, 0)}


def list_differences(
    network: str,
    slices: dict[str, tuple[float, int]],
    bare: dict[str, tuple[float, int]],
    top: int,
) -> list[dict[str, Any]]:
    """List the whole, Python's part, the operations with the largest excess, and the rest."""
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
