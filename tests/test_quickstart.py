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


NUMBER = r"\d+(?:\.\d+)?"


def tidy(line):
    """A line without what a training decides: the better model, and the order of counts."""
    line = re.sub(r"Handed over: .*?; of", "Handed over: …; of", " ".join(line.split()))
    head, colon, counts = line.partition(" predicted: ")
    return head + colon + ", ".join(sorted(counts.split(", "), key=lambda count: count.split()[1:]))


def is_near(number, other):
    """Whether two numbers are of the same size: at most ten, or a quarter, apart."""
    return abs(float(number) - float(other)) <= max(10, float(number) / 4)


def is_alike(line, other):
    """Whether a printed line is what the page shows: … is anything, a number is near its own.

    Which rows come first in a table, and with which digits, is left to the training.
    """
    edge = line.strip()[:1]
    if edge in ("│", "┃"):
        return other.count(edge) == line.count(edge)
    if not re.search(r"[^\W\d]", line):  # a row of numbers
        return len(re.findall(NUMBER, other)) == len(line.split()) == len(other.split())
    words = re.split(f"(…|{NUMBER})", tidy(line))
    forms = {"…": ".*"} | {word: f"({NUMBER})" for word in words if re.fullmatch(NUMBER, word)}
    match = re.fullmatch("".join(forms.get(word, re.escape(word)) for word in words), tidy(other))
    return match is not None and all(map(is_near, re.findall(NUMBER, tidy(line)), match.groups()))


def is_printed(line, printed):
    """Whether a line of the page is among the lines printed."""
    return any(is_alike(line, other) for other in printed.splitlines())


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
    assert list(kinds) == ["Photographs", "A table", "Sentences", "Your own model"]
    assert all("text" in each and "python" in each for each in kinds.values())
    assert "ulc report" in PAGE


def test_a_line_that_is_not_printed_is_noticed():
    assert is_printed("180 labels of …/photos: 12", "a\n180 labels  of /tmp/photos: 13")
    assert not is_printed("180 labels of …/photos", "180 labels of /tmp/photos: 13")
    assert not is_printed("│ a │ b │", "│ a │ b │ c │")
    assert is_printed("  376  0.0  1  5", "12 0.1 7 0")
    assert not is_printed("  376  0.0  1  5", "12 0.1 7")


def test_a_number_of_another_size_is_noticed():
    shown = "180 labels of …/photos: 16 look wrong"
    assert is_printed(shown, "180 labels of /tmp/photos: 12 look wrong")
    assert not is_printed(shown, "180 labels of /tmp/photos: 0 look wrong")
    assert not is_printed(shown, "60 labels of /tmp/photos: 16 look wrong")


def test_counts_may_come_in_any_order_but_each_is_there():
    shown = "new.csv: 30 rows predicted: 11 bag, 10 hand bag, 9 shoe"
    assert is_printed(shown, "new.csv: 30 rows predicted: 12 shoe, 9 bag, 9 hand bag")
    assert not is_printed(shown, "new.csv: 30 rows predicted: 15 bag, 15 shoe")
    assert not is_printed(shown, "new.csv: 30 rows predicted: 11 bag, 10 coat, 9 shoe")
    assert not is_printed(shown, "new.csv: 30 rows predicted: 28 bag, 1 hand bag, 1 shoe")


@pytest.mark.slow
def test_photographs(ulc, capsys):
    names = walk("Photographs", ulc, capsys)
    decided = pd.read_csv("photos.corrected.csv")
    shown = decided["image"].str.extract(r"(\w+)-\d+\.png$")[0]
    issues = names["issues"]
    assert (issues["label"] != issues["given_label"]).mean() > 0.8
    assert (decided["label"] != shown).sum() <= 18 - 6
    assert decided["verified"].sum() == len(names["issues"])
    (again,) = Path("audits").glob("photos.corrected-audit-*")
    judged = pd.read_csv(again / "labels.csv").set_index("id")
    assert not judged["is_label_issue"][issues["id"]].any()  # somebody looked at these
    predicted = pd.read_csv("predictions.csv")
    right = predicted["id"].str.extract(r"(\w+)-\d+\.png$")[0] == predicted["predicted_label"]
    assert len(predicted) == 30
    assert right.mean() > 0.8


@pytest.mark.slow
def test_a_table(ulc, capsys):
    names = walk("A table", ulc, capsys)
    assert (names["corrected"] != names["true"]).sum() <= 9  # of 18
    predicted = pd.read_csv("predictions.csv").set_index("id")["predicted_label"]
    assert (predicted == names["true"]).mean() > 0.8


@pytest.mark.slow
def test_sentences(ulc, capsys):
    names = walk("Sentences", ulc, capsys)
    predicted = pd.read_csv("predictions.csv")["predicted_label"]
    assert (predicted == names["names"][names["true"][:20]]).mean() > 0.8
    assert names["issues"]["is_label_issue"].all()


@pytest.mark.slow
def test_your_own_model(ulc, capsys):
    names = walk("Your own model", ulc, capsys)
    for table in (names["issues"], names["found"]):
        flagged = table["is_label_issue"].to_numpy()
        assert flagged[names["wrong"]].mean() > 0.6
        assert flagged[~names["wrong"]].mean() < 0.1
