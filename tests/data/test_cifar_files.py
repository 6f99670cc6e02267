"""CIFAR in its official layouts: tiny files that the tests write, and the real ones."""

import os
import pickle
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from ulc.data.sources.cifar import load_cifar10, load_cifar100, pickled_labels
from ulc.errors import InputError

ROWS = 4  # a file
NAMES_100 = [f"name_{k}" for k in range(100)]


class Python2Pickler(pickle._Pickler):
    """A pickle as Python 2 wrote the official files: every string is bytes."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_string(self, text):
        raw = text.encode("latin1") if isinstance(text, str) else text
        self.write(pickle.BINSTRING + len(raw).to_bytes(4, "little") + raw)

    def save_truth(self, truth):
        self.write(pickle.BININT1 + bytes([truth]))

    dispatch[str] = dispatch[bytes] = save_string
    dispatch[bool] = save_truth


def write_python2(path, content):
    with path.open("wb") as stream:
        Python2Pickler(stream, protocol=2).dump(content)
    # NumPy 1 has other module names.
    path.write_bytes(path.read_bytes().replace(b"numpy._core.", b"numpy.core."))


def rows(seed, classes, count=ROWS):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (count, 3072), dtype=np.uint8)
    return pixels, (np.arange(count) * 3 + seed) % classes


def write_cifar10(folder, layout):
    """Five training batches and one of test, of ROWS rows each."""
    folder.mkdir(parents=True)
    for i, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        pixels, labels = rows(i, 10)
        if layout == "binary":
            content = np.hstack([labels[:, None].astype(np.uint8), pixels])
            (folder / f"{name}.bin").write_bytes(content.tobytes())
        else:
            content = {"batch_label": name, "labels": labels.tolist(), "data": pixels}
            write_python2(folder / name, content)


def write_cifar100(folder, layout):
    folder.mkdir(parents=True)
    for i, name in enumerate(["train", "test"]):
        pixels, fine = rows(i, 100)
        coarse = fine // 5
        if layout == "binary":
            both = np.stack([coarse, fine], 1).astype(np.uint8)
            (folder / f"{name}.bin").write_bytes(np.hstack([both, pixels]).tobytes())
        else:
            content = {
                "fine_labels": fine.tolist(),
                "coarse_labels": coarse.tolist(),
                "data": pixels,
            }
            write_python2(folder / name, content)
    if layout == "binary":
        (folder / "fine_label_names.txt").write_text("\n".join(NAMES_100) + "\n")
    else:
        write_python2(folder / "meta", {"fine_label_names": NAMES_100})


CIFAR10 = (load_cifar10, write_cifar10, "cifar-10-batches-bin", "cifar-10-batches-py")
CIFAR100 = (load_cifar100, write_cifar100, "cifar-100-binary", "cifar-100-python")
both_sets = pytest.mark.parametrize(
    ("load", "write", "binary", "pickled"), [CIFAR10, CIFAR100], ids=["cifar10", "cifar100"]
)


@both_sets
def test_both_layouts_give_the_same_data_set(tmp_path, load, write, binary, pickled):
    write(tmp_path / "a" / binary, "binary")
    write(tmp_path / "b" / pickled, "pickled")
    first, second = load(tmp_path / "a"), load(tmp_path / "b")
    for name in ("inputs", "labels", "true", "test_inputs", "test_labels"):
        assert np.array_equal(getattr(first, name), getattr(second, name))
    assert first.class_names == second.class_names
    assert first.mean == second.mean


@both_sets
@pytest.mark.parametrize("layout", ["binary", "pickled"])
def test_the_inner_folder_will_do_too(tmp_path, load, write, binary, pickled, layout):
    inner = tmp_path / (binary if layout == "binary" else pickled)
    write(inner, layout)
    assert np.array_equal(load(inner).inputs, load(tmp_path).inputs)


def test_cifar10_comes_in_the_order_of_its_files(tmp_path):
    write_cifar10(tmp_path / "cifar-10-batches-bin", "binary")
    source = load_cifar10(tmp_path)
    assert source.inputs.shape == (5 * ROWS, 3, 32, 32)
    assert source.inputs.dtype == np.uint8
    pixels, labels = rows(2, 10)
    assert np.array_equal(source.inputs[2 * ROWS : 3 * ROWS], pixels.reshape(-1, 3, 32, 32))
    assert source.labels[2 * ROWS : 3 * ROWS].tolist() == labels.tolist()
    assert np.array_equal(source.test_inputs.reshape(ROWS, -1), rows(5, 10)[0])
    assert source.class_names[3] == "cat"
    assert source.mean == (0.4914, 0.4822, 0.4465)
    assert source.std == (0.2023, 0.1994, 0.2010)


def test_cifar100_has_fine_labels_and_their_names(tmp_path):
    write_cifar100(tmp_path / "cifar-100-binary", "binary")
    source = load_cifar100(tmp_path)
    assert source.labels.tolist() == [0, 3, 6, 9]
    assert source.test_labels.tolist() == [1, 4, 7, 10]
    assert source.class_names == tuple(NAMES_100)
    assert source.mean == (0.507, 0.487, 0.441)


@pytest.mark.parametrize("layout", ["binary", "pickled"])
def test_cifar100_without_names_has_numbers(tmp_path, layout):
    write_cifar100(tmp_path / "here", layout)
    (tmp_path / "here" / ("meta" if layout == "pickled" else "fine_label_names.txt")).unlink()
    assert load_cifar100(tmp_path / "here").class_names[7] == "class 7"


class Command:
    """A pickle of this runs a command."""

    def __reduce__(self):
        return os.system, ("touch was-run",)


class Pointer:
    """Its pickle makes an array whose bytes NumPy interprets as pointers to objects."""

    def __reduce__(self):
        return np.ndarray, ((1,), np.dtype("O"), b"\1" * 8)


@pytest.mark.parametrize("trap", [Command(), Pointer()], ids=["command", "pointer"])
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_that_wants_to_do_more_than_hold_arrays_is_refused(tmp_path, trap, protocol):
    folder = tmp_path / "cifar-10-batches-py"
    write_cifar10(folder, "pickled")
    content = {"data": rows(0, 10)[0], "labels": trap}
    (folder / "data_batch_2").write_bytes(pickle.dumps(content, protocol))
    with pytest.raises(InputError, match=r"data_batch_2: not a pickle of plain arrays .*official"):
        load_cifar10(tmp_path)
    assert not Path("was-run").exists()


@both_sets
@pytest.mark.parametrize("layout", ["binary", "pickled"])
def test_a_truncated_file_is_refused_by_name(tmp_path, load, write, binary, pickled, layout):
    folder = tmp_path / (binary if layout == "binary" else pickled)
    write(folder, layout)
    path = next(folder.glob("test*"))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=path.name):
        load(tmp_path)


def test_an_empty_or_missing_file_is_refused_by_name(tmp_path):
    write_cifar10(tmp_path / "here", "binary")
    (tmp_path / "here" / "data_batch_4.bin").write_bytes(b"")
    with pytest.raises(InputError, match=r"data_batch_4.bin: 0 bytes .*download it again"):
        load_cifar10(tmp_path / "here")
    (tmp_path / "here" / "data_batch_4.bin").unlink()
    with pytest.raises(InputError, match=r"data_batch_4.bin: cannot be read .*unpack"):
        load_cifar10(tmp_path / "here")


def test_a_label_that_cifar_does_not_have_is_refused(tmp_path):
    write_cifar10(tmp_path / "here", "binary")
    path = tmp_path / "here" / "data_batch_1.bin"
    path.write_bytes(b"\x0a" + path.read_bytes()[1:])
    with pytest.raises(InputError, match="row 0 has label 10, outside 0 to 9"):
        load_cifar10(tmp_path / "here")


@pytest.mark.parametrize(
    "content",
    [
        [1, 2, 3],
        {"data": [1, 2, 3]},
        {"data": [1, 2, 3], "labels": [0]},
        {"data": ["a"], "labels": [0]},
        {"data": [0] * 3072, "labels": ["cat"]},
        {"data": [0] * 3072, "labels": None},
    ],
)
def test_a_pickle_of_something_else_is_refused(tmp_path, content):
    write_cifar10(tmp_path / "here", "pickled")
    (tmp_path / "here" / "data_batch_1").write_bytes(pickle.dumps(content))
    with pytest.raises(InputError, match=r"data_batch_1: .*use the official file"):
        load_cifar10(tmp_path / "here")


@both_sets
def test_a_folder_without_the_data_set_is_told_what_it_should_hold(
    tmp_path, load, write, binary, pickled
):
    wanted = f"{binary} or {pickled}; unpack the official archive there"
    with pytest.raises(InputError, match=f"holds no {wanted}"):
        load(tmp_path)
    with pytest.raises(InputError, match=f"no such folder; it should hold {wanted}"):
        load(tmp_path / "missing")


def test_the_real_cifar10(cifar10):
    source = load_cifar10(cifar10)
    assert source.inputs.shape == (50_000, 3, 32, 32)
    assert source.test_inputs.shape == (10_000, 3, 32, 32)
    assert np.bincount(source.labels).tolist() == [5000] * 10
    assert np.bincount(source.test_labels).tolist() == [1000] * 10
    # A frog, two trucks, a deer, a car; a cat, two ships, an airplane, a frog.
    assert source.labels[:5].tolist() == [6, 9, 9, 4, 1]
    assert source.test_labels[:5].tolist() == [3, 8, 8, 0, 6]
    mean = source.inputs.mean((0, 2, 3)) / 255
    assert np.allclose(mean, source.mean, atol=1e-3)


def test_labels_of_a_pickle_may_be_an_array_or_a_list_of_whole_numbers():
    for labels in ([3, 1, 9], np.array([3, 1, 9], np.uint8)):
        found = pickled_labels(labels)
        assert (found.tolist(), found.dtype) == ([3, 1, 9], np.int64)
    for other in ([3.0, 1.0], [True], np.zeros((2, 1), np.uint8), "31", None):
        with pytest.raises(TypeError, match="its labels are no list of whole numbers"):
            pickled_labels(other)
