"""An epoch with 1,000 classes against the bare arithmetic of networks and noise draws, on vectors.

The slice is an epoch on random vectors of 256 numbers (see slices.py). With many classes, the last
layer and the draws of ULC are most of the arithmetic. So bare arithmetic has, beside the passes
through the networks, what ULC's equations ask for, in plain torch on tensors in memory: T products
with the heads for each evaluated row (Monte-Carlo dropout); and for each learned row the product
with the class noise and T softmaxes, with their gradients. `passes_ratio` is the ratio to the
passes through the networks alone.
"""

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from benchmarks.slices import BarePasses, Call, Case, Slice, record_calls
from benchmarks.timing import check_bound, new_parser, parse_options, report_result, time_in_turns
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
    parser.add_argument("--algorithms", nargs="+", default=["ulc", "dividemix", "ce"])
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
    if name == "ulc":
        pieces["draws"] = BareDraws(piece, calls).run
    timed = time_in_turns(pieces, repeats)
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


class BareDraws:
    """The T dropout passes and T noise draws of an epoch of ULC, on tensors in memory."""

    def __init__(self, piece: Slice, calls: list[Call]) -> None:
        network, passes = piece.algorithm.networks()[0], piece.algorithm.config.passes
        classes, features = network.head.weight.shape
        self.learned = [call.rows for call in calls if call.learns]
        self.batches = 2 * [len(each) for each in piece.algorithm.data.in_order()]
        most = max(self.learned)
        self.heads = torch.randn(passes * 2 * classes, features)
        self.features = torch.randn(features, max(self.batches))
        self.class_std = torch.randn(classes, classes, requires_grad=True)
        self.logits, self.std = (torch.randn(classes, most, requires_grad=True) for _ in range(2))
        self.normal = torch.randn(passes, classes, most)

    def run(self) -> None:
        for rows in self.batches:
            (self.heads @ self.features[:, :rows]).unflatten(0, (len(self.normal), 2, -1))[
                :, 0
            ].softmax(1)
        for rows in self.learned:
            logits, std = self.logits[:, :rows], self.std[:, :rows]
            variance = std.square() + self.class_std.square() @ logits.square()
            noisy = torch.addcmul(logits, variance.sqrt(), self.normal[..., :rows])
            noisy.softmax(1).mean(0).log().sum().backward()
            self.logits.grad = self.std.grad = self.class_std.grad = None


if __name__ == "__main__":
    main(sys.argv[1:])
