"""Messages of errors: one line each."""

import pickle

import pytest

from ulc.config import DataSpec
from ulc.data.sources import load_source
from ulc.errors import InputError, first_line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one sentence"), "one sentence"),
        (ValueError("first\nsecond"), "first"),
        (ValueError("\n  \nsecond"), "second"),
        (ValueError(), "ValueError"),
        (KeyError("name"), "'name'"),
    ],
)
def test_the_first_line_with_words_or_else_the_class(error, line):
    assert first_line(error) == line


def test_a_name_with_line_breaks_leaves_the_message_of_a_mistake_on_one_line():
    message = str(InputError("no column is called 'unit\nprice\r\nnet'; add it"))
    assert message == r"no column is called 'unit\nprice\nnet'; add it"
    copied = pickle.loads(pickle.dumps(InputError("one\ntwo")))  # on its way from another process
    assert str(copied) == r"one\ntwo"
    assert str(InputError(KeyError("name"))) == "'name'"


def test_a_table_whose_header_has_a_line_break_is_refused_in_one_line(tmp_path):
    path = tmp_path / "sheet.csv"
    path.write_text('"unit\nprice",kind\n1,a\n2,b\n')
    with pytest.raises(InputError, match=r"columns: unit\\nprice, kind") as caught:
        load_source(DataSpec(source="table", path=str(path)))
    assert "\n" not in str(caught.value)
