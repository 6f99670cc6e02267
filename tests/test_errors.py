"""The short form of an error."""

import pytest

from ulc.errors import first_line


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
