"""The digest of the files of data; None where it could not tell that the data are the same."""

import time
from pathlib import Path

import pytest

from ulc.config import DataSpec
from ulc.data.identity import digest_files, with_weights


@pytest.fixture
def later():
    """A time after which no file of the test changes."""
    return time.time() + 60


def table(**options):
    Path("rows.csv").write_text("a,b,label\n1,2,x\n3,4,y\n")
    return DataSpec(source="table", path="rows.csv", **options)


def test_a_file_that_is_changed_has_another_digest(later):
    data = table()
    before = digest_files(data, None, False, later)
    assert before is not None
    assert digest_files(data, None, False, later) == before
    with Path("rows.csv").open("a") as stream:
        stream.write("5,6,x\n")
    assert digest_files(data, None, False, later) not in (None, before)
    assert digest_files(data, None, False, time.time() - 60) is None  # it may change still


def test_files_that_may_lie_anywhere_are_not_known(later):
    Path("test.csv").write_text("a,b,label\n1,2,x\n")
    assert digest_files(table(test="test.csv"), None, False, later) is None
    assert digest_files(DataSpec(source="huggingface", path="."), None, False, later) is None


def test_images_that_no_column_lists_are_not_known(later):
    assert digest_files(table(), None, True, later) is None


def test_a_label_file_belongs_to_data_of_the_package(later):
    data = DataSpec(source="fashion")
    alone = digest_files(data, None, True, later)
    assert alone is not None
    Path("labels.json").write_text("[0]")
    assert digest_files(data, "labels.json", True, later) not in (None, alone)
    assert digest_files(data, "missing.json", True, later) is None


def test_a_file_of_initial_weights_belongs_to_the_files(later):
    data, weights = table(), Path("w.pth")
    alone = digest_files(data, None, False, later)
    assert digest_files(data, None, False, later, weights) is None
    weights.write_bytes(b"one")
    before = digest_files(data, None, False, later, weights)
    weights.write_bytes(b"other")
    assert len({alone, before, digest_files(data, None, False, later, weights)}) == 3


def test_only_a_readable_file_of_initial_weights_changes_the_content():
    assert with_weights("content", None) == "content"
    assert with_weights("content", Path("missing.pth")) == "content"
    Path("w.pth").write_bytes(b"one")
    one = with_weights("content", Path("w.pth"))
    Path("w.pth").write_bytes(b"two")
    assert len({"content", one, with_weights("content", Path("w.pth"))}) == 3


def test_other_files_do_not_belong_to_data_of_the_package(later):
    data = DataSpec(source="fashion")
    alone = digest_files(data, None, True, later)
    Path("runs").mkdir()
    Path("runs/notes.txt").write_text("of a run")
    assert digest_files(data, None, True, later) == alone
