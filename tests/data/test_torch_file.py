"""Files of `torch.save`: read as torch reads them; forged ones take no memory and run nothing."""

import errno
import io
import pickle
import struct
import sys
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ulc.data.sources.pickle_machine import PickleError
from ulc.data.torch_file import read_torch
from ulc.data.torch_pickle import STORAGES
from ulc.errors import InputError

FORMATS = pytest.mark.parametrize("new", [True, False], ids=["today", "older"])
DTYPES = sorted(set(STORAGES.values()), key=str)


def saved(content, new=True):
    stream = io.BytesIO()
    torch.save(content, stream, _use_new_zipfile_serialization=new)
    return stream.getvalue()


def read(content):
    return read_torch(io.BytesIO(content), "f.pt")


def equal(one, other):
    """Whether two nested contents are the same, types, shapes and strides of tensors included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        same = (one.dtype, one.stride(), one.requires_grad)
        return same == (other.dtype, other.stride(), other.requires_grad) and one.equal(other)
    if isinstance(one, dict):
        pairs = zip(one.items(), other.items(), strict=True)
        return len(one) == len(other) and all(a == b and equal(x, y) for (a, x), (b, y) in pairs)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return one == other


tensors = st.builds(
    lambda dtype, shape: torch.arange(int(np.prod(shape))).reshape(shape).to(dtype),
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 3), max_size=3),
)
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.booleans() | st.none()
keys = st.text(max_size=5) | st.integers(-(2**40), 2**40) | st.none()
states = st.recursive(
    numbers
    | st.text(max_size=5)
    | tensors
    | st.binary(min_size=1, max_size=5)
    | st.sets(st.text(max_size=3)),
    lambda parts: (
        st.lists(parts, max_size=4)
        | st.lists(parts, max_size=4).map(tuple)
        | st.dictionaries(keys, parts, max_size=4)
        | st.dictionaries(keys, parts, max_size=4).map(OrderedDict)
    ),
    max_leaves=10,
)


@FORMATS
@given(state=states)
@settings(max_examples=150, deadline=None)
def test_what_torch_saves_is_read_as_torch_reads_it(new, state):
    content = saved(state, new)
    assert equal(read(content), torch.load(io.BytesIO(content), weights_only=True))


@FORMATS
def test_views_share_their_numbers_as_before(new):
    whole = torch.arange(12.0).reshape(3, 4)
    found = read(saved({"whole": whole, "part": whole[1:, ::2].t()}, new))
    assert found["part"].tolist() == whole[1:, ::2].t().tolist()
    found["whole"][1, 0] = -5
    assert found["part"][0, 0] == -5


@FORMATS
def test_the_state_of_a_network_and_of_its_optimiser_is_read(new):
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    net(torch.randn(5, 3)).sum().backward()
    sgd.step()
    content = saved({"net": net.state_dict(), "sgd": sgd.state_dict()}, new)
    found = read(content)
    assert equal(found, torch.load(io.BytesIO(content), weights_only=True))
    assert found["net"]._metadata == net.state_dict()._metadata
    net.load_state_dict(found["net"])


@FORMATS
def test_parameters_sizes_and_devices_are_read(new):
    content = {
        "parameter": torch.nn.Parameter(torch.ones(2), requires_grad=False),
        "size": torch.Size([2, 3]),
        "device": torch.device("cpu"),
        "complex": 1 + 2j,
    }
    assert equal(read(saved(content, new)), content)


@FORMATS
@pytest.mark.parametrize(
    "dtype", [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn], ids=str
)
def test_types_without_a_storage_of_their_own_are_read(new, dtype):
    """`_rebuild_tensor_v3` tells their type beside the storage."""
    tensor = torch.tensor([1, 0, 3], dtype=torch.uint8).to(dtype)
    found = read(saved({"a": tensor}, new))["a"]
    assert found.dtype == dtype
    assert torch.equal(found.view(torch.uint8), tensor.view(torch.uint8))


@FORMATS
def test_the_state_of_a_schedule_is_read(new):
    """Its milestones are a Counter, and its keys and values are numbers."""
    sgd = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    content = torch.optim.lr_scheduler.MultiStepLR(sgd, [3, 5]).state_dict()
    content |= {"of floats": {0.5: 1, b"ab": 2}, "counter": Counter()}
    found = read(saved(content, new))
    assert found == content
    assert type(found["milestones"]) is Counter


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_sets_of_every_protocol_are_read(protocol):
    stream = io.BytesIO()
    content = {"s": {"a", "b", 3}, "none": set()}
    torch.save(content, stream, pickle_protocol=protocol)
    assert read(stream.getvalue()) == content


def test_a_file_of_the_older_format_that_ends_with_a_zip_is_no_zip():
    inside = np.frombuffer(saved({"a": torch.ones(2)}), np.uint8)
    content = {"zip": torch.from_numpy(inside.copy())}
    assert zipfile.is_zipfile(io.BytesIO(saved(content, new=False)))
    assert torch.equal(read(saved(content, new=False))["zip"], content["zip"])


def test_a_file_of_the_older_format_without_a_byte_order_of_ours_is_refused():
    content = saved({"a": torch.ones(1)}, new=False)
    order, other = (b"\x88", b"\x89") if sys.byteorder == "little" else (b"\x89", b"\x88")
    place = content.index(b"little_endian")
    end = content.index(order, place)
    with pytest.raises(PickleError, match="another order"):
        read(content[:end] + other + content[end + 1 :])


def test_a_storage_of_another_number_of_elements_is_refused_in_the_older_format():
    content = saved({"a": torch.arange(4.0)}, new=False)
    count, numbers = struct.pack("<Q", 4), np.arange(4, dtype=np.float32).tobytes()
    assert count + numbers in content
    with pytest.raises(PickleError, match="a storage has another size"):
        read(content.replace(count + numbers, struct.pack("<Q", 99) + numbers))


def test_memory_that_is_not_there_is_no_damage(monkeypatch):
    def empty(*_, **__):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate …")

    content = saved({"a": torch.ones(2)})
    monkeypatch.setattr("ulc.data.torch_file.torch.empty", empty)
    with pytest.raises(MemoryError):
        read(content)


# ---- forged files


class Call:
    """Its pickle calls a function with arguments."""

    def __init__(self, function, *arguments):
        self.reduced = function, arguments

    def __reduce__(self):
        return self.reduced


HUGE = 10**12
REBUILD = torch._utils._rebuild_tensor_v2
CALLS = {
    "zeros of a number": Call(bytearray, HUGE),
    "a command": Call(eval, "1 + 1"),
    "an array": Call(np.zeros, HUGE),
    "a range": Call(list, range(5)),
    "a tensor without storage": Call(REBUILD, b"", 0, (1,), (1,), False, {}),
    "a parameter of a text": Call(torch._utils._rebuild_parameter, "a", True, OrderedDict()),
    "a complex text": Call(complex, "1"),
    "a set of lists": Call(set, [(1, 2)]),
}  # fmt: skip


@FORMATS
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_no_function_is_called_with_what_the_file_says(new, call):
    with pytest.raises((PickleError, TypeError)):
        read(saved({"a": call}, new))


def forge(members, good=None):
    """A file of `torch.save` with some members replaced; None: left out."""
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(good or saved({"a": torch.arange(4.0)}))) as old,
        zipfile.ZipFile(stream, "w") as new,
    ):
        for member in old.infolist():
            name = member.filename.partition("/")[2]
            content = members.get(name, old.read(member))
            if content is not None:
                new.writestr(member.filename, content)
    return stream.getvalue()


def replaced(old, new):
    """A good file with bytes of its pickle replaced."""
    good = saved({"a": torch.arange(4.0)})
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith("data.pkl")]
        program = archive.read(name)
    assert old in program
    return forge({"data.pkl": program.replace(old, new)}, good)


FOUR, ONE = pickle.BININT1 + b"\4", pickle.BININT1 + b"\1"
BILLION = pickle.BININT + struct.pack("<i", 10**9)
FORGED = {
    "a storage is missing": forge({"data/0": None}),
    "a storage of another size": forge({"data/0": b"\0" * 12}),
    "another order of bytes": forge({"byteorder": b"big" if sys.byteorder == "little" else b"x"}),
    "no pickle": forge({"data.pkl": None}),
    "a pickle without end": forge({"data.pkl": b"\x80\2}"}),
    "an empty pickle": forge({"data.pkl": b""}),
    "more numbers than its storage": replaced(FOUR + pickle.TUPLE1, BILLION + pickle.TUPLE1),
    "one number many times": replaced(
        FOUR + pickle.TUPLE1, BILLION + pickle.TUPLE1 + pickle.POP + BILLION + pickle.TUPLE1
    ),
    "a step above its storage": replaced(ONE + pickle.TUPLE1, BILLION + pickle.TUPLE1),
    "a step backwards": replaced(
        ONE + pickle.TUPLE1, pickle.BININT + struct.pack("<i", -1) + pickle.TUPLE1
    ),
    "two dimensions, one step": replaced(
        FOUR + pickle.TUPLE1, FOUR + pickle.BININT1 + b"\1" + pickle.TUPLE2
    ),
    "a storage of texts": replaced(b"FloatStorage", b"ObjecStorage"),
    "another name": replaced(b"_rebuild_tensor_v2", b"_rebuild_tensor_v9"),
}


@pytest.mark.parametrize("content", FORGED.values(), ids=FORGED)
def test_a_forged_tensor_is_refused(content):
    with pytest.raises((PickleError, ValueError, KeyError)):
        read(content)


def test_one_number_that_stands_for_many_is_refused():
    with pytest.raises(PickleError, match="more numbers than its storage"):
        read(saved(torch.ones(1).expand(10**6)))


def test_views_of_one_storage_count_each_time(monkeypatch):
    """A file of some kilobytes that names a storage of 0.5 MB ten times, each in its own tensor."""
    monkeypatch.setenv("ULC_MEMORY_LIMIT", "2MB")
    whole = torch.zeros(2**17)
    with pytest.raises(InputError, match=r"f\.pt: its tensors would take .* of memory"):
        read(saved([whole.view(2**17) for _ in range(10)]))
    assert len(read(saved([whole.view(2**17) for _ in range(4)]))) == 4


@pytest.mark.parametrize("content", [[0] * 20_000, [[]] * 20_000, {f"{k}": k for k in range(9000)}])
def test_a_pickle_of_many_small_objects_counts_with_their_memory(monkeypatch, content):
    monkeypatch.setenv("ULC_MEMORY_LIMIT", "2MB")
    with pytest.raises(PickleError, match=r"it has more than .* instructions"):
        read(saved(content))


@FORMATS
def test_keys_that_take_long_are_refused(new):
    """Numbers of equal hash, and nested tuples, whose hash takes exponential time."""
    for keys in ([k * (2**61 - 1) for k in range(1, 9)], [((),), ((), ())]):
        with pytest.raises(PickleError, match="a key is no text"):
            read(saved(dict.fromkeys(keys), new))


def nested(depth, value, make):
    """Lists or tuples that hold each other twice; protocol 2 stores each of them once."""
    for _ in range(depth):
        value = make((value, value))
    return value


DEEP = nested(60, [], list)
BOMBS = {
    "lists": DEEP,
    "tuples": nested(60, (), tuple),
    "a size": Call(torch.Size, [DEEP]),
    "a device": Call(torch.device, "cpu", DEEP),
    "a counter": Call(Counter, DEEP),
    "a set": Call(set, [DEEP]),
    "an ordered dictionary": Call(OrderedDict, [(DEEP, 1)]),
}


@FORMATS
@pytest.mark.parametrize("content", BOMBS.values(), ids=BOMBS)
def test_lists_that_hold_each_other_twice_are_refused_at_once(new, content):
    with pytest.raises(PickleError):
        read(saved({"a": content}, new))


def test_the_older_format_ends_with_the_keys_of_its_storages():
    content = saved({}, new=False)
    keys = pickle.dumps([], 2)
    assert content.endswith(keys)
    for forged, reason in ((7, "a storage that no tensor has"), ("0", "that no tensor has")):
        with pytest.raises(PickleError, match=reason):
            read(content[: -len(keys)] + pickle.dumps([forged], 2))


@pytest.mark.parametrize(
    "copied",
    [
        ("torch\nSize", [1] * 1000),
        ("collections\nOrderedDict", [(k, None) for k in range(1000)]),
        ("__builtin__\nset", list(range(1000))),
        ("__builtin__\nbytearray", b"a" * 250_000),
    ],
    ids=lambda copied: copied[0].replace("\n", "."),
)
def test_copies_of_one_value_count_each_time(monkeypatch, copied):
    """A file of some kilobytes that makes the same value again and again."""
    monkeypatch.setenv("ULC_MEMORY_LIMIT", "4MB")
    name, value = copied
    stored = pickle.dumps((value,), 3)[2:-1]  # without protocol and end
    head = f"c{name}\n".encode() + b"r\0\0\1\0" + stored + b"r\1\0\1\0]("

    def program(copies):
        return b"\x80\3" + head + b"j\0\0\1\0j\1\0\1\0R" * copies + b"e."

    assert len(read(forge({"data.pkl": program(3)}))) == 3
    with pytest.raises(InputError, match=r"f\.pt: its content would take .* of memory"):
        read(forge({"data.pkl": program(40)}))


def test_a_damaged_member_is_noticed_by_its_checksum():
    good = saved({"a": torch.full((64,), 7.0)})
    place = good.index(struct.pack("<f", 7.0) * 64)
    with pytest.raises(PickleError, match="data/0 fails its checksum"):
        read(good[:place] + b"\1" + good[place + 1 :])


@pytest.mark.parametrize("cut", [0, 5, 40, 200, -1, -20])
def test_a_short_file_of_the_older_format_is_refused(cut):
    content = saved({"a": torch.arange(40.0), "b": torch.ones(3)}, new=False)
    assert torch.equal(read(content)["a"], torch.arange(40.0))
    with pytest.raises((PickleError, ValueError, IndexError, KeyError)):
        read(content[:cut])


def test_a_storage_of_the_older_format_that_is_larger_than_the_file_takes_no_memory():
    content = saved({"a": torch.arange(4.0)}, new=False)
    number = pickle.BININT1 + b"\4" + pickle.NONE  # the size, before the part that is None
    forged_size = pickle.LONG1 + b"\6" + struct.pack("<Q", HUGE)[:6] + pickle.NONE
    assert number in content
    with pytest.raises(PickleError, match="larger than the file"):  # else: out of memory
        read(content.replace(number, forged_size))


def test_an_archive_whose_members_would_begin_before_the_file_is_damaged():
    """A real file, because only there a seek to a negative place is an error of the system."""
    content = bytearray(saved([1]))
    place = content.rindex(b"PK\x06\x06") + 48  # where the list of members begins
    start = int.from_bytes(content[place : place + 8], "little")
    content[place : place + 8] = (start + 1000).to_bytes(8, "little")
    Path("f.pt").write_bytes(content)
    with Path("f.pt").open("rb") as stream, pytest.raises(PickleError):
        read_torch(stream, "f.pt")


def test_a_disk_that_cannot_be_read_is_no_damage(monkeypatch):
    def fail(*arguments):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("ulc.data.torch_file.read_zip", fail)
    with pytest.raises(OSError, match="Input/output"):
        read(saved([1]))
