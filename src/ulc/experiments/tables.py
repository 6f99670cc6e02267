"""Tables of finished runs in Markdown: mean ± standard deviation over seeds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ulc.storage.run_folder import RunFolder

# Column heading, and the keys that lead to its number in summary.json.
COLUMNS: dict[str, tuple[str, ...]] = {
    "accuracy": ("training", "last", "accuracy"),
    "small": ("training", "last", "small_accuracy"),
    "large": ("training", "last", "large_accuracy"),
    "best*": ("training", "best_on_test"),
    "balanced prior": ("balanced", "last", "accuracy"),
    "small ": ("balanced", "last", "small_accuracy"),
    "large ": ("balanced", "last", "large_accuracy"),
    "best* ": ("balanced", "best_on_test"),
    "AUC": ("labels", "auc"),
    "AUC small": ("labels", "small", "auc"),
    "precision": ("labels", "precision"),
    "recall": ("labels", "recall"),
    "correct trusted": ("labels", "trusted_correct"),
    "small  ": ("labels", "small", "trusted_correct"),
}


def markdown_table(runs: Mapping[str, Sequence[RunFolder]]) -> str:
    """A table with one row for each name: mean ± standard deviation over its runs, in %.

    Scores are means over the last epochs; a star marks the best epoch on the test set.
    """
    lines = [
        "| | n | " + " | ".join(name.strip() for name in COLUMNS) + " |",
        "|---" * (len(COLUMNS) + 2) + "|",
    ]
    for name, folders in runs.items():
        summaries = [folder.read_json("summary.json") for folder in folders]
        cells = [
            mean_and_deviation([nested_value(summary, keys) for summary in summaries])
            for keys in COLUMNS.values()
        ]
        lines.append(f"| {name} | {len(folders)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def nested_value(content: Any, keys: Sequence[str]) -> float | None:
    """The number under these nested keys; None if it is not there."""
    for key in keys:
        content = (content or {}).get(key)
    return content


def mean_and_deviation(values: Sequence[float | None]) -> str:
    """Mean ± standard deviation in %, or a dash if no value is known."""
    known = [100 * value for value in values if value is not None]
    if not known:
        return "–"
    deviation = f" ± {np.std(known, ddof=1):.1f}" if len(known) > 1 else ""
    return f"{np.mean(known):.1f}{deviation}"
