"""Checksums of the files of a folder, and what a killed process leaves there."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ulc.errors import InputError
from ulc.storage import checksums
from ulc.storage.run_folder import RunFolder, create_folder


@pytest.fixture
def folder(tmp_path):
    folder = create_folder(tmp_path / "run")
    folder.write("model.bin", b"some weights")
    return folder


@given(st.integers(0, 8 * 12 - 1))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_flip_of_one_bit_is_noticed(folder, bit):
    flipped = bytearray(b"some weights")
    flipped[bit // 8] ^= 1 << bit % 8
    (folder.path / "model.bin").write_bytes(flipped)
    with pytest.raises(InputError, match=r"model.bin is damaged \(its checksum differs\)"):
        RunFolder(folder.path).read("model.bin")


def test_a_file_that_was_put_there_by_other_means_is_refused(folder):
    (folder.path / "noise.json").write_text("{}")
    with pytest.raises(InputError, match=r"noise.json is damaged"):
        folder.read_json("noise.json")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"model.bin": 3}', b"[" * 100_000])
def test_damaged_checksums_are_told_in_one_sentence(folder, content):
    (folder.path / "checksums.json").write_bytes(content)
    with pytest.raises(InputError, match=r"checksums.json is damaged .*--fresh"):
        folder.read("model.bin")


def test_a_folder_without_checksums_can_be_read(folder):
    (folder.path / "checksums.json").unlink()
    assert folder.read("model.bin") == b"some weights"


class Killed(BaseException):
    """Stands for the end of a process."""


@pytest.mark.parametrize("lasting", [1, 2, 5])
def test_a_kill_between_checksum_and_file_leaves_the_old_file_valid(folder, monkeypatch, lasting):
    """However often the process is killed there, each time a new one."""
    write = checksums.write_whole

    def killed_before_the_file(path, content):
        if path.name == "model.bin":
            raise Killed
        write(path, content)

    monkeypatch.setattr(checksums, "write_whole", killed_before_the_file)
    for attempt in range(lasting):
        with pytest.raises(Killed):
            RunFolder(folder.path).write("model.bin", b"new weights %d" % attempt)
        assert RunFolder(folder.path).read("model.bin") == b"some weights"
    monkeypatch.undo()
    last = RunFolder(folder.path)
    last.write("model.bin", b"last weights")
    assert RunFolder(folder.path).read("model.bin") == b"last weights"
    last.write("model.bin", b"newest weights")
    assert RunFolder(folder.path).read("model.bin") == b"newest weights"
    stored = json.loads((folder.path / "checksums.json").read_bytes())["model.bin"]
    assert stored == [checksums.digest(b"last weights"), checksums.digest(b"newest weights")]


def test_temporary_files_of_a_killed_process_are_removed_at_the_next_start(folder):
    (folder.path / ".model.bin.0123abcd.part").write_bytes(b"half")
    (folder.path / ".keep").write_bytes(b"of the user")
    with folder.locked():
        assert {path.name for path in folder.path.glob(".*")} == {".keep"}


@pytest.mark.parametrize(
    ("epochs", "message"), [([0, 3, 4], "epoch 1 is missing"), ([1, 2], "epoch 0 is missing")]
)
def test_records_must_have_every_epoch(folder, epochs, message):
    folder.write_records([{"epoch": epoch, "train": {}, "seconds": {}} for epoch in epochs])
    with pytest.raises(InputError, match=rf"records.jsonl is damaged \({message}"):
        _ = folder.records
