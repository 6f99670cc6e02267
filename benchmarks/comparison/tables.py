"""From measured cells to Markdown: mean ± standard deviation over seeds."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.comparison.settings import IMBALANCE_TITLES, NOISE_TITLES, SETTINGS
from ulc.experiments.tables import at, cell

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
}
PRIORS = {"training": "training prior", "balanced": "balanced prior"}


def all_tables(cells: Sequence[Cell]) -> str:
    """Every table with its heading."""
    parts = [
        ("Finding wrong labels", finding_table(cells)),
        ("Finding wrong labels at 1:10: small and large classes", group_table(cells)),
        *(
            (f"Accuracy on the test set, {title}", accuracy_table(cells, prior))
            for prior, title in PRIORS.items()
        ),
        ("Processor seconds, one thread", time_table(cells)),
    ]
    return "\n\n".join(f"### {title}\n\n{table}" for title, table in parts) + "\n"


def finding_table(cells: Sequence[Cell]) -> str:
    """A row a setting and method, over all labels; in %."""
    rows = []
    for setting, method, found in by_method(cells):
        share = cell(numbers(found, "finding", "wrong"))
        values = [cell(numbers(found, "finding", key)) for key in MEASURES.values()]
        rows.append([title_of(setting), share, METHOD_TITLES[method], str(len(found)), *values])
    return markdown(["setting", "wrong", "method", "n", *MEASURES], rows)


def group_table(cells: Sequence[Cell]) -> str:
    """The same for labels of small and of large classes, where there are both; in %."""
    rows = []
    for setting, method, found in by_method(cells):
        if not setting.startswith("balanced"):
            values = [
                cell(numbers(found, "finding", group, key))
                for key in MEASURES.values()
                for group in ("small", "large")
            ]
            rows.append([title_of(setting), METHOD_TITLES[method], *values])
    heads = [f"{name}, {group}" for name in MEASURES for group in ("small", "large")]
    return markdown(["setting", "method", *heads], rows)


def accuracy_table(cells: Sequence[Cell], prior: str) -> str:
    """A row a setting, in %; differences are taken seed by seed, the worst row's is marked."""
    rows, means = [], []
    for setting in settings_of(cells):
        audits = of(cells, setting, "audit")
        plain = of(cells, setting, "plain")
        gains = differences(audits, plain, prior)
        means.append(float(np.mean(gains)) if gains else np.inf)
        row = [title_of(setting), accuracy(plain, prior), accuracy(audits, prior)]
        row += [gain(gains), f"{min(gains):+.1f}" if gains else "–", handed_over(audits)]
        for method in ("cleanlab-lr", "cleanlab-mlp"):
            pruned = of(cells, setting, method)
            row += [accuracy(pruned, prior), gain(pruning_gains(pruned, prior))]
        rows.append(row)
    mark_worst(rows, means, column=3)
    heads = ["setting", "plain", "ulc audit", "− plain", "worst seed", "handed over"]
    heads += ["cleanlab, LR", "− unpruned LR", "cleanlab, MLP", "− unpruned MLP"]
    return markdown(heads, rows)


def time_table(cells: Sequence[Cell]) -> str:
    """A row a setting."""
    rows = []
    for setting in settings_of(cells):
        seconds = [numbers(of(cells, setting, method), "seconds") for method in METHOD_TITLES]
        # `cell` writes percentages.
        rows.append([title_of(setting), *(cell([each / 100 for each in row]) for row in seconds)])
    return markdown(["setting", *METHOD_TITLES.values()], rows)


def by_method(cells: Sequence[Cell]) -> Iterator[tuple[str, str, list[Cell]]]:
    """Setting, method and its cells, for methods that look for wrong labels."""
    for setting in settings_of(cells):
        for method in FINDERS:
            found = of(cells, setting, method)
            if found:
                yield setting, method, found


def settings_of(cells: Sequence[Cell]) -> list[str]:
    """The settings there are, in order."""
    there = {each["setting"] for each in cells}
    return [setting for setting in SETTINGS if setting in there]


def of(cells: Sequence[Cell], setting: str, method: str) -> list[Cell]:
    """The cells of one setting and method, by seed."""
    chosen = [each for each in cells if (each["setting"], each["method"]) == (setting, method)]
    return sorted(chosen, key=lambda each: each["seed"])


def numbers(cells: Sequence[Cell], *way: str) -> list[float]:
    """What lies at the end of the way, in the cells that have it."""
    found = (at(each, way) for each in cells)
    return [each for each in found if each is not None]


def accuracy(cells: Sequence[Cell], prior: str) -> str:
    """Mean ± standard deviation of the model's accuracy."""
    return cell(numbers(cells, "model", prior, "accuracy"))


def differences(cells: Sequence[Cell], plain: Sequence[Cell], prior: str) -> list[float]:
    """Points of accuracy above plain training, of the seeds that have both."""
    way = ("model", prior, "accuracy")
    below = {each["seed"]: at(each, way) for each in plain}
    pairs = [(at(each, way), below.get(each["seed"])) for each in cells]
    return [100 * (one - other) for one, other in pairs if one is not None and other is not None]


def pruning_gains(cells: Sequence[Cell], prior: str) -> list[float]:
    """Points of accuracy above the same classifier fitted on all rows."""
    kinds = (numbers(cells, kind, prior, "accuracy") for kind in ("model", "unpruned"))
    return [100 * (pruned - before) for pruned, before in zip(*kinds, strict=True)]


def gain(points: Sequence[float]) -> str:
    """Mean ± standard deviation of differences, with their sign."""
    if not points:
        return "–"
    deviation = f" ± {np.std(points, ddof=1):.1f}" if len(points) > 1 else ""
    return f"{np.mean(points):+.1f}{deviation}"


def handed_over(audits: Sequence[Cell]) -> str:
    """How often which model was handed over."""
    names = [each["handed_over"] for each in audits]
    return (
        ", ".join(f"{name} {names.count(name)}/{len(names)}" for name in sorted(set(names))) or "–"
    )


def mark_worst(rows: list[list[str]], means: Sequence[float], *, column: int) -> None:
    """Make the smallest difference bold."""
    if means and min(means) < np.inf:
        row = rows[int(np.argmin(means))]
        row[column] = f"**{row[column]} (worst)**"


def title_of(setting: str) -> str:
    """For people."""
    imbalance, noise = setting.split("-")
    return f"{IMBALANCE_TITLES[imbalance]}, {NOISE_TITLES[noise]}"


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, or a word on there being nothing to show."""
    if not rows:
        return "Nothing measured yet."
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
