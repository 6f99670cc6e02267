"""What is said about data before anything is trained."""

from pathlib import Path

import pandas as pd
import pytest

from ulc.config import DataSpec, RunSpec
from ulc.data.sources import load_source
from ulc.errors import InputError
from ulc.training.loop import TrainingProgress
from ulc.training.run import run


def load(content, **options):
    Path("data.csv").write_text(content, encoding="utf-8")
    return load_source(DataSpec(source="table", path="data.csv", **options))


def with_labels(*labels, rows=60):
    """A table whose rows differ, with these labels in turn."""
    lines = [f'"{labels[row % len(labels)]}",{row}' for row in range(rows)]
    return "\n".join(["label,a", *lines])


def warned(*labels, rows=60):
    return load(with_labels(*labels, rows=rows)).warnings


def test_sound_data_give_no_warning():
    assert warned("x", "y") == ()
    assert warned("Baden, Schweiz", "Baden, Wien", "Bern") == ()
    assert warned("t-shirt/top", "dress (long)", "K0; old") == ()


def test_few_rows_are_said():
    assert warned("x", "y", rows=6) == (
        "only 6 rows: too few to judge labels by; scores mean little",
    )


@pytest.mark.parametrize(("classes", "few"), [(12, False), (15, True)])
def test_few_rows_for_so_many_classes_are_said(classes, few):
    """60 rows are five for each of 12 classes, and four for each of 15."""
    sentence = "only 60 rows for 15 classes: too few to judge labels by; scores mean little"
    assert warned(*map(str, range(classes))) == ((sentence,) if few else ())


def test_a_class_of_one_row_is_named():
    (said,) = load(with_labels("x", "y") + "\nz,99\n").warnings
    assert said == "1 class has a single row ('z'): nothing can be learned about it"


@pytest.mark.parametrize(
    "labels",
    [("cat;dog", "dog", "cat"), ("['cat', 'dog']", "['dog']"), ("cat|dog", "dog|cow", "cow|cat")],
)
def test_labels_that_look_like_lists_are_named(labels):
    (said,) = warned(*labels)
    assert f"labels such as '{labels[0]}'" in said
    assert "a row has one class" in said


def test_names_that_differ_only_in_case_are_named():
    (said,) = warned("K0", "k0", "k1")
    assert said.startswith("the classes 'K0' and 'k0' differ only in upper and lower case")
    assert "'New York' and 'new york'" in warned("New York", "new york")[0]


def test_copies_with_different_labels_are_counted():
    text = with_labels("x", "y") + "\nx,70\ny,70\nx,71\nx,71\n"
    (said,) = load(text).warnings
    assert said == ("2 rows are copies of one another with different labels ('60' is x, '61' is y)")


def test_two_rows_of_the_same_id_are_refused_before_training():
    with pytest.raises(InputError, match=r"data.csv: rows 1 and 3 have the same id 'p'; give each"):
        load("id,label,a\np,x,1\nq,y,2\np,x,3\n")


def test_columns_are_said_with_their_kind_and_the_reason_why_not():
    text = "label,a,b,c,d,e\n" + "".join(
        f"{'xy'[i % 2]},{i if i % 3 else ''},{word},1,n{i},This is {3 * word} number {i}\n"
        for i, word in enumerate("uvw" * 20)
    )
    used, left = load(text).notes
    assert used == "columns used: a (number, with gaps), b (category of 3 levels)"
    assert left == (
        "columns not used: c (constant), d (an identifier (every value is different)), "
        "e (sentences; learn from them with --text e)"
    )
    used, left = load(text, text="e").notes
    assert used == "columns used: e (sentences; --text)"
    assert left == "columns not used: a, b, c, d (only the sentences are learned from)"
    rows = [f"{'xy'[i % 2]},This is {'pqr'[i % 3] * 3} number {i}\n" for i in range(60)]
    found = load("label,e\n" + "".join(rows))
    assert found.notes == (
        "columns used: e (sentences; looks like text, and no other column can be used)",
    )


def test_a_training_says_notes_and_warnings_before_its_first_step():
    said = []

    class Told(TrainingProgress):
        def on_note(self, note):
            said.append(note)

        def on_step(self, epoch, averages):
            assert len(said) == 2

    Path("data.csv").write_text(with_labels("x", "y", rows=20))
    data = DataSpec(source="table", path="data.csv")
    folder = run(RunSpec(data=data, algorithm="ce", epochs=1), Path("runs"), progress=Told())
    assert said[0] == "columns used: a (number)"
    assert said[1].startswith("Warning: only 20 rows")
    assert folder.read_json("data.json")["warnings"] == [said[1].removeprefix("Warning: ")]


def test_the_command_prints_them_once_for_all_trainings(ulc):
    pd.DataFrame({"label": ["x", "y"] * 10, "a": range(20)}).to_csv("data.csv", index=False)
    code, printed = ulc("train", "data.csv", "-a", "ce", "--epochs", "1")
    assert code == 0, printed.err
    assert printed.err.count("columns used: a (number)") == 1
    assert printed.err.count("Warning: only 20 rows") == 1
