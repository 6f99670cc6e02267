"""The bound of memory for one file."""

import os
from pathlib import Path

import pytest

from ulc.errors import InputError
from ulc.storage import memory


@pytest.fixture
def _bound_of_100_bytes(monkeypatch):
    monkeypatch.setenv(memory.VARIABLE, "100")


@pytest.mark.usefixtures("_bound_of_100_bytes")
def test_what_reaches_the_bound_fits_and_one_byte_more_does_not():
    memory.check_memory(100, "x")
    with pytest.raises(InputError, match="x would take"):
        memory.check_memory(101, "x")


@pytest.mark.usefixtures("_bound_of_100_bytes")
def test_copies_of_a_file_count():
    Path("f").write_bytes(bytes(50))
    memory.check_file(Path("f"), copies=2)
    assert memory.read_file(Path("f")) == bytes(50)
    with pytest.raises(InputError, match="f would take"):
        memory.check_file(Path("f"), copies=3)
    Path("f").write_bytes(bytes(100))
    assert memory.read_file(Path("f")) == bytes(100)
    Path("f").write_bytes(bytes(101))
    with pytest.raises(InputError, match="f would take"):
        memory.read_file(Path("f"))


def test_a_folder_is_no_regular_file():
    with pytest.raises(OSError, match="no regular file"):
        memory.check_file(Path())


@pytest.mark.parametrize("error", [AttributeError, OSError, ValueError])
def test_where_the_system_does_not_tell_its_memory_it_counts_as_8_gb(monkeypatch, error):
    def unknown(_):
        raise error

    monkeypatch.setattr(os, "sysconf", unknown, raising=False)
    monkeypatch.delenv(memory.VARIABLE, raising=False)
    assert memory.machine_memory() == 8 * 2**30
    assert memory.memory_limit() == 4 * 2**30


def test_the_memory_is_that_of_all_pages(monkeypatch):
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1000}
    monkeypatch.setattr(os, "sysconf", pages.get, raising=False)
    assert memory.machine_memory() == 4_096_000


@pytest.mark.parametrize(
    ("text", "size"),
    [("7", 7), ("2kB", 2**11), ("1.5 MiB", 3 * 2**19), ("3g", 3 * 2**30), ("0.5TB", 2**39)],
)
def test_a_unit_is_1024_times_the_one_before(text, size):
    assert memory.parse_bytes(text, "X") == size


@pytest.mark.parametrize(
    ("count", "text"),
    [(2**30, "1.0 GB"), (2**30 - 1, "1024.0 MB"), (3 * 2**29, "1.5 GB"), (2**19, "0.5 MB")],
)
def test_bytes_are_shown_in_gb_from_one_gb_on(count, text):
    assert memory.show_bytes(count) == text


@pytest.mark.parametrize("size", [16 * 2**20, 16 * 2**20 + 1])
def test_a_file_of_a_run_folder_is_read_up_to_16_megabytes_whatever_the_bound(size, monkeypatch):
    monkeypatch.setenv(memory.VARIABLE, "1")
    with Path("f").open("wb") as stream:
        stream.truncate(size)
    if size == 16 * 2**20:
        assert len(memory.read_run_file(Path("f"))) == size
    else:
        with pytest.raises(InputError, match=r"f would take 16\.0 MB of memory"):
            memory.read_run_file(Path("f"))
