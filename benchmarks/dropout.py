"""Ten integrated predictions (dropout passes) against one plain pass."""

import sys

import torch

from benchmarks.slices import Slice, cases, load
from benchmarks.timing import add_data, arguments, begin, claim, finish, interleaved
from ulc.blocks.learner import evaluating
from ulc.blocks.uncertainty import draw_mask_seeds, monte_carlo_dropout

IMAGES = {"PreAct ResNet-18": 64, "small network": 2048, "MLP": 8192}
PASSES = 10


def main(argv: list[str]) -> None:
    parser = arguments(__doc__)
    add_data(parser)
    parser.set_defaults(repeats=11)
    options = begin(parser, argv)
    rows, claims = [], []
    for case in cases(max(IMAGES.values()), 32):
        data = load(case, options)
        network = Slice.of("ulc", case, data).algorithm.networks()[0]
        parts = data.preprocessing.ready(data.stored[: IMAGES[case.title]]).split(1024)

        def plain(network=network, parts=parts) -> None:
            with torch.no_grad(), evaluating(network):
                for part in parts:
                    network(part)

        def integrated(network=network, parts=parts) -> None:
            with evaluating(network):
                members = draw_mask_seeds(network, PASSES)
                for part in parts:
                    monte_carlo_dropout(network, part, members)

        timed = interleaved({"integrated": integrated, "plain": plain}, options.repeats)
        row = {
            "network": case.title,
            "images": IMAGES[case.title],
            "passes": PASSES,
            "seconds": timed["integrated"].median,
            "plain_seconds": timed["plain"].median,
            **timed["integrated"].over(timed["plain"]),
        }
        rows.append(row)
        if case.title == "PreAct ResNet-18":
            claims.append(claim("ten passes on PreAct ResNet-18", row["ratio"], "≤", 1.05))
    finish("dropout", options, rows, claims)


if __name__ == "__main__":
    main(sys.argv[1:])
