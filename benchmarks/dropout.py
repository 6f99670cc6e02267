"""Ten dropout passes (an integrated prediction) beside one plain pass."""

import sys

import torch

from benchmarks.slices import Slice, load_case, make_cases
from benchmarks.timing import (
    add_data_options,
    check_bound,
    new_parser,
    parse_options,
    report_result,
    time_in_turns,
)
from ulc.blocks.learner import evaluating
from ulc.blocks.uncertainty import draw_mask_seeds, monte_carlo_dropout

IMAGES = {"PreAct ResNet-18": 64, "small network": 2048, "MLP": 8192}
PASSES = 10


def main(argv: list[str]) -> None:
    parser = new_parser(__doc__)
    add_data_options(parser)
    parser.set_defaults(repeats=11)
    options = parse_options(parser, argv)
    rows, bounds = [], []
    for case in make_cases(max(IMAGES.values()), 32):
        data = load_case(case, options)
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

        timed = time_in_turns({"integrated": integrated, "plain": plain}, options.repeats)
        ratio = timed["integrated"].over(timed["plain"])
        row = {
            "network": case.title,
            "images": IMAGES[case.title],
            "passes": PASSES,
            "seconds": timed["integrated"].median,
            "plain_seconds": timed["plain"].median,
            **ratio.columns("ratio"),
        }
        rows.append(row)
        if case.title == "PreAct ResNet-18":
            bounds.append(
                check_bound(f"ten dropout passes ÷ one plain pass, {case.title}", ratio, "≤", 1.05)
            )
    report_result("dropout", options, rows, bounds)


if __name__ == "__main__":
    main(sys.argv[1:])
