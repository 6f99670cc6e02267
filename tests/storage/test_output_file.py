"""The check of a file that a command is about to write."""

from pathlib import Path

import pytest

from ulc.errors import InputError
from ulc.storage.files import check_output_file


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("page.txt", "--out page.txt: let the name end in .csv or .tsv"),
        ("no/page.csv", "--out no/page.csv: there is no folder no; make it first"),
        ("folder.csv", "--out folder.csv: a folder; give the name of a file"),
        ("data.csv", "--out data.csv: these are the data themselves; rename it"),
        ("link.csv", "--out link.csv: these are the data themselves; rename it"),
    ],
)
def test_what_cannot_or_should_not_be_written_is_told_before(name, sentence):
    Path("folder.csv").mkdir()
    Path("data.csv").write_text("x")
    Path("link.csv").hardlink_to("data.csv")
    with pytest.raises(InputError) as caught:
        check_output_file(
            "--out",
            Path(name),
            endings=[".csv", ".tsv"],
            inputs={"the decisions": Path("missing.csv"), "the data": Path("data.csv")},
            remedy="rename it",
        )
    assert str(caught.value) == sentence


@pytest.mark.parametrize("name", ["new.csv", "NEW.CSV", "old.csv"])
def test_a_new_file_and_an_old_result_may_be_written(name):
    Path("old.csv").write_text("x")
    Path("data.csv").write_text("x")
    check_output_file("--out", Path(name), endings=[".csv"], inputs={"the data": Path("data.csv")})
