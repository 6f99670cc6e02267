"""What the commands print: runs as tables for people, as JSON for programs."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from rich.table import Table

from ulc.labels_table import label_rows
from ulc.run_folder import RunFolder


def result_table(rows: Sequence[tuple[str, RunFolder]]) -> Table:
    """Accuracy under both priors and the search for wrong labels, mean of the last epochs."""
    table = Table(title="Test accuracy in %, and the search for wrong labels", title_justify="left")
    table.add_column("")
    for prior in ("training prior", "balanced prior"):
        table.add_column(f"{prior}\nall", justify="right")
        table.add_column("\nsmall", justify="right")
        table.add_column("\nlarge", justify="right")
    for name in ("wrong labels\nAUC", "\nprecision", "\nrecall"):
        table.add_column(name, justify="right")
    for title, folder in rows:
        summary = folder.read_json("summary.json")
        cells = []
        for prior in ("training", "balanced"):
            last = summary.get(prior, {}).get("last", {})
            cells += [percent(last.get(f"{kind}accuracy")) for kind in ("", "small_", "large_")]
        labels = summary.get("labels", {})
        cells += [percent(labels.get(name)) for name in ("auc", "precision", "recall")]
        table.add_row(title, *cells)
    return table


def percent(value: float | None) -> str:
    """One decimal, or a dash."""
    return "–" if value is None else f"{100 * value:.1f}"


def suspects_table(folder: RunFolder, most: int) -> Table:
    """The most suspicious labels of a finished run."""
    names = folder.read_json("data.json")["class_names"]
    threshold = folder.spec.options.get("threshold", 0.5)
    table = Table(title="Most suspicious labels", title_justify="left")
    for name in ("id", "given", "suggested", "score", "epistemic", "aleatoric"):
        table.add_column(name, justify="left" if name in ("given", "suggested") else "right")
    for row in islice(label_rows(folder.judgement, names, threshold), most):
        values = [row["label_score"], row["epistemic"], row["aleatoric"]]
        cells = ["–" if value is None else f"{value:.3f}" for value in values]
        table.add_row(str(row["id"]), row["given_label"], row["suggested_label"], *cells)
    return table


def as_json(title: str, folder: RunFolder) -> dict[str, Any]:
    """A run for programs."""
    return {
        "title": title,
        "run": str(folder.path),
        "done": folder.done,
        "spec": folder.spec.model_dump(mode="json"),
        "summary": folder.read_json("summary.json"),
    }
