"""An epoch with 1,000 classes against its bare arithmetic, on vectors, in processor time.

The slice is an epoch on random vectors of 256 numbers (see slices.py), for ULC+ one after its first
judgement of the labels, whose fit of the confusion model takes the most steps. Bare arithmetic is
what the equations of an algorithm ask for, in plain torch on tensors in memory; no row is chosen,
no random number drawn, no loss but a sum computed, no weight updated:

- forward and backward passes through the networks, for all algorithms;
- T products with the heads and T softmaxes for each evaluated row (Monte-Carlo dropout: ULC, ULC+);
- for each learned row the product with the class noise and T softmaxes, with gradients (ULC);
- the steps of EM for the confusion model: posterior, counts, moments (ULC+).

`passes_ratio` is the ratio to the passes through the networks alone.
"""

import sys
import time
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import torch

from benchmarks.slices import BarePasses, Call, Case, Slice, record_calls
from benchmarks.timing import check_bound, new_parser, parse_options, report_result, time_in_turns
from ulc.blocks.label_posterior import AnchoredConfusion
from ulc.data.augment import strong_augmentation, weak_augmentation
from ulc.data.preprocessing import Preprocessing
from ulc.data.sources.source import Source
from ulc.data.training import TensorData

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTH = 256
LIMIT = 1.6


def main(argv: list[str]) -> None:
    parser = new_parser(__doc__)
    parser.set_defaults(repeats=3)
    parser.add_argument("--algorithms", nargs="+", default=["ulc", "ulc_plus", "dividemix", "ce"])
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--classes", type=int, default=1000)
    options = parse_options(parser, argv)
    data = random_vectors(options.examples, options.classes)
    rows, bounds = [], []
    for name in options.algorithms:
        piece = Slice.of(name, Case("MLP", "mlp", "npz", options.examples, 64), data)
        row, bound = measure(name, piece, options.repeats)
        rows.append(row | {"examples": options.examples, "classes": options.classes})
        bounds.append(bound)
    report_result("many_classes", options, rows, bounds)


def random_vectors(examples: int, classes: int) -> TensorData:
    """Vectors around a centre for each class; all labels are right."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, examples)
    centres = rng.normal(size=(classes, WIDTH))
    inputs = (centres[labels] + rng.normal(size=(examples, WIDTH))).astype(np.float32)
    names = tuple(map(str, range(classes)))
    preprocessing = Preprocessing.fit(Source("random", inputs, labels, names))
    return TensorData(
        stored=preprocessing.stored(inputs),
        given=torch.from_numpy(labels),
        num_classes=classes,
        seed=0,
        preprocessing=preprocessing,
        augment=weak_augmentation((WIDTH,)),
        strong=strong_augmentation((WIDTH,)),
    )


def measure(name: str, piece: Slice, repeats: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Time the slice, the passes and the draws in turns; a row, and the check of its bound."""
    calls = record_calls(piece)
    pieces: dict[str, Callable[[], object]] = {
        "slice": piece.run,
        "passes": BarePasses(piece, calls, torch.contiguous_format).run,
    }
    if name in ("ulc", "ulc_plus"):
        pieces["dropout"] = BareDropout(piece).run
    if name == "ulc":
        pieces["draws"] = BareDraws(piece, calls).run
    if name == "ulc_plus":
        pieces["confusion"] = BareConfusion(piece).run
    timed = time_in_turns(pieces, repeats, clock=time.process_time)
    bare = [timed[key].values for key in pieces if key != "slice"]
    total = type(timed["slice"])(tuple(map(sum, zip(*bare, strict=True))))
    ratio = timed["slice"].over(total)
    row = {
        "algorithm": name,
        "seconds": timed["slice"].median,
        "bare_seconds": total.median,
        "passes_ratio": timed["slice"].over(timed["passes"]).median,
        **ratio.columns("ratio"),
    }
    title = f"epoch of {name} ÷ bare arithmetic, many classes"
    return row, check_bound(title, ratio, "≤", LIMIT)


class BareDropout:
    """The T dropout passes of all rows by both networks, from features in memory."""

    def __init__(self, piece: Slice) -> None:
        network, self.passes = piece.algorithm.networks()[0], piece.algorithm.config.passes
        weight = network.heads()[0].detach()
        self.heads = weight.repeat(self.passes, 1)
        self.classes = network.head.out_features
        self.batches = 2 * [len(each) for each in piece.algorithm.data.in_order()]
        self.features = torch.randn(weight.shape[1], max(self.batches))

    def run(self) -> None:
        for rows in self.batches:
            outputs = (self.heads @ self.features[:, :rows]).unflatten(0, (self.passes, -1))
            outputs[:, : self.classes].softmax(1)


class BareDraws:
    """The T noise draws of an epoch of ULC, on tensors in memory."""

    def __init__(self, piece: Slice, calls: list[Call]) -> None:
        network, passes = piece.algorithm.networks()[0], piece.algorithm.config.passes
        classes = network.head.out_features
        self.learned = [call.rows for call in calls if call.learns]
        most = max(self.learned)
        self.class_std = torch.randn(classes, classes, requires_grad=True)
        self.logits, self.std = (torch.randn(classes, most, requires_grad=True) for _ in range(2))
        self.normal = torch.randn(passes, classes, most)

    def run(self) -> None:
        for rows in self.learned:
            logits, std = self.logits[:, :rows], self.std[:, :rows]
            variance = std.square() + self.class_std.square() @ logits.square()
            noisy = torch.addcmul(logits, variance.sqrt(), self.normal[..., :rows])
            noisy.softmax(1).mean(0).log().sum().backward()
            self.logits.grad = self.std.grad = self.class_std.grad = None


class BareConfusion:
    """As many steps of EM as the confusion model of ULC+ took, on tensors in memory."""

    def __init__(self, piece: Slice) -> None:
        self.steps = count_steps(piece)
        self.given = piece.algorithm.data.given
        self.logs = torch.randn(len(self.given), piece.algorithm.data.num_classes).log_softmax(1)
        self.transition = torch.rand(2 * (self.logs.shape[1],))

    def run(self) -> None:
        for _ in range(self.steps):
            expected = self.logs.softmax(1)
            difficulty = torch.special.entr(expected).sum(1)
            error = (self.transition[0] + difficulty[:, None]).sigmoid()
            posterior = expected * error * self.transition[self.given]
            posterior /= posterior.sum(1, keepdim=True)
            torch.zeros_like(self.transition).index_add_(0, self.given, posterior)
            for each in (posterior * error, posterior * error * (1 - error)):
                each.sum(0)
                (each.sum(1) * difficulty).sum()
            for each in (expected, posterior):
                (each * self.logs).sum(1)
                (each * self.logs.square()).sum(1)


def count_steps(piece: Slice) -> int:
    """Number of steps of EM in the slice of ULC+, the last posterior included.

    The first fit has more steps than all later ones, which are timed.
    """
    piece.run()
    with patch.object(
        AnchoredConfusion, "expect", autospec=True, side_effect=AnchoredConfusion.expect
    ) as steps:
        piece.run()
    return steps.call_count


if __name__ == "__main__":
    main(sys.argv[1:])
