"""Temporary files: those of killed processes go, those in use and the user's own stay."""

import subprocess
import sys
from pathlib import Path

import pytest

from ulc.storage import files
from ulc.storage.files import write_whole
from ulc.storage.temporary import hold, remove_temporaries, temporary_path


def leave(path):
    """Leave a temporary file of `path` behind, as a killed process does."""
    left = temporary_path(path)
    left.write_bytes(b"half")
    return left


def test_the_next_write_removes_what_killed_processes_left_of_the_same_file():
    left = [leave(Path("out.csv")) for _ in range(2)]
    write_whole(Path("out.csv"), b"whole")
    assert not any(path.exists() for path in left)
    assert [path.name for path in Path().iterdir()] == ["out.csv"]


@pytest.mark.parametrize(
    "name",
    [".out.csv.20261118", ".out.csv.swp", ".other.csv.0123abcd.part", "out.csv.0123abcd.part",
     ".out.csv.0123ABCD.part", ".out.csv.0123abcd.part.txt"],
)  # fmt: skip
def test_files_of_the_user_and_of_other_outputs_stay(name):
    Path(name).write_bytes(b"mine")
    write_whole(Path("out.csv"), b"whole")
    assert Path(name).read_bytes() == b"mine"


def test_a_folder_with_such_a_name_stays():
    temporary_path(Path("out.csv")).mkdir()
    write_whole(Path("out.csv"), b"whole")
    assert len(list(Path().iterdir())) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="no such locks")
def test_a_temporary_file_that_a_process_writes_stays():
    path = temporary_path(Path("out.csv"))
    with path.open("xb") as stream:
        hold(stream)
        remove_temporaries(Path())
        assert path.exists()
    remove_temporaries(Path())
    assert not path.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
def test_a_process_killed_while_it_writes_leaves_a_file_that_the_next_write_removes():
    """The real thing: the process dies between writing and renaming."""
    program = (
        "import os, signal; from pathlib import Path; from ulc.storage.files import write_whole\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_whole(Path('out.csv'), b'half')"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == -9
    (left,) = Path().iterdir()
    assert left.read_bytes() == b"half" or left.stat().st_size == 0
    write_whole(Path("out.csv"), b"whole")
    assert [path.name for path in Path().iterdir()] == ["out.csv"]


def test_a_write_whose_temporary_file_another_process_removed_is_repeated(monkeypatch):
    """Between creating and locking, another process can take the file for a left one."""
    removed = []

    def remove_first(stream):
        if not removed:
            removed.append(stream.name)
            Path(stream.name).unlink()

    monkeypatch.setattr(files, "hold", remove_first)
    write_whole(Path("out.csv"), b"whole")
    assert Path("out.csv").read_bytes() == b"whole"
    assert len(removed) == 1
    assert [path.name for path in Path().iterdir()] == ["out.csv"]


def test_a_folder_that_cannot_be_listed_is_left_alone():
    remove_temporaries(Path("missing"))
    assert not Path("missing").exists()
