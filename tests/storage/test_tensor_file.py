"""Safetensors files: the same bytes for the same content, tensors at a multiple of eight bytes."""

import json
from pathlib import Path

import pytest
import torch

from ulc.errors import InputError
from ulc.storage.tensor_file import TensorFileKind, read_tensors, write_tensors

KIND = TensorFileKind("model", missing="train it", damaged="train it anew")
TENSORS = {"b": torch.arange(5), "a": torch.tensor([[1.5]]), "half": torch.ones(3).half()}


@pytest.mark.parametrize("length", range(9))
def test_what_was_written_is_read_and_tensors_begin_at_a_multiple_of_eight(length):
    description = json.dumps({"text": "x" * length})
    write_tensors(Path("f"), description, TENSORS, note="n")
    found, tensors = read_tensors(Path("f"), KIND)
    assert found == {"text": "x" * length}
    assert set(tensors) == set(TENSORS)
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)
    content = Path("f").read_bytes()
    size = int.from_bytes(content[:8], "little")
    assert size % 8 == 0
    assert json.loads(content[8 : 8 + size])["__metadata__"]["note"] == "n"


def test_the_same_content_has_the_same_bytes():
    for name in ("f", "g"):
        write_tensors(Path(name), "{}", TENSORS, one="1", two="2", three="3")
    assert Path("f").read_bytes() == Path("g").read_bytes()


@pytest.mark.parametrize("place", [-1, -20, -40])
def test_a_changed_tensor_is_noticed(place):
    write_tensors(Path("f"), "{}", TENSORS)
    content = bytearray(Path("f").read_bytes())
    content[place] ^= 1
    Path("f").write_bytes(content)
    with pytest.raises(InputError, match=r"f: not a readable model \(its checksum differs\)"):
        read_tensors(Path("f"), KIND)


def test_a_missing_file_is_told_with_its_remedy():
    with pytest.raises(InputError, match="f: no such file; train it"):
        read_tensors(Path("f"), KIND)
