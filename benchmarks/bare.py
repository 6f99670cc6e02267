"""A slice of an epoch against the bare arithmetic of its networks.

The slice is an epoch on few examples, half of them trusted (see slices.py). Bare arithmetic is the
same list of forward and backward passes through copies of the networks, on tensors that are in
memory already, in the faster of two memory formats.
"""

import sys
from typing import Any

import torch

from benchmarks.slices import (
    BarePasses,
    Case,
    Slice,
    count_rows,
    load_case,
    make_cases,
    record_calls,
)
from benchmarks.timing import (
    Repeats,
    add_data_options,
    check_bound,
    new_parser,
    parse_options,
    report_result,
    time_in_turns,
)

LIMITS = {"PreAct ResNet-18": 1.10, "small network": 1.25, "MLP": 1.6}


def main(argv: list[str]) -> None:
    parser = new_parser(__doc__)
    add_data_options(parser)
    parser.add_argument("--algorithms", nargs="+", default=["ulc", "dividemix", "ce"])
    parser.add_argument("--networks", nargs="+", default=list(LIMITS))
    parser.add_argument("--examples", type=int, default=4096, help="of small network and MLP")
    parser.add_argument("--resnet-batch", type=int, default=16)
    options = parse_options(parser, argv)
    rows, bounds = [], []
    for case in make_cases(options.examples, options.resnet_batch):
        if case.title not in options.networks:
            continue
        data = load_case(case, options)
        pieces = {name: Slice.of(name, case, data) for name in options.algorithms}
        repeats = (
            min(3, options.repeats) if case.batch_size == options.resnet_batch else options.repeats
        )
        for name, piece in pieces.items():
            row, ratio = measure_slice(name, case, piece, repeats)
            rows.append(row)
            if name == "ulc":
                title = f"epoch of ULC ÷ bare arithmetic, {case.title}"
                bounds.append(check_bound(title, ratio, "≤", LIMITS[case.title]))
        if case.title == "PreAct ResNet-18" and {"ulc", "dividemix"} <= set(pieces):
            bounds.append(compare_with_dividemix(pieces, repeats))
    report_result("bare", options, rows, bounds)


def compare_with_dividemix(pieces: dict[str, Slice], repeats: int) -> dict[str, Any]:
    """Time the epochs of ULC and DivideMix in turns, with the same split."""
    timed = time_in_turns({name: pieces[name].run for name in ("ulc", "dividemix")}, repeats)
    ratio = timed["ulc"].over(timed["dividemix"])
    return check_bound("epoch of ULC ÷ epoch of DivideMix, PreAct ResNet-18", ratio, "≤", 1.0)


def measure_slice(
    name: str, case: Case, piece: Slice, repeats: int
) -> tuple[dict[str, Any], Repeats]:
    """Time the slice and its arithmetic in both memory formats, in turns; row and ratio."""
    calls = record_calls(piece)
    formats = {"contiguous": torch.contiguous_format}
    if case.source == "cifar10":
        formats["channels_last"] = torch.channels_last
    bare = {key: BarePasses(piece, calls, value).run for key, value in formats.items()}
    timed = time_in_turns({"ulc": piece.run, **bare}, repeats)
    best = min(formats, key=lambda key: timed[key].median)
    ratio = timed["ulc"].over(timed[best])
    row = {
        "network": case.title,
        "algorithm": name,
        "evaluated": case.examples,
        "batch_size": case.batch_size,
        **count_rows(calls),
        "seconds": timed["ulc"].median,
        "bare_seconds": timed[best].median,
        "best_format": best,
        **ratio.columns("ratio"),
    }
    return row, ratio


if __name__ == "__main__":
    main(sys.argv[1:])
