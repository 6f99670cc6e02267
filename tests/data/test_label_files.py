"""Label files of DivideMix, of CIFAR-N, and npz: what is written is read, the rest refused."""

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ulc.config import DataSpec, ImbalanceSpec, NoiseSpec, RunSpec
from ulc.data.label_files import read_label_file, write_label_file
from ulc.data.prepare import label
from ulc.errors import InputError

CIFAR_N = (
    "clean_label", "aggre_label", "worse_label", "random_label1", "random_label2", "random_label3",
)  # fmt: skip


@given(labels=st.lists(st.integers(0, 99), min_size=1, max_size=30))
@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("ending", [".json", ".pt", ".npz"])
def test_what_is_written_is_read(tmp_path_factory, ending, labels):
    path = tmp_path_factory.getbasetemp() / f"labels{ending}"
    given_labels = np.array(labels)
    true = given_labels[::-1]
    write_label_file(path, given_labels, true)
    key = None if ending == ".json" else "noisy_label"
    assert read_label_file(path, key).tolist() == labels
    if key:
        assert read_label_file(path, "clean_label").tolist() == labels[::-1]


def test_the_json_is_dividemix_s_own():
    write_label_file(Path("0.5_sym.json"), np.array([3, 0, 2]), np.array([0, 0, 2]))
    assert json.loads(Path("0.5_sym.json").read_text()) == [3, 0, 2]


def test_the_pt_is_cifar_n_s_own():
    """Read as CIFAR-N's users read theirs: a dictionary of arrays."""
    write_label_file(Path("human.pt"), np.array([3, 0, 2]), np.array([0, 0, 2]))
    content = torch.load("human.pt", weights_only=False)
    assert {name: each.tolist() for name, each in content.items()} == {
        "clean_label": [0, 0, 2],
        "noisy_label": [3, 0, 2],
    }


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.int64])
@pytest.mark.parametrize("era", ["numpy 2", "numpy 1"])
def test_the_official_cifar_n_layout_is_read(kind, era):
    """Six arrays in a dictionary; the official file names NumPy 1's modules."""
    content = {name: np.array([k, 1, 2], kind) for k, name in enumerate(CIFAR_N)}
    buffer = io.BytesIO()
    torch.save(content, buffer, _use_new_zipfile_serialization=era == "numpy 2")
    packed = buffer.getvalue()
    if era == "numpy 1":
        packed = packed.replace(b"numpy._core.", b"numpy.core.")
        assert b"numpy.core.multiarray" in packed
    Path("CIFAR-10_human.pt").write_bytes(packed)
    assert read_label_file(Path("CIFAR-10_human.pt"), "worse_label").tolist() == [2, 1, 2]
    with pytest.raises(InputError, match=r"several arrays; set noise.key to one of: clean_label, "):
        read_label_file(Path("CIFAR-10_human.pt"))
    with pytest.raises(InputError, match=r"no array 'worst'; set noise.key to .*random_label3"):
        read_label_file(Path("CIFAR-10_human.pt"), "worst")


def test_tensors_in_a_pt_are_labels_too():
    torch.save({"labels": torch.tensor([1, 0])}, "labels.pt")
    assert read_label_file(Path("labels.pt")).tolist() == [1, 0]


class Command:
    """A pickle of this runs a command."""

    def __reduce__(self):
        return os.system, ("touch was-run",)


class Pointer:
    """Its pickle makes an array whose bytes NumPy interprets as pointers to objects."""

    def __reduce__(self):
        return np.ndarray, ((1,), np.dtype("O"), b"\1" * 8)


@pytest.mark.parametrize("trap", [Command(), Pointer()], ids=["command", "pointer"])
@pytest.mark.parametrize("new", [True, False])
def test_a_pt_that_wants_to_do_more_than_hold_arrays_is_refused(trap, new):
    torch.save({"labels": trap}, "trap.pt", _use_new_zipfile_serialization=new)
    with pytest.raises(InputError, match=r"trap.pt: .*could run code, so they are not read; use"):
        read_label_file(Path("trap.pt"))
    assert not Path("was-run").exists()


def test_a_pickled_object_in_an_npz_is_refused():
    np.savez("trap.npz", labels=np.array([Command()], object))
    with pytest.raises(InputError, match=r"trap.npz: .*pickled objects, which could run code"):
        read_label_file(Path("trap.npz"))
    assert not Path("was-run").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", b"[0, 1", "a.json: not a JSON list"),
        ("a.json", b"", "a.json: not a JSON list"),
        ("a.json", b"\xff\xfe", "a.json: not a JSON list"),
        ("a.json", b"{}", "a.json: not a flat list of labels; give one whole number"),
        ("a.json", b"3", "a.json: not a flat list of labels"),
        ("a.json", b"[[0, 1], [1, 0]]", "a.json: not a flat list of labels"),
        ("a.json", b"[[0, 1], [1]]", "a.json: not a JSON list"),
        ("a.json", b'["cat", "dog"]', "a.json has shape .2,., type <U3; give one label per row"),
        ("a.json", b"[0, null]", "type object; give one label per row"),
        ("a.json", b"[0, 1.5]", "row 1 is 1.5; give labels as whole numbers"),
        ("a.json", b"[0, NaN]", "row 1 is nan; give labels as whole numbers"),
        ("a.pt", b"nonsense", "a.pt: damaged, or it holds objects other than label arrays"),
        ("a.pt", b"", "a.pt: damaged, or it holds objects other than label arrays"),
        ("a.npz", b"nonsense", "a.npz: not a readable npz file"),
        ("a.npz", b"", "a.npz: not a readable npz file"),
        ("a.txt", b"0\n1\n", "a.txt: not a readable npz file"),
    ],
)
def test_a_file_of_something_else_is_refused_by_name(name, content, message):
    Path(name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_label_file(Path(name))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (torch.zeros(3), "not a dictionary of label arrays"),
        ({}, "holds no array; write the labels"),
        ({1: torch.zeros(3), 2: torch.zeros(3)}, "set noise.key to one of: 1, 2"),
        ({"labels": [[0, 1]]}, "labels is no array of numbers; give one label per row"),
        ({"labels": ["a"]}, "labels is no array of numbers; give one label per row"),
        ({"labels": torch.zeros(2, 2)}, r"labels has shape \(2, 2\)"),
    ],
)
def test_a_pt_of_something_else_is_refused_by_name(content, message):
    torch.save(content, "a.pt")
    with pytest.raises(InputError, match=f"a.pt.*{message}"):
        read_label_file(Path("a.pt"))


def test_a_missing_file_is_refused_by_name():
    with pytest.raises(InputError, match=r"labels.json: no such file; give a label file"):
        read_label_file(Path("labels.json"))


def test_an_unknown_ending_is_refused_and_nothing_written():
    with pytest.raises(InputError, match=r"labels.csv: unknown ending '.csv'; use .json"):
        write_label_file(Path("labels.csv"), np.array([0]), np.array([0]))
    assert not list(Path().iterdir())


@pytest.fixture
def spec(tmp_path):
    """Twelve examples of two classes, their labels given by a file."""
    np.savez("toy.npz", X=np.arange(24.0).reshape(12, 2), y=np.arange(12) % 2)
    return RunSpec(
        data=DataSpec(source="npz", path="toy.npz"), noise=NoiseSpec(kind="file", file="n.json")
    )


def test_labels_of_a_file_are_given_and_the_source_s_are_true(spec):
    write_label_file(Path("n.json"), np.array([0] * 11 + [1]), np.zeros(12))
    labelled = label(spec)
    assert labelled.given.tolist() == [0] * 11 + [1]
    assert labelled.true.tolist() == [0, 1] * 6


def test_a_file_may_cover_the_whole_source_or_the_examples_kept(spec):
    """Half of two classes at 1:3 keeps 6 of one and 2 of the other."""
    uneven = spec.model_copy(update={"imbalance": ImbalanceSpec(kind="half", ratio=3)})
    whole = np.arange(12) // 6
    write_label_file(Path("n.json"), whole, whole)
    from_whole = label(uneven)
    # X counts up by two in its first column: an example's position is half of it.
    kept = from_whole.source.inputs[:, 0].astype(int) // 2
    assert len(kept) == 8
    assert from_whole.given.tolist() == whole[kept].tolist()
    write_label_file(Path("n.json"), whole[kept], whole[kept])
    assert label(uneven).given.tolist() == from_whole.given.tolist()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1] * 5, "n.json: 10 labels for 12 examples .12 kept.; give the file that belongs"),
        ([], "n.json: 0 labels for 12 examples"),
        ([0, 1] * 5 + [0, 2], "n.json: row 11 has label 2, outside 0 to 1; correct it"),
        ([0, 1] * 5 + [-1, 0], "n.json: row 10 has label -1, outside 0 to 1"),
        ([1] * 12, "all labels are the same class"),
    ],
)
def test_labels_that_do_not_fit_the_data_set_are_refused(spec, labels, message):
    Path("n.json").write_text(json.dumps(labels))
    with pytest.raises(InputError, match=message):
        label(spec)
