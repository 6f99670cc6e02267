"""Estimators on small tables: which algorithm learns and judges better, trained with its defaults.

    python -m benchmarks small_table_estimators --algorithms ce,ulc,ulc_plus --seeds 0,1,2

Three tables of scikit-learn, columns standardised, a third of the rows kept for the test. For each
table and noise rate: accuracy on the test rows, whose labels are right, and AUC of the scores of
the training labels; both in %, means over the seeds. A seed decides the test rows, which labels are
wrong (symmetric noise), and the training.
"""

import argparse
import sys

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import ulc
from benchmarks.small_tables import RATES, TABLES, add_noise, tell_percent
from ulc.cli import parse
from ulc.typing import Floats, Integers


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks small_table_estimators",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--algorithms", default="ce,ulc,ulc_plus", help="ce,ulc,ulc_plus")
    parser.add_argument("--seeds", default="0,1,2", help="0,1,2")
    options = parser.parse_args(argv)
    algorithms = parse.names(options.algorithms, "--algorithms") or []
    seeds = parse.whole_numbers(options.seeds, "--seeds")
    torch.set_num_threads(1)
    columns = [f"{name}: accuracy | AUC" for name in algorithms]
    print(f"| table | noise | {' | '.join(columns)} |")
    print(f"|{'---|' * (2 + 2 * len(algorithms))}")
    for name, load in TABLES.items():
        table = load()
        for rate in RATES:
            cells = []
            for algorithm in algorithms:
                found = [
                    fit_with_noise(table.data, table.target, rate, algorithm, seed)
                    for seed in seeds
                ]
                cells += [tell_percent(np.array(column)) for column in zip(*found, strict=True)]
            print(f"| {name} | {100 * rate:g} | {' | '.join(cells)} |", flush=True)


def fit_with_noise(
    rows: Floats, true: Integers, rate: float, algorithm: str, seed: int
) -> tuple[float, float]:
    """Accuracy on the test rows, and AUC of the label scores; not a number without wrong labels."""
    parts = train_test_split(rows, true, test_size=1 / 3, stratify=true, random_state=seed)
    train, test, train_true, test_true = parts
    scaler = StandardScaler().fit(train)
    given = add_noise(train_true, rate, seed)
    model = ulc.NoisyLabelClassifier(algorithm, random_state=seed)
    model.fit(scaler.transform(train), given)
    accuracy = float((model.predict(scaler.transform(test)) == test_true).mean())
    wrong = given != train_true
    if not wrong.any():
        return accuracy, np.nan
    return accuracy, float(roc_auc_score(wrong, 1 - model.find_label_issues()["label_score"]))


if __name__ == "__main__":
    main(sys.argv[1:])
