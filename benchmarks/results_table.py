"""Tables of the results page from run folders: mean ± standard deviation over seeds.

python -m benchmarks results_table RUNS [--csv FILE]

Runs are grouped by algorithm, variant and noise. It prints a table in Markdown and, with --csv,
writes all columns to a file.
"""

import argparse
import csv
from collections import defaultdict
from pathlib import Path

from ulc.config import merge
from ulc.experiments.tables import mean_and_deviation, nested_value
from ulc.settings.variants import VARIANTS
from ulc.storage.run_folder import RunFolder

TITLES = {
    "ce": "cross entropy",
    "coteaching_plus": "Co-teaching+",
    "pencil": "PENCIL",
    "meta_learning": "Meta-Learning",
    "m_correction": "M-correction",
    "dividemix": "DivideMix",
    "elr_plus": "ELR+",
    "ulc": "ULC",
    "ulc_plus": "ULC+",
}
CEILING = "ceiling: cross entropy, true labels"
SHOWN = {  # columns of the page
    "training prior": ("training", "last", "accuracy"),
    "balanced prior": ("balanced", "last", "accuracy"),
    "small (balanced prior)": ("balanced", "last", "small_accuracy"),
    "large (balanced prior)": ("balanced", "last", "large_accuracy"),
    "AUC": ("labels", "auc"),
    "precision": ("labels", "precision"),
    "recall": ("labels", "recall"),
}
COLUMNS = SHOWN | {
    "correct trusted": ("labels", "trusted_correct"),
    "correct trusted, small": ("labels", "small", "trusted_correct"),
    "calibration error": ("labels", "calibration_error"),
    "AUC, small": ("labels", "small", "auc"),
    "AUC of 1 − ε, small": ("labels", "small", "certainty_auc"),
    "AUC of 1 − ε, large": ("labels", "large", "certainty_auc"),
    "small (training prior)": ("training", "last", "small_accuracy"),
    "large (training prior)": ("training", "last", "large_accuracy"),
    "best* (training prior)": ("training", "best_on_test"),
    "best* (balanced prior)": ("balanced", "best_on_test"),
}


def title_of(folder: RunFolder) -> str:
    """Title of a run's row: its algorithm, its variant, or the ceiling."""
    spec = folder.spec
    if spec.noise.kind == "none" and spec.algorithm == "ce":
        return CEILING
    for name, (algorithm, own) in VARIANTS.items():
        if algorithm == spec.algorithm and merge(spec.options, own) == spec.options:
            part = name.removeprefix(f"{algorithm}-").replace("-", " ")
            words = {"csm": "CSM", "eum": "EUM", "aul": "AUL"}
            return " ".join([TITLES[algorithm], *(words.get(each, each) for each in part.split())])
    return TITLES.get(spec.algorithm, spec.algorithm)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, help="folder of run folders")
    parser.add_argument("--csv", type=Path, help="file for all columns")
    options = parser.parse_args(argv)
    groups: dict[str, list[RunFolder]] = defaultdict(list)
    for path in sorted(options.runs.iterdir()):
        folder = RunFolder(path)
        if folder.done:
            groups[title_of(folder)].append(folder)
    order = sorted(groups, key=lambda title: (title == CEILING, *place_of(title)))
    rows = [row_of(title, groups[title]) for title in order]
    names = ["n", *SHOWN]
    print("| | " + " | ".join(names) + " |\n|---" + "|---" * len(names) + "|")
    for row in rows:
        print(f"| {row['method']} | " + " | ".join(row[name] for name in names) + " |")
    if options.csv is not None and rows:
        with options.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def place_of(title: str) -> tuple[int, str]:
    """Place of a row: the order of TITLES, variants after their algorithm."""
    longest = max((each for each in TITLES.values() if title.startswith(each)), key=len, default="")
    return (list(TITLES.values()).index(longest) if longest else len(TITLES)), title


def row_of(title: str, folders: list[RunFolder]) -> dict[str, str]:
    """A row of the table as text."""
    summaries = [folder.read_json("summary.json") for folder in folders]
    cells = {
        name: mean_and_deviation([nested_value(each, keys) for each in summaries])
        for name, keys in COLUMNS.items()
    }
    return {"method": title, "n": str(len(folders)), **cells}


if __name__ == "__main__":
    main()
