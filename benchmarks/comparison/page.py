"""Write docs/comparison.md, its chart, and the full tables as CSV files."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.comparison.settings import SETTINGS
from benchmarks.comparison.tables import FINDERS, METHOD_TITLES, Table, setting_title
from ulc.errors import InputError

FOLDER = Path(__file__).parents[1]
PAGE = FOLDER.parent / "docs" / "comparison.md"
RESULTS = FOLDER / "results"
SHORT_NOISES = (
    "symmetric0",
    "symmetric5",
    "symmetric20",
    "symmetric50",
    "by_class",
    "aggre",
    "worse",
)
MODELS = "<!-- models -->"  # place of their table in the notes
COLOURS = {"audit": "#4477aa", "cleanlab-lr": "#ddcc77", "cleanlab-mlp": "#cc6677", "plain": "#555"}
HEAD = """# Comparison with cleanlab

![Finding wrong labels, and accuracy of the model]({chart})

Mean over {seeds} seeds, in %. *Wrong / expected*: share of wrong labels, and the share that
`ulc audit` expects. AUC: area under the ROC curve of the label scores. *Correct flagged*:
share of the correct labels that are flagged. Accuracy: of the model on a balanced test set, under
the training prior. Three values are *ulc audit / cleanlab, LR / cleanlab, MLP*.

{table}

"""


def write_page(tables: dict[str, Table], page: Path, results: Path) -> None:
    """Write the page, its chart, and one CSV file for each table."""
    if not tables["finding"].rows or not tables["accuracy_training"].rows:
        raise InputError("--page needs measured cells of audit and cleanlab; measure some first")
    chart = page.with_suffix(".svg")
    draw_chart(tables, chart)
    seeds = max(row[tables["finding"].heads.index("n")] for row in tables["finding"].rows)
    notes = (Path(__file__).parent / "page_notes.md").read_text(encoding="utf-8")
    notes = notes.replace(MODELS, str(short_model_table(tables)))
    head = HEAD.format(chart=chart.name, seeds=seeds, table=short_table(tables))
    page.write_text(head + notes, encoding="utf-8")
    results.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        path = results / f"comparison_{name}.csv"
        path.write_text(table.csv(), encoding="utf-8")


def short_table(tables: dict[str, Table]) -> Table:
    """Return the main measures of the main settings, without standard deviations."""
    finding, accuracy = tables["finding"], tables["accuracy_training"]
    rows = []
    for setting in SETTINGS:
        title = setting_title(setting)
        if setting.split("-")[1] in SHORT_NOISES and title in measured_settings(finding):
            found = [
                " / ".join(mean_part(finding_cell(finding, title, each, name)) for each in FINDERS)
                for name in ("AUC", "recall", "correct flagged")
            ]
            share = mean_part(finding_cell(finding, title, "audit", "wrong"))
            expected = mean_part(finding_cell(finding, title, "audit", "expected wrong"))
            models = [METHOD_TITLES[each] for each in FINDERS]
            scores = [mean_part(accuracy.find(name, setting=title)) for name in models]
            plain = mean_part(accuracy.find("plain", setting=title))
            rows.append([title, f"{share} / {expected}", *found, " / ".join(scores), plain])
    heads = ["setting", "wrong / expected", "AUC", "recall", "correct flagged", "accuracy"]
    heads.append("plain training")
    return Table(heads, rows)


def short_model_table(tables: dict[str, Table]) -> Table:
    """Return the accuracies of our own models, and the lead of the audit's, in all settings."""
    kept = ["setting", "ulc audit", "plain", "plain, early stopping", "ULC", "audit − best"]
    places = [tables["models"].heads.index(each) for each in kept]
    return Table(kept, [[row[place] for place in places] for row in tables["models"].rows])


def draw_chart(tables: dict[str, Table], path: Path) -> None:
    """Draw a dot for each method: AUC on the left, accuracy on the right, a line a setting."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "ulc"  # the same figures give the same file
    from matplotlib import pyplot as plt

    finding, accuracy = tables["finding"], tables["accuracy_training"]
    titles = [
        title for title in map(setting_title, SETTINGS) if title in measured_settings(finding)
    ]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 0.9 + 0.27 * len(titles)), sharey=True)
    for method, title in METHOD_TITLES.items():
        column = "plain" if method == "plain" else title
        style = {"color": COLOURS[method], "label": title, "markersize": 6, "alpha": 0.85}
        draw_dots(right, [accuracy.find(column, setting=each) for each in titles], style)
        if method in FINDERS:
            cells = [finding_cell(finding, each, method, "AUC") for each in titles]
            draw_dots(left, cells, style)
    left.set_yticks(range(len(titles)), titles, fontsize=8)
    left.invert_yaxis()
    left.set_title("finding wrong labels: AUC, %", fontsize=10)
    right.set_title("accuracy of the model, training prior, %", fontsize=10)
    right.legend(fontsize=7, frameon=False, loc="lower left")
    for axes in (left, right):
        axes.grid(axis="y", linewidth=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def draw_dots(axes: object, cells: Sequence[str], style: dict[str, object]) -> None:
    """Draw the means of the cells that have a value."""
    dots = [(float(mean_part(cell)), place) for place, cell in enumerate(cells) if cell != "–"]
    if dots:
        axes.plot(*zip(*dots, strict=True), "o", **style)  # type: ignore[attr-defined]


def finding_cell(finding: Table, title: str, method: str, column: str) -> str:
    """Return a cell of the table of found labels."""
    return finding.find(column, setting=title, method=METHOD_TITLES[method])


def measured_settings(finding: Table) -> set[str]:
    """Return the titles of the measured settings."""
    return {row[0] for row in finding.rows}


def mean_part(cell: str) -> str:
    """Return the mean of a cell "mean ± standard deviation"."""
    return cell.replace("*", "").split(" ")[0]
