"""docs/quickstart.md, executed: every walk's blocks in order, and its output as it is shown."""

import re
import shlex
from glob import glob
from pathlib import Path

import pandas as pd
import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "quickstart.md").read_text(encoding="utf-8")
WALKS = {
    part.splitlines()[0]: re.findall(r"^```(python|sh|text)\n(.*?)^```", part, re.M | re.S)
    for part in re.split(r"^## ", PAGE, flags=re.M)[1:]
}


def form(text):
    """A line without what differs from machine to machine: numbers, and which model is better."""
    text = re.sub(r"\d+(\.\d+)?", "#", " ".join(text.split()))
    return re.sub(r"Handed over: .*?; of", "Handed over: …; of", text)


def is_printed(line, printed):
    """Whether a line of the page is among the lines printed; of a table's row only its shape."""
    edge = line.strip()[:1]
    if edge in ("│", "┃"):
        return any(other.count(edge) == line.count(edge) for other in printed.splitlines())
    pattern = ".*".join(map(re.escape, form(line).split("…")))
    return any(re.fullmatch(pattern, form(other)) for other in printed.splitlines())


def command(ulc, line):
    """Run a command as a shell would."""
    name, *words = shlex.split(line, comments=True)
    assert name == "ulc"
    expanded = [found for word in words for found in sorted(glob(word)) or [word]]  # noqa: PTH207
    code, printed = ulc(*expanded)
    assert code == 0, f"{line}: {printed.err}"
    return printed.out + printed.err


def walk(title, ulc, capsys):
    """Run a walk; return the variables that its Python has at the end."""
    names, printed = {}, ""
    for kind, content in WALKS[title]:
        if kind == "text":
            for line in content.splitlines():
                assert is_printed(line, printed), f"not printed: {line}\n\n{printed}"
        elif kind == "python":
            exec(compile(content, "quickstart.md", "exec"), names)
            printed = capsys.readouterr().out
        else:
            printed = "\n".join(command(ulc, line) for line in content.splitlines())
    return names


@pytest.fixture(autouse=True)
def _wide_screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")


def test_the_page_has_its_walks():
    kinds = {title: [kind for kind, _ in blocks] for title, blocks in WALKS.items()}
    assert list(kinds) == ["Photographs", "A table", "Your own model"]
    assert all("text" in each and "python" in each for each in kinds.values())
    assert "ulc report" in PAGE


def test_a_line_that_is_not_printed_is_noticed():
    assert is_printed("180 labels of …/photos: 12", "a\n180 labels  of /tmp/photos: 13")
    assert not is_printed("180 labels of …/photos", "180 labels of /tmp/photos: 13")
    assert not is_printed("│ a │ b │", "│ a │ b │ c │")


def test_photographs(ulc, capsys):
    names = walk("Photographs", ulc, capsys)
    decided = pd.read_csv("photos.corrected.csv")
    shown = decided["image"].str.extract(r"(\w+)-\d+\.png$")[0]
    assert len(names["issues"]) > 0
    assert (decided["label"] != shown).sum() <= 18 - 6
    assert decided["verified"].sum() == len(names["issues"])
    predicted = pd.read_csv("predictions.csv")
    right = predicted["id"].str.extract(r"(\w+)-\d+\.png$")[0] == predicted["predicted_label"]
    assert len(predicted) == 30
    assert right.mean() > 0.8


def test_a_table(ulc, capsys):
    names = walk("A table", ulc, capsys)
    assert (names["corrected"] != names["true"]).sum() <= 9  # of 18
    predicted = pd.read_csv("predictions.csv").set_index("id")["predicted_label"]
    assert (predicted == names["true"]).mean() > 0.8


def test_your_own_model(ulc, capsys):
    names = walk("Your own model", ulc, capsys)
    for table in (names["issues"], names["found"]):
        flagged = table["is_label_issue"].to_numpy()
        assert flagged[names["wrong"]].mean() > 0.6
        assert flagged[~names["wrong"]].mean() < 0.1
