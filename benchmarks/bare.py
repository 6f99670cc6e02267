"""A slice of an epoch against the bare arithmetic of its networks.

The slice is an epoch on few examples, half of them trusted (see slices.py). Bare arithmetic is the
same list of passes, forward and where the slice learns backward, through copies of the networks, on
tensors that are in place, in the faster of two memory formats.
"""

import sys
from typing import Any

import torch

from benchmarks.slices import Bare, Case, Slice, calls_of, cases, load, rows_of
from benchmarks.timing import add_data, arguments, begin, claim, finish, interleaved

LIMITS = {"PreAct ResNet-18": 1.10, "small network": 1.25, "MLP": 1.6}


def main(argv: list[str]) -> None:
    parser = arguments(__doc__)
    add_data(parser)
    parser.add_argument("--algorithms", nargs="+", default=["ulc", "dividemix", "ce"])
    parser.add_argument("--networks", nargs="+", default=list(LIMITS))
    parser.add_argument("--examples", type=int, default=4096, help="of small network and MLP")
    parser.add_argument("--resnet-batch", type=int, default=16)
    options = begin(parser, argv)
    rows, claims = [], []
    for case in cases(options.examples, options.resnet_batch):
        if case.title not in options.networks:
            continue
        data = load(case, options)
        pieces = {name: Slice.of(name, case, data) for name in options.algorithms}
        repeats = (
            min(3, options.repeats) if case.batch_size == options.resnet_batch else options.repeats
        )
        rows += [measured(name, case, piece, repeats) for name, piece in pieces.items()]
        if "ulc" in pieces:
            (ratio,) = (row["ratio"] for row in rows[-len(pieces) :] if row["algorithm"] == "ulc")
            title = f"ULC on {case.title}, times bare arithmetic"
            claims.append(claim(title, ratio, "≤", LIMITS[case.title]))
        if case.title == "PreAct ResNet-18" and {"ulc", "dividemix"} <= set(pieces):
            claims.append(against_dividemix(pieces, repeats))
    finish("bare", options, rows, claims)


def against_dividemix(pieces: dict[str, Slice], repeats: int) -> dict[str, Any]:
    """The epochs of both, in turn."""
    timed = interleaved({name: pieces[name].run for name in ("ulc", "dividemix")}, repeats)
    ratio = timed["ulc"].over(timed["dividemix"])["ratio"]
    return claim("ULC's epoch over DivideMix's, same split, PreAct ResNet-18", ratio, "≤", 1.0)


def measured(name: str, case: Case, piece: Slice, repeats: int) -> dict[str, Any]:
    """The slice and its arithmetic in both formats, in turn."""
    calls = calls_of(piece)
    formats = {"contiguous": torch.contiguous_format}
    if case.source == "cifar10":
        formats["channels_last"] = torch.channels_last
    bare = {key: Bare(piece, calls, value).run for key, value in formats.items()}
    timed = interleaved({"ulc": piece.run, **bare}, repeats)
    best = min(formats, key=lambda key: timed[key].median)
    return {
        "network": case.title,
        "algorithm": name,
        "evaluated": case.examples,
        "batch_size": case.batch_size,
        **rows_of(calls),
        "seconds": timed["ulc"].median,
        "bare_seconds": timed[best].median,
        "best_format": best,
        **timed["ulc"].over(timed[best]),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
