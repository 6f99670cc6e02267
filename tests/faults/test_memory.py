"""What a file would take in memory is known from its header, and bounded, before it is read."""

import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from ulc.config import DataSpec
from ulc.data.lazy.images import LazyImages
from ulc.data.sources import load_source
from ulc.data.sources.npz import read_arrays
from ulc.errors import InputError
from ulc.storage.files import read_npz
from ulc.storage.memory import memory_limit

BOUND = r"would take .* of memory, more than the .* that one file may take; .*ULC_MEMORY_LIMIT"


@pytest.fixture
def limit(monkeypatch):
    """Set the bound."""

    def call(text):
        monkeypatch.setenv("ULC_MEMORY_LIMIT", text)

    return call


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1000", 1000),
        ("8GB", 8 * 2**30),
        ("1.5 GiB", 3 * 2**29),
        ("64m", 64 * 2**20),
        ("2T", 2**41),
    ],
)
def test_the_bound_is_given_with_or_without_a_unit(limit, text, size):
    limit(text)
    assert memory_limit() == size


def test_without_the_variable_the_bound_is_a_share_of_the_memory(monkeypatch):
    monkeypatch.delenv("ULC_MEMORY_LIMIT", raising=False)
    monkeypatch.setattr("ulc.storage.memory.machine_memory", lambda: 1000)
    assert memory_limit() == 500


@pytest.mark.parametrize("text", ["much", "-1", "8 apples", "nan"])
def test_a_bound_that_is_no_size_is_refused(limit, text):
    limit(text)
    with pytest.raises(InputError, match=r"ULC_MEMORY_LIMIT=.*: give bytes, or a number"):
        memory_limit()


def load(name):
    kind = {".npz": "npz", ".csv": "table", ".parquet": "table"}.get(Path(name).suffix, "folder")
    return load_source(DataSpec(source=kind, path=name))


def test_an_npz_that_is_small_only_on_the_disk_is_refused(limit):
    """A megabyte of zeros packs into a kilobyte; as vectors it becomes four of them."""
    np.savez_compressed("zeros.npz", X=np.zeros((1000, 1000), bool), y=np.arange(1000) % 2)
    assert Path("zeros.npz").stat().st_size < 20_000
    limit("4MB")
    with pytest.raises(InputError, match=f"zeros.npz: its arrays {BOUND}"):
        load("zeros.npz")
    limit("6MB")
    assert load("zeros.npz").inputs.shape == (1000, 1000)


def test_arrays_that_are_not_used_are_not_read(limit):
    """Neither their size nor their damage matters."""
    np.savez_compressed("more.npz", X=np.eye(4), y=[0, 1, 0, 1], other=np.zeros(10_000_000))
    content = bytearray(Path("more.npz").read_bytes())
    place = content.find(b"other.npy") + 2000
    content[place : place + 8] = b"\xff" * 8
    Path("more.npz").write_bytes(content)
    limit("1MB")
    assert load("more.npz").inputs.shape == (4, 4)
    with pytest.raises(InputError, match=BOUND):
        read_arrays(Path("more.npz"))


def header(text, version=1):
    packed = text.encode() + b" " * (118 - len(text)) + b"\n"
    size = struct.pack("<H" if version == 1 else "<I", len(packed))
    return b"\x93NUMPY" + bytes([version, 0]) + size + packed


HEADERS = {
    "more rows than bytes": "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}",
    "beyond all numbers": "{'descr': '<f8', 'fortran_order': False, 'shape': (10**30,)}",
    "a product above 64 bits": "{'descr': '|u1', 'fortran_order': False, 'shape': (1"
    + "0" * 10
    + ", 1"
    + "0" * 10
    + ")}",
    "rows of nothing": "{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,)}",
    "a negative length": "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -3)}",
    "an unknown type": "{'descr': 'Q9', 'fortran_order': False, 'shape': (3,)}",
    "a type of types": "{'descr': [('a', [('b', 'O')])], 'fortran_order': False, 'shape': (3,)}",
    "brackets": "(" * 100,
    "not a header": "{'shape': (3,)}",
    "nothing": "",
}


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("version", [1, 2])
def test_a_header_that_promises_more_than_there_is_is_refused(name, version):
    with zipfile.ZipFile("bad.npz", "w") as archive:
        archive.writestr("X.npy", header(HEADERS[name], version) + b"\0" * 64)
        archive.writestr("y.npy", header("{'descr': '<i8'}"))
    with pytest.raises(ValueError):  # noqa: PT011 (every reason will do)
        read_npz(Path("bad.npz"))
    with pytest.raises(InputError, match=r"bad.npz: not a readable npz file .*numpy.savez"):
        load("bad.npz")


def png(width, height):
    """A PNG of so many pixels that holds only its header."""

    def chunk(kind, content):
        packed = kind + content
        return struct.pack(">I", len(content)) + packed + struct.pack(">I", zlib.crc32(packed))

    about = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", about) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def write_folder(content):
    for name in ("a", "b"):
        Path("photos", name).mkdir(parents=True)
        Path("photos", name, "1.png").write_bytes(content)


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded():
    """Pillow only warns of 13,300 times 13,300 pixels."""
    write_folder(png(13_300, 13_300))
    with pytest.raises(InputError, match=r"13300 by 13300 pixels, more than 89,478,485"):
        load("photos")


def test_a_picture_above_the_bound_is_refused_before_it_is_decoded(limit):
    write_folder(png(2000, 2000))
    limit("100MB")
    with pytest.raises(InputError, match=f"2000 by 2000 pixels {BOUND}"):
        load("photos")


def test_pictures_whose_array_exceeds_the_bound_are_read_lazily_or_refused(limit):
    from PIL import Image

    for name in ("a", "b"):
        Path("photos", name).mkdir(parents=True)
        for i in range(60):
            Image.new("RGB", (8, 8)).save(f"photos/{name}/{i}.png")
    limit("20kB")
    assert isinstance(load("photos").inputs, LazyImages)
    with pytest.raises(InputError, match=f"120 images of 8 by 8 pixels {BOUND}"):
        load_source(DataSpec(source="folder", path="photos", lazy=False))


def test_large_pictures_are_read_one_at_a_time(limit):
    from PIL import Image

    for name in ("a", "b"):
        Path("photos", name).mkdir(parents=True)
        for i in range(3):
            Image.new("RGB", (200, 200), (i, 0, 0)).save(f"photos/{name}/{i}.png")
    limit("2MB")  # each needs more than an eighth of it
    assert load("photos").inputs.shape == (6, 3, 64, 64)


def test_a_table_above_the_bound_is_refused(limit):
    Path("t.csv").write_text("label,a\n" + "x,1\ny,2\n" * 500)
    limit("10kB")
    with pytest.raises(InputError, match=rf"t.csv {BOUND}"):
        load("t.csv")
    limit("100kB")
    assert len(load("t.csv").labels) == 1000


def test_a_parquet_file_of_many_equal_rows_is_refused(limit):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    zeros = pa.array(np.zeros(1_000_000, np.int64))
    parquet.write_table(pa.table({"label": zeros, "a": zeros}), "t.parquet")
    assert Path("t.parquet").stat().st_size < 50_000
    limit("10MB")
    with pytest.raises(InputError, match=f"its 1000000 rows {BOUND}"):
        load("t.parquet")


def test_so_many_classes_that_their_pairs_exceed_the_bound_are_refused(limit):
    np.savez("k.npz", X=np.eye(4), y=[0, 1, 0, 1], class_names=[f"c{i}" for i in range(2000)])
    limit("10MB")
    with pytest.raises(InputError, match=f"the pairs of its 2000 classes {BOUND}"):
        load("k.npz")


def test_out_of_memory_is_one_sentence(ulc, monkeypatch):
    np.savez("good.npz", X=np.eye(12), y=np.arange(12) % 2)
    for error in (MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you")):

        def fail(*_, error=error, **__):
            raise error

        monkeypatch.setattr("ulc.training.run.prepare", fail)
        code, printed = ulc("train", "good.npz", "-a", "ce", "-q")
        assert code == 2
        assert printed.err.startswith("ulc: out of memory")
        assert printed.err.count("\n") == 1
