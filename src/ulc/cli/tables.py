"""Results of runs as tables for people and as JSON for programs."""

import csv
import io
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from ulc.cli.screen import cell
from ulc.experiments.tables import nested_value
from ulc.labels.judgement import Judgement
from ulc.labels.review import NAME as REVIEW_FILE
from ulc.labels.review import Review, review_columns
from ulc.labels.table import as_rows, label_rows
from ulc.storage.files import check_output_file, write_whole
from ulc.storage.run_folder import RunFolder
from ulc.training.placing import first_folder

MOST_REVIEWED = 30  # rows of a review on the screen; its file holds all
MOST_WARNINGS = 5  # collapsed classes that are named
# Title of the row, and the keys that lead to its number in summary.json.
ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("training prior: all", ("training", "last", "accuracy")),
    ("  small classes", ("training", "last", "small_accuracy")),
    ("  large classes", ("training", "last", "large_accuracy")),
    ("balanced prior: all", ("balanced", "last", "accuracy")),
    ("  small classes", ("balanced", "last", "small_accuracy")),
    ("  large classes", ("balanced", "last", "large_accuracy")),
    ("wrong labels: AUC", ("labels", "auc")),
    ("  precision", ("labels", "precision")),
    ("  recall", ("labels", "recall")),
)


def remarks(folder: RunFolder) -> list[str]:
    """Lines below a finished run: other data in the folder beside it, classes that collapsed."""
    return [*other_data_lines(folder), *collapse_lines(folder)]


def other_data_lines(folder: RunFolder) -> list[str]:
    """One line if the folder lies beside a run of the same settings on other data; else none."""
    first = first_folder(folder.path)
    if first == folder.path.absolute() or not first.is_dir():
        return []
    return [
        f"The data have changed: {folder.path.with_name(first.name)} is of other data, and stays."
    ]


def collapse_lines(folder: RunFolder) -> list[str]:
    """A warning about classes that hardly any training row is predicted as; else none."""
    classes = folder.read_json("health.json")["classes"]
    return [
        f"Warning: hardly any training row is predicted as '{each['class']}' ({each['predicted']} "
        f"of {sum(other['size'] for other in classes)}, although {each['size']} labels name it): "
        "the class has collapsed there. Do not rely on the scores of its labels."
        for each in classes
        if each.get("collapsed")
    ][:MOST_WARNINGS]


def result_table(runs: Mapping[str, RunFolder]) -> Table:
    """Accuracy with both priors, and scores of finding wrong labels; one column for each run."""
    table = Table("%", title="Test accuracy, and detection of wrong labels", title_justify="left")
    summaries = []
    for title, folder in runs.items():
        table.add_column(cell(title), justify="right")
        summaries.append(folder.read_json("summary.json"))
    for place, (name, keys) in enumerate(ROWS):
        cells = [percent(nested_value(summary, keys)) for summary in summaries]
        table.add_row(name, *cells, end_section=place in (2, 5))
    return table


def percent(value: float | None) -> str:
    """A share in % with one decimal; a dash for None."""
    return "–" if value is None else f"{100 * value:.1f}"


def suspects_table(folder: RunFolder, most: int) -> Table:
    """The `most` most suspicious labels of a finished run."""
    names, judgement = folder.read_json("data.json")["class_names"], folder.judgement
    title = f"Most suspicious labels (score: {judgement.score_kind})"
    ids = folder.ids
    if ids is not None and len(ids) != len(judgement.given):
        raise folder.damaged("ids.json", ValueError(f"{len(ids)} ids, not {len(judgement.given)}"))
    rows = label_rows(judgement, names, folder.threshold, ids)
    return labels_table(title, judgement, islice(rows, most))


def review_table(folder: RunFolder, review: Review) -> Table:
    """The first labels of a review."""
    judgement = folder.judgement
    title = f"Labels with the lowest scores (score: {judgement.score_kind})"
    rows = as_rows(review_columns(folder, review))
    return labels_table(title, judgement, islice(rows, MOST_REVIEWED))


def review_lines(folder: RunFolder, review: Review) -> list[str]:
    """How many errors to expect in a review, and its file."""
    count = len(review.rows)
    return [
        f"Of the {count} labels with the lowest scores, about {review.errors:.0f} are expected to "
        "be wrong (the sum of 1 − score).",
        f"All {count} of them:".ljust(35) + str(folder.path / REVIEW_FILE),
    ]


def describe_review(folder: RunFolder, review: Review) -> dict[str, Any]:
    """A review for `--json`."""
    return {
        "labels": len(review.rows),
        "expected_errors": round(review.errors, 6),
        "file": str(folder.path / REVIEW_FILE),
    }


def labels_table(title: str, judgement: Judgement, rows: Iterable[Mapping[str, Any]]) -> Table:
    """A table of rows of labels.csv, without columns that the judgement does not estimate."""
    table = Table(title=title, title_justify="left")
    numbers = {"score": "label_score", "epistemic": "epistemic", "aleatoric": "aleatoric"}
    for name in ("epistemic", "aleatoric"):
        if np.isnan(getattr(judgement, name)).all():  # the algorithm does not estimate it
            del numbers[name]
    for name in ("id", "given", "suggested", *numbers):
        table.add_column(name, justify="left" if name in ("given", "suggested") else "right")
    for row in rows:
        values = [row[name] for name in numbers.values()]
        cells = ["–" if value is None else f"{value:.3f}" for value in values]
        names_of_row = map(cell, (str(row["id"]), row["given_label"], row["suggested_label"]))
        table.add_row(*names_of_row, *cells)
    return table


def health_tables(folder: RunFolder, most: int = 5) -> list[Table | str]:
    """A summary of health.json: worst classes, confused pairs, copies, almost equal pictures.

    most: largest number of classes and of pairs
    """
    content = folder.read_json("health.json")
    shown: list[Table | str] = [
        f"{content['issues']} of {content['labels']} labels are issues "
        f"({percent(content['issue_share'])} %); expected wrong: "
        f"{percent(content['expected_wrong_share'])} %."
    ]
    worst = sorted(content["classes"], key=lambda each: -each["issues"])[:most]
    if content["issues"]:
        shown += [classes_table(worst), pairs_table(content["confused_pairs"][:most])]
    copies = content.get("duplicates")
    if copies and copies["rows"]:
        shown.append(
            f"{copies['rows']} rows have exact copies; in {copies['conflicts']} of "
            f"{copies['groups']} groups of copies the labels differ (health.json)."
        )
    near = content.get("near_pictures")
    if near and near["rows"]:
        shown.append(
            f"{near['rows']} pictures are almost the same as another one; in {near['conflicts']} "
            f"of {near['groups']} groups of them the labels differ (health.json)."
        )
    poor = (content.get("poor_pictures") or {}).get("kinds", [])
    if any(each["rows"] for each in poor):
        kinds = ", ".join(f"{each['rows']} {each['kind']}" for each in poor if each["rows"])
        shown.append(f"Pictures that look poor to cleanvision: {kinds} (health.json).")
    return shown


def classes_table(classes: list[dict[str, Any]]) -> Table:
    """A table of the records of classes in health.json."""
    table = Table("class", title="Classes with most issues", title_justify="left")
    for name in ("labels", "issues", "issues %", "expected wrong %"):
        table.add_column(name, justify="right")
    table.add_column("most suggested")
    for each in classes:
        shares = [percent(each["issue_share"]), percent(each["expected_wrong_share"])]
        counts = [str(each["size"]), str(each["issues"])]
        table.add_row(cell(each["class"]), *counts, *shares, cell(each["most_suggested"] or "–"))
    return table


def pairs_table(pairs: list[dict[str, Any]]) -> Table:
    """A table of the confused pairs in health.json."""
    table = Table("given", "suggested", title="Most confused classes", title_justify="left")
    table.add_column("issues", justify="right")
    for each in pairs:
        table.add_row(cell(each["given"]), cell(each["suggested"]), str(each["count"]))
    return table


def write_spreadsheet(folder: RunFolder, path: Path) -> None:
    """Write a copy of labels.csv in which no cell is a formula for a spreadsheet program."""
    check_output_file("--spreadsheet", path, endings=[".csv"])
    rows = csv.reader(io.StringIO(folder.read("labels.csv").decode(errors="replace"), newline=""))
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([guard(text) for text in row] for row in rows)
    write_whole(path, buffer.getvalue().encode())


def guard(text: str) -> str:
    """Return a cell with a ' before it if a spreadsheet would compute it; numbers stay numbers."""
    if not text.startswith(("=", "+", "-", "@", "\t", "\r")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def as_json(title: str, folder: RunFolder) -> dict[str, Any]:
    """Title, path, spec and summary of a run, as JSON types."""
    return {
        "title": title,
        "run": str(folder.path),
        "done": folder.done,
        "spec": folder.spec.model_dump(mode="json"),
        "summary": folder.read_json("summary.json"),
    }
