"""Train with an algorithm of your own, beside plain cross entropy.

`generalised_cross_entropy.py` in this folder holds the algorithm. This script checks that it keeps
the laws that every algorithm keeps, trains it and cross entropy on the same wrong labels, and
prints how well each predicts the test set. docs/add_an_algorithm.md explains every part.

    python own_algorithm.py
"""

import argparse
from pathlib import Path

from generalised_cross_entropy import GeneralisedCrossEntropy

import ulc
from ulc.testing import check_algorithm


def main() -> None:
    """Check, train, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("example_algorithm"))
    arguments = parser.parse_args()

    check_algorithm(GeneralisedCrossEntropy)
    print("check_algorithm: every law holds")

    for algorithm in ("ce", "generalised_cross_entropy:GeneralisedCrossEntropy"):
        spec = ulc.RunSpec(
            data={"source": "fashion"},
            imbalance={"kind": "half", "ratio": 10},
            noise={"kind": "symmetric", "rate": 0.4},
            algorithm=algorithm,
            epochs=arguments.epochs,
        )
        run = ulc.train(spec, arguments.out)
        accuracy = run.summary["training"]["last"]["accuracy"]
        print(f"{algorithm}: test accuracy {accuracy:.2f} after {len(run.records)} epoch(s)")


if __name__ == "__main__":
    main()
