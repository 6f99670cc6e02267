"""A folder of photographs with wrong labels: audit, look, decide, apply, audit again."""

import csv
import json
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from ulc.data.sources.fashion import load

PER_CLASS = 40
CLASSES = (1, 5, 8)  # trousers, sandals, bags: what a small network can tell from few pictures


def photographs(folder, wrong_in=8):
    """JPEGs of the embedded slice in class folders, every `wrong_in`-th in a wrong one."""
    source = load()
    truth = {}
    for place, label in enumerate(CLASSES):
        rows = (source.labels == label).nonzero()[0][:PER_CLASS]
        for number, row in enumerate(rows):
            moved = number % wrong_in == 0
            given = CLASSES[(place + 1) % len(CLASSES)] if moved else label
            path = folder / f"{source.class_names[given]} ☂" / f"{row}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(source.inputs[row, 0]).save(path, quality=95)
            truth[str(path.absolute())] = f"{source.class_names[label]} ☂"
    return truth


@pytest.mark.slow
def test_from_photographs_to_fewer_wrong_labels(ulc, tmp_path):
    """From the pixels; the quick start's test walks with pretrained features."""
    truth = photographs(tmp_path / "photos")
    wrong = {path for path, name in truth.items() if f"/{name}/" not in path}
    assert len(wrong) == len(CLASSES) * PER_CLASS // 8
    options = ("--embed", "none", "--json", "--epochs")

    code, printed = ulc("audit", "photos", *options, 16)  # for few pictures that is enough
    assert code == 0, printed.err
    first = json.loads(printed.out)
    table = pd.read_csv(f"{first['folder']}/labels.csv").set_index("id")
    assert set(table.index) == set(truth)
    health = json.loads(Path(first["folder"], "health.json").read_text())
    assert health["near_pictures"]["checked"] == len(truth)
    issues = table[table["is_label_issue"]]
    found = wrong & set(issues.index)
    assert len(found) >= 0.5 * len(wrong)
    assert len(found) / len(issues) >= 3 * len(wrong) / len(truth)  # by chance once

    # A person looks at each issue and knows better, be it so or so.
    with Path("decisions.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "decision", "label"])
        for path, row in issues.iterrows():
            decision = "accept" if row["suggested_label"] == truth[path] else "relabel"
            decision = "reject" if row["given_label"] == truth[path] else decision
            writer.writerow([path, decision, truth[path]])
    code, printed = ulc("apply", first["folder"], "decisions.csv", "--json")
    assert code == 0, printed.err
    applied = json.loads(printed.out)
    corrected = pd.read_csv(applied["out"])
    assert corrected["verified"].sum() == len(issues)
    assert applied["next_command"].startswith("ulc audit ")

    arguments = applied["next_command"].split()[2:]
    code, printed = ulc("audit", *arguments, *options, 8)
    assert code == 0, printed.err
    second = json.loads(printed.out)
    assert second["issues"] < first["issues"]
    again = pd.read_csv(f"{second['folder']}/labels.csv").set_index("id")
    assert not set(again.index[again["is_label_issue"]]) & set(issues.index)
    still_wrong = sum(again["given_label"][path] != name for path, name in truth.items())
    assert still_wrong == len(wrong) - len(found)

    code, printed = ulc("predict", second["folder"], "photos", "--json")
    assert code == 0, printed.err
