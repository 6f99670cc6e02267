"""From measured cells to tables: mean ± standard deviation over seeds."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.comparison.settings import IMBALANCE_TITLES, NOISE_TITLES, SETTINGS
from ulc.experiments.tables import mean_and_deviation, nested_value

Cell = dict[str, Any]
METHOD_TITLES = {
    "audit": "ulc audit",
    "cleanlab-lr": "cleanlab, LR",
    "cleanlab-mlp": "cleanlab, MLP",
    "plain": "plain training",
}
FINDERS = ("audit", "cleanlab-lr", "cleanlab-mlp")
MEASURES = {
    "AUC": "auc",
    "AP": "average_precision",
    "precision": "precision",
    "recall": "recall",
    "flagged": "flagged",
    "correct flagged": "correct_flagged",
    "expected wrong": "expected_wrong",
    "calibration error": "calibration_error",
}
PRIORS = ("training", "balanced")
TITLES = {
    "finding": "Finding wrong labels",
    "groups": "Finding wrong labels at 1:10: small and large classes",
    "accuracy_training": "Accuracy on the test set, training prior",
    "accuracy_balanced": "Accuracy on the test set, balanced prior",
    "seconds": "Processor seconds, one thread",
    "models": "Accuracy of models of our own, better prior",
}
MODELS = ("audit", "plain", "plain-stopped", "ulc")  # the first is compared with the others


@dataclass(frozen=True)
class Table:
    """Text cells under their headings."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        """Return the table as Markdown."""
        if not self.rows:
            return "Nothing measured yet."
        lines = [self.heads, ["---"] * len(self.heads), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def csv(self) -> str:
        """Return the table as CSV, without the marks of bold text."""
        text = io.StringIO()
        plain = [[cell.replace("*", "") for cell in row] for row in self.rows]
        csv.writer(text, lineterminator="\n").writerows([self.heads, *plain])
        return text.getvalue()

    def find(self, column: str, **wanted: str) -> str:
        """Return the cell of a column in the row with these values; "–": no such row."""
        for row in self.rows:
            named = dict(zip(self.heads, row, strict=True))
            if all(named[name] == value for name, value in wanted.items()):
                return named[column]
        return "–"


def make_tables(cells: Sequence[Cell]) -> dict[str, Table]:
    """Return every table by its name."""
    return {
        "finding": finding_table(cells),
        "groups": group_table(cells),
        **{f"accuracy_{prior}": accuracy_table(cells, prior) for prior in PRIORS},
        "seconds": time_table(cells),
        "models": model_table(cells),
    }


def format_tables(tables: dict[str, Table]) -> str:
    """Return all tables as Markdown with headings."""
    return "\n\n".join(f"### {TITLES[name]}\n\n{table}" for name, table in tables.items()) + "\n"


def finding_table(cells: Sequence[Cell]) -> Table:
    """One row for each setting and method, over all labels; in %."""
    rows = []
    for setting, method, found in iterate_finders(cells):
        share = mean_and_deviation(collect_values(found, "finding", "wrong"))
        values = [
            mean_and_deviation(collect_values(found, "finding", key)) for key in MEASURES.values()
        ]
        rows.append(
            [setting_title(setting), share, METHOD_TITLES[method], str(len(found)), *values]
        )
    return Table(["setting", "wrong", "method", "n", *MEASURES], rows)


def group_table(cells: Sequence[Cell]) -> Table:
    """The same for labels of small and large classes, in settings that have both; in %."""
    rows = []
    for setting, method, found in iterate_finders(cells):
        if not setting.startswith("balanced"):
            values = [
                mean_and_deviation(collect_values(found, "finding", group, key))
                for key in MEASURES.values()
                for group in ("small", "large")
            ]
            rows.append([setting_title(setting), METHOD_TITLES[method], *values])
    heads = [f"{name}, {group}" for name in MEASURES for group in ("small", "large")]
    return Table(["setting", "method", *heads], rows)


def accuracy_table(cells: Sequence[Cell], prior: str) -> Table:
    """One row for each setting, in %; differences are seed by seed, the smallest mean is bold."""
    rows, means = [], []
    for setting in list_settings(cells):
        audits = select_cells(cells, setting, "audit")
        plain = select_cells(cells, setting, "plain")
        gains = gains_over_plain(audits, plain, prior)
        means.append(float(np.mean(gains)) if gains else np.inf)
        row = [setting_title(setting), mean_accuracy(plain, prior), mean_accuracy(audits, prior)]
        row += [
            format_gain(gains),
            f"{min(gains):+.1f}" if gains else "–",
            count_handed_over(audits),
        ]
        for method in ("cleanlab-lr", "cleanlab-mlp"):
            pruned = select_cells(cells, setting, method)
            row += [mean_accuracy(pruned, prior), format_gain(pruning_gains(pruned, prior))]
        rows.append(row)
    mark_worst(rows, means, column=3)
    heads = ["setting", "plain", "ulc audit", "− plain", "worst seed", "handed over"]
    heads += ["cleanlab, LR", "− unpruned LR", "cleanlab, MLP", "− unpruned MLP"]
    return Table(heads, rows)


def model_table(cells: Sequence[Cell]) -> Table:
    """The model of the audit beside models of other trainings of the same length, in %.

    Each under its better prior in the setting. The differences to the audit are in points: to the
    best of the others in the mean over seeds, and to each other one in the worst seed.
    """
    rows = []
    for setting in list_settings(cells):
        best = {method: better_prior(select_cells(cells, setting, method)) for method in MODELS}
        if not all(best.values()):
            continue
        means = {method: float(np.mean(list(values.values()))) for method, values in best.items()}
        audits = best["audit"]
        worst = [
            min(audits[seed] - values[seed] for seed in audits if seed in values)
            for values in (best[method] for method in MODELS[1:])
        ]
        lead = means["audit"] - max(means[method] for method in MODELS[1:])
        row = [setting_title(setting), str(len(audits))]
        row += [mean_and_deviation(list(best[method].values())) for method in MODELS]
        row += [f"{100 * lead:+.1f}", *(f"{100 * each:+.1f}" for each in worst)]
        corrected = better_prior(select_cells(cells, setting, "plain-corrected"))
        rows.append([*row, mean_and_deviation(list(corrected.values()))])
    titles = ["ulc audit", "plain", "plain, early stopping", "ULC"]
    heads = ["setting", "n", *titles, "audit − best", *(f"worst seed: − {t}" for t in titles[1:])]
    heads.append("plain, labels that the audit believes")
    return Table(heads, rows)


def better_prior(cells: Sequence[Cell]) -> dict[int, float]:
    """Return the accuracies by seed, under the prior with the higher mean."""
    by_prior = [
        {each["seed"]: nested_value(each, ("model", prior, "accuracy")) for each in cells}
        for prior in PRIORS
    ]
    known = [found for found in by_prior if found and None not in found.values()]
    return max(known, key=lambda found: np.mean(list(found.values())), default={})


def time_table(cells: Sequence[Cell]) -> Table:
    """One row for each setting."""
    rows = []
    for setting in list_settings(cells):
        seconds = [
            collect_values(select_cells(cells, setting, method), "seconds")
            for method in METHOD_TITLES
        ]
        # `mean_and_deviation` multiplies by 100.
        rows.append(
            [
                setting_title(setting),
                *(mean_and_deviation([each / 100 for each in row]) for row in seconds),
            ]
        )
    return Table(["setting", *METHOD_TITLES.values()], rows)


def iterate_finders(cells: Sequence[Cell]) -> Iterator[tuple[str, str, list[Cell]]]:
    """Yield setting, method and cells of the methods that find wrong labels."""
    for setting in list_settings(cells):
        for method in FINDERS:
            found = select_cells(cells, setting, method)
            if found:
                yield setting, method, found


def list_settings(cells: Sequence[Cell]) -> list[str]:
    """List the measured settings in their order."""
    there = {each["setting"] for each in cells}
    return [setting for setting in SETTINGS if setting in there]


def select_cells(cells: Sequence[Cell], setting: str, method: str) -> list[Cell]:
    """Return the cells of one setting and method, ordered by seed."""
    chosen = [each for each in cells if (each["setting"], each["method"]) == (setting, method)]
    return sorted(chosen, key=lambda each: each["seed"])


def collect_values(cells: Sequence[Cell], *keys: str) -> list[float]:
    """Return the values at these keys, of the cells that have them."""
    found = (nested_value(each, keys) for each in cells)
    return [each for each in found if each is not None]


def mean_accuracy(cells: Sequence[Cell], prior: str) -> str:
    """Format mean ± standard deviation of the model's accuracy."""
    return mean_and_deviation(collect_values(cells, "model", prior, "accuracy"))


def gains_over_plain(cells: Sequence[Cell], plain: Sequence[Cell], prior: str) -> list[float]:
    """Return points of accuracy above plain training, for seeds that have both."""
    keys = ("model", prior, "accuracy")
    below = {each["seed"]: nested_value(each, keys) for each in plain}
    pairs = [(nested_value(each, keys), below.get(each["seed"])) for each in cells]
    return [100 * (one - other) for one, other in pairs if one is not None and other is not None]


def pruning_gains(cells: Sequence[Cell], prior: str) -> list[float]:
    """Return points of accuracy above the same classifier fitted on all rows."""
    kinds = (collect_values(cells, kind, prior, "accuracy") for kind in ("model", "unpruned"))
    return [100 * (pruned - before) for pruned, before in zip(*kinds, strict=True)]


def format_gain(points: Sequence[float]) -> str:
    """Format mean ± standard deviation of differences, with their sign."""
    if not points:
        return "–"
    deviation = f" ± {np.std(points, ddof=1):.1f}" if len(points) > 1 else ""
    return f"{np.mean(points):+.1f}{deviation}"


def count_handed_over(audits: Sequence[Cell]) -> str:
    """Count how often each model was handed over."""
    names = [each["handed_over"] for each in audits]
    return (
        ", ".join(f"{name} {names.count(name)}/{len(names)}" for name in sorted(set(names))) or "–"
    )


def mark_worst(rows: list[list[str]], means: Sequence[float], *, column: int) -> None:
    """Make the smallest difference bold."""
    if means and min(means) < np.inf:
        row = rows[int(np.argmin(means))]
        row[column] = f"**{row[column]} (worst)**"


def setting_title(setting: str) -> str:
    """Return the setting's title."""
    imbalance, noise = setting.split("-")
    return f"{IMBALANCE_TITLES[imbalance]}, {NOISE_TITLES[noise]}"
