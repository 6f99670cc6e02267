"""CIFAR pickles of a stranger: no code, no pointers, no memory that the file does not have."""

import pickle
import struct
import subprocess
import sys

import numpy as np
import pytest

from ulc.data.sources.pickle_machine import run_pickle
from ulc.data.sources.unpickling import ArrayMachine, unpickle_arrays
from ulc.errors import InputError

PIXELS = np.arange(2 * 3072, dtype=np.uint8).reshape(2, 3072)


def forged(dtype_state=None, code="u1"):
    """A pickle of {"data": array} whose type has this code and this state."""
    raw = PIXELS.tobytes()
    state = dtype_state or (3, "|", None, None, None, -1, -1, 0)
    parts = [
        pickle.PROTO + b"\2" + pickle.EMPTY_DICT,
        pickle.BINUNICODE + struct.pack("<I", 4) + b"data",
        b"cnumpy._core.multiarray\n_reconstruct\n",
        b"cnumpy\nndarray\n" + pickle.dumps((0,), 2)[2:-1] + pickle.dumps(b"b", 3)[2:-1],
        pickle.TUPLE3 + pickle.REDUCE,
        pickle.MARK + pickle.BININT1 + b"\1" + pickle.dumps((2, 3072), 2)[2:-1],
        b"cnumpy\ndtype\n" + pickle.dumps((code, False, True), 2)[2:-1] + pickle.REDUCE,
        pickle.dumps(state, 2)[2:-1] + pickle.BUILD,
        pickle.NEWFALSE + pickle.BINBYTES + struct.pack("<I", len(raw)) + raw,
        pickle.TUPLE + pickle.BUILD + pickle.SETITEM + pickle.STOP,
    ]
    return b"".join(parts)


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["u1", "i4", "i8"])
def test_plain_arrays_lists_and_texts_are_read_as_they_were_written(tmp_path, protocol, dtype):
    content = {
        "data": PIXELS,
        "labels": [0, 255, 70_000, -1],
        "other": np.arange(5, dtype=dtype),
        "names": ["a", "ü"],
        "nothing": None,
        "columns": np.asfortranarray(PIXELS),
    }
    (tmp_path / "file").write_bytes(pickle.dumps(content, protocol))
    found = unpickle_arrays(tmp_path / "file")
    assert found.keys() == content.keys()
    for name, value in content.items():
        assert np.array_equal(found[name], value)
        assert getattr(found[name], "dtype", None) == getattr(value, "dtype", None)


def test_a_hand_made_pickle_is_read(tmp_path):
    (tmp_path / "file").write_bytes(forged())
    assert np.array_equal(unpickle_arrays(tmp_path / "file")["data"], PIXELS)


FORGED = {
    "objects": forged(code="O8"),
    "records with objects": forged(code="V8"),
    "numbers in another order": forged((3, ">", None, None, None, -1, -1, 0), code="i8"),
    "text": forged(code="U4"),
}


def nested_key():
    """A dictionary whose key is a tuple of tuples; its hash would take 2^60 steps."""
    doubled = b"".join(b"2\x86" for _ in range(60))  # DUP and TUPLE2
    return b"\x80\2})" + doubled + b"K\1s."


MEMO_NUMBER = b"\x80\2Nr\xff\xff\xff\x2f."  # nine bytes; Python's unpickler takes 6 GB
HOSTILE = {
    "a nested key": nested_key(),
    "a nested key without DUP": b"\x80\2})q\0" + b"".join(
        b"h" + bytes([i]) + b"h" + bytes([i]) + b"\x86q" + bytes([i + 1]) for i in range(60)
    ) + b"K\1s.",
    "a length": b"\x80\4\x8e\xff\xff\xff\xff\xff\xff\xff\x7fab.",
    "an array of many rows": forged().replace(
        pickle.dumps((2, 3072), 2)[2:-1], pickle.dumps((10**12, 3072), 2)[2:-1]
    ),
    "a persistent id": b"\x80\2K\1Q.",
    "an object": b"\x80\2)\x81.",
    "an extension": b"\x80\2\x82\1.",
    "an instance": b"(ios\nabort\n.",
    "a call": b"cos\nabort\n(tR.",
    "a call of a number": b"\x80\2K\1)R.",
    "no end": b"\x80\2}",
    "nothing": b"",
    "a stop on an empty stack": b".",
    "a mark": b"(.",
}  # fmt: skip


@pytest.mark.parametrize("content", [*FORGED.values(), *HOSTILE.values()], ids=[*FORGED, *HOSTILE])
def test_a_forged_pickle_is_refused_at_once(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InputError, match=r"not a pickle of plain arrays .*use the official file"):
        unpickle_arrays(tmp_path / "file")


@pytest.mark.slow
def test_a_forged_memo_number_takes_no_memory(tmp_path):
    """In a process of its own: the memory that it ever took is counted."""
    pytest.importorskip("resource")
    (tmp_path / "file").write_bytes(MEMO_NUMBER)
    script = (
        "import resource\nfrom pathlib import Path\n"
        "from ulc.data.sources.unpickling import unpickle_arrays\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"unpickle_arrays(Path({str(tmp_path / 'file')!r}))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0
    assert int(done.stdout) < 100_000  # kB


def test_the_number_of_instructions_is_bounded(monkeypatch):
    monkeypatch.setattr("ulc.data.sources.pickle_machine.MOST_STEPS", 100)
    assert run_pickle(b"\x80\2" + b"N0" * 40 + b"N.", ArrayMachine()) is None
    with pytest.raises(ValueError, match="more than 100 instructions"):
        run_pickle(b"\x80\2" + b"N0" * 60 + b"N.", ArrayMachine())


def test_a_file_as_large_as_the_official_ones_is_read():
    names = [f"a_file_of_a_name_{i}.png" for i in range(50_000)]
    content = {"fine_labels": [i % 100 for i in range(50_000)], "filenames": names}
    assert run_pickle(pickle.dumps(content, 2), ArrayMachine()) == content


BUFFER = b"\x80\2cnumpy._core.numeric\n_frombuffer\n("  # its four arguments, t, R and . follow
BYTES = b"cnumpy\ndtype\nX\2\0\0\0u1\x85R"  # the type of bytes


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x80\2t.", "a mark is missing"),
        (BUFFER + b"U\1aNK\1\x85NtR.", "an array has no type or shape"),
        (BUFFER + b"U\1a" + BYTES + b"K\1NtR.", "an array has no type or shape"),
        (BUFFER + b"K\1" + BYTES + b"K\1\x85NtR.", "an array is not made of bytes"),
        (
            BUFFER + b"U\1a" + BYTES + b"J\xff\xff\xff\xff\x85NtR.",
            "an array has a length that is no whole number",
        ),
        (
            BUFFER + b"U\1a" + BYTES + b"\x88\x85NtR.",
            "an array has a length that is no whole number",
        ),
        (b"\x80\2c_codecs\nencode\nK\1\x85R.", "it encodes something other than bytes"),
        (b"\x80\2c_codecs\nencode\nU\1aU\5utf-8\x86R.", "it encodes something other than bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_forged_pickle_is_refused_with_the_reason(tmp_path, content, reason):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InputError) as told:
        unpickle_arrays(tmp_path / "file")
    place = tmp_path / "file"
    assert str(told.value) == (
        f"{place}: not a pickle of plain arrays ({reason}); use the official file"
    )


def nested(depth):
    """A value of a few bytes: lists that hold each other twice, `depth` deep."""
    lists = (b"](h%ch%ceq%c0" % (level, level, level + 1) for level in range(depth))
    return b"]q\0000" + b"".join(lists) + b"h%c" % depth


DTYPE = b"cnumpy._core.numeric\n_frombuffer\n(U\1acnumpy\ndtype\n"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (nested(60) + b".", "its lists have more than 5,000,000 values"),
        (nested(60) + b"U\1a\x93.", "a name is no text"),
        (DTYPE + nested(60) + b"\x85RK\1\x85NtR.", "whole numbers: that is no text"),
        (BUFFER + b"U\1a" + BYTES + nested(60) + b"\x85NtR.", "a length that is no whole number"),
        (b"}(" + nested(60) + b"K\1u.", "a key is no text"),
    ],
    ids=["read", "name", "type", "length", "key"],
)
def test_lists_that_hold_each_other_twice_are_refused_at_once(tmp_path, program, reason):
    """Whoever shows, hashes or walks through such a value takes exponential time."""
    (tmp_path / "file").write_bytes(b"\x80\2" + program)
    with pytest.raises(InputError, match=reason):
        unpickle_arrays(tmp_path / "file")


def test_copies_of_one_value_count_each_time(tmp_path, monkeypatch):
    monkeypatch.setenv("ULC_MEMORY_LIMIT", "2MB")
    text = b"X" + struct.pack("<I", 2**18) + b"a" * 2**18
    program = b"\x80\2c_codecs\nencode\nq\0" + text + b"\x85q\1]("
    (tmp_path / "few").write_bytes(program + b"h\0h\1R" * 4 + b"e.")
    unpickle_arrays(tmp_path / "few")
    (tmp_path / "many").write_bytes(program + b"h\0h\1R" * 10 + b"e.")
    with pytest.raises(InputError, match=r"many: its content would take 2\.\d MB of memory"):
        unpickle_arrays(tmp_path / "many")
