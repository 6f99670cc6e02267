"""Arrays of npz files: what they take by their headers, and texts that are no Unicode."""

import errno
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ulc.errors import InputError
from ulc.storage.files import member_size, npz_names, read_npz


def packed(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer


@pytest.mark.parametrize(
    ("array", "size"),
    [
        (np.zeros(5, np.int64), 40),
        (np.zeros((5, 2), np.float64), 80 + 40),  # inputs, and a copy of them as float32
        (np.zeros((5, 2, 2), np.uint8), 20),
        (np.zeros((0, 3), np.float32), 0),
        (np.array(1.0), 8),
        (np.array(["ab", "c"]), 16),
        (np.array([""]), 4),
    ],
)
def test_the_memory_of_an_array_is_known_by_its_header(array, size):
    with zipfile.ZipFile(packed(a=array)) as archive:
        assert member_size(archive, archive.infolist()[0]) == size
    np.testing.assert_array_equal(read_npz(packed(a=array))["a"], array)


def test_the_arrays_that_are_wanted_together_must_fit_the_bound(monkeypatch):
    arrays = {"a": np.zeros(10), "b": np.zeros(10)}  # 80 bytes each
    monkeypatch.setenv("ULC_MEMORY_LIMIT", "160")
    assert set(read_npz(packed(**arrays))) == {"a", "b"}
    monkeypatch.setenv("ULC_MEMORY_LIMIT", "159")
    assert set(read_npz(packed(**arrays), lambda name: name == "b")) == {"b"}
    with pytest.raises(InputError, match="the npz file: its arrays would take"):
        read_npz(packed(**arrays))


@pytest.mark.parametrize("number", [0, 1, 0xD7FF, 0xE000, 0x10FFFF])
def test_text_at_the_edge_of_unicode_is_read(number):
    text = np.array(["ab"])
    text.view(np.uint32)[0] = number
    assert read_npz(packed(a=text))["a"].view(np.uint32).tolist() == [number, ord("b")]


@pytest.mark.parametrize("number", [0xD800, 0xDFFF, 0x110000, 0xFFFFFFFF])
def test_text_beyond_unicode_is_refused(number):
    text = np.array(["ab"])
    text.view(np.uint32)[1] = number
    with pytest.raises(ValueError, match=r"a\.npy holds text that is no Unicode"):
        read_npz(packed(a=text))


def test_the_names_of_arrays_are_those_they_were_stored_with():
    Path("f.npz").write_bytes(packed(X=np.zeros(1), y=np.zeros(1)).getvalue())
    assert npz_names(Path("f.npz")) == ["X", "y"]
    Path("f.npz").write_bytes(b"PK")
    with pytest.raises(ValueError, match="zip"):
        npz_names(Path("f.npz"))


def test_a_zip_file_of_an_unknown_version_is_damaged():
    content = bytearray(packed(y=np.zeros(1)).getvalue())
    content[content.index(b"PK\x01\x02") + 6] = 200  # the version that is needed to read it
    Path("f.npz").write_bytes(content)
    for read in (npz_names, read_npz):
        with pytest.raises(ValueError, match=r"zip file version 20\.0"):
            read(Path("f.npz"))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_arrays_of_the_first_two_versions_are_read(version):
    content = io.BytesIO()
    np.lib.format.write_array(content, np.arange(3), version=version)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.npy", content.getvalue())
    if version == (3, 0):
        with pytest.raises(ValueError, match=r"the unknown version \(3, 0\)"):
            read_npz(buffer)
    else:
        assert read_npz(buffer)["a"].tolist() == [0, 1, 2]


def test_pickled_objects_are_refused():
    with pytest.raises(ValueError, match="pickled objects, which could run code"):
        read_npz(packed(a=np.array([{}], dtype=object)))


@pytest.mark.parametrize("shape", [(200,), (-1, 100), (10**6, 10**6)])
def test_an_array_that_is_shorter_than_its_header_says_is_refused_by_its_header(shape):
    """100 numbers are stored; NumPy itself would take the memory first."""
    content = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(content, header)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.npy", content.getvalue() + np.zeros(100).tobytes())
    with pytest.raises(ValueError, match=r"a\.npy holds less than its header says"):
        read_npz(buffer)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_that_cannot_be_decompressed_is_damage(method):
    array, buffer = io.BytesIO(), io.BytesIO()
    np.save(array, np.arange(100))
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("a.npy", array.getvalue())
        begin = archive.getinfo("a.npy").header_offset + 30 + len("a.npy")
    content = bytearray(buffer.getvalue())
    content[begin + 4 : begin + 40] = b"\xff" * 36
    with pytest.raises(ValueError, match=r".") as caught:
        read_npz(io.BytesIO(bytes(content)))
    assert "\n" not in str(caught.value)


def test_an_archive_whose_members_would_begin_before_the_file_is_damaged():
    content = bytearray(packed(a=np.arange(3)).getvalue())
    shift_members(content)
    Path("f.npz").write_bytes(content)
    with pytest.raises(ValueError, match="Invalid argument"):
        read_npz(Path("f.npz"))


def shift_members(content):
    """Change the end of a zip file so that its first member begins 1,000 bytes before it."""
    place = content.rindex(b"PK\x05\x06") + 16
    start = int.from_bytes(content[place : place + 4], "little")
    content[place : place + 4] = (start + 1000).to_bytes(4, "little")


def test_a_disk_that_cannot_be_read_is_no_damage(monkeypatch):
    def fail(archive, member):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("ulc.storage.files.read_member", fail)
    with pytest.raises(OSError, match="Input/output"):
        read_npz(packed(a=np.arange(3)))
