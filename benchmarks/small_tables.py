"""What an audit finds in small tables: three tables of scikit-learn with wrong labels put in.

    python -m benchmarks small_tables --seeds 0,1,2

For each table and noise rate: the true share of wrong labels, the share that the audit expects,
the share that it flags, and recall and precision of the flags; all in %, means over the seeds. A
seed decides which labels are wrong (symmetric noise) and how the audit trains.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import ulc
from ulc.cli import parse
from ulc.typing import Floats, Integers

TABLES: dict[str, Callable[[], Any]] = {
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
}
RATES = (0.0, 0.1, 0.25, 0.4)
COLUMNS = ("wrong", "expected", "flagged", "recall", "precision")


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks small_tables",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", default="0,1,2", help="0,1,2")
    parser.add_argument("--tables", default=",".join(TABLES), help=f"of {', '.join(TABLES)}")
    options = parser.parse_args(argv)
    seeds = parse.whole_numbers(options.seeds, "--seeds")
    torch.set_num_threads(1)
    print(f"| table | rows | classes | {' | '.join(COLUMNS)} |")
    print(f"|{'---|' * (3 + len(COLUMNS))}")
    names = parse.names(options.tables, "--tables") or []
    if unknown := sorted({*names} - {*TABLES}):
        sys.exit(f"no table is called '{unknown[0]}'; known: {', '.join(TABLES)}")
    for name in names:
        table = TABLES[name]()
        rows, true = table.data.astype(np.float32), table.target
        for rate in RATES:
            found = np.array([audit_with_noise(rows, true, rate, seed) for seed in seeds])
            means = " | ".join(tell_percent(found[:, place]) for place in range(len(COLUMNS)))
            print(f"| {name} | {len(rows)} | {true.max() + 1} | {means} |", flush=True)


def audit_with_noise(rows: Floats, true: Integers, rate: float, seed: int) -> tuple[float, ...]:
    """The values of COLUMNS of one audit; not a number where nothing is wrong or flagged."""
    given = add_noise(true, rate, seed)
    with tempfile.TemporaryDirectory() as folder:
        run = ulc.audit((rows, given), seed=seed, out=Path(folder))
        judgement = run.judgement
    score = judgement.clean_probability
    wrong, flagged = given != true, judgement.issues(0.5)
    recall = flagged[wrong].mean() if wrong.any() else np.nan
    precision = wrong[flagged].mean() if flagged.any() else np.nan
    return float(wrong.mean()), float(1 - score.mean()), float(flagged.mean()), recall, precision


def add_noise(true: Integers, rate: float, seed: int) -> Integers:
    """Labels of which a share is moved to another class, each with the same probability."""
    rng = np.random.default_rng(seed)
    classes = int(true.max()) + 1
    moved = (true + rng.integers(1, classes, len(true))) % classes
    return np.where(rng.random(len(true)) < rate, moved, true)


def tell_percent(shares: Floats) -> str:
    """The mean in %, or – where no seed has a value."""
    known = shares[~np.isnan(shares)]
    return f"{100 * known.mean():.1f}" if len(known) else "–"


if __name__ == "__main__":
    main(sys.argv[1:])
