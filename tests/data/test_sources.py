"""The data of sources: the images inside the package, and a user's own arrays."""

from importlib.resources import files

import numpy as np
import pytest

from ulc.config import DataSpec
from ulc.data.sources import SOURCES, load_source
from ulc.data.sources.naming import data_spec
from ulc.data.sources.source import Source
from ulc.errors import InputError


def saved(path="data.npz", **arrays):
    np.savez(path, **arrays)
    return load_source(DataSpec(source="npz", path=str(path)))


@pytest.fixture(scope="module")
def fashion():
    return load_source(DataSpec(source="fashion"))


def test_the_embedded_slice_has_800_and_200_grey_images_a_class(fashion):
    assert fashion.inputs.shape == (8000, 1, 28, 28)
    assert fashion.test_inputs.shape == (2000, 1, 28, 28)
    assert fashion.inputs.dtype == fashion.test_inputs.dtype == np.uint8
    assert np.bincount(fashion.labels).tolist() == [800] * 10
    assert np.bincount(fashion.test_labels).tolist() == [200] * 10
    assert np.array_equal(fashion.true, fashion.labels)
    assert len(fashion.class_names) == 10


def test_no_test_image_of_the_slice_is_a_training_image(fashion):
    train = {image.tobytes() for image in fashion.inputs}
    assert not any(image.tobytes() in train for image in fashion.test_inputs)


def test_the_slice_looks_like_its_classes(fashion):
    """A trouser is narrower than a pullover, and a sandal is straps: the darkest of all."""
    brightness = [fashion.inputs[fashion.labels == k].mean() for k in range(10)]
    trouser, pullover, sandal = (
        fashion.class_names.index(name) for name in ("trouser", "pullover", "sandal")
    )
    assert brightness[trouser] < brightness[pullover]
    assert min(brightness) == brightness[sandal]


def test_the_packed_slice_is_small():
    packed = files("ulc.data.sources").joinpath("fashion.npz.xz").read_bytes()
    assert len(packed) <= 4 * 2**20


def test_vectors_of_any_number_type_become_float32():
    for kind in (np.float64, np.float16, np.int8, np.bool_):
        numbers = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], kind)
        source = saved(X=numbers, y=[0, 1, 0, 1])
        assert source.inputs.dtype == np.float32
        assert np.array_equal(source.inputs, numbers)


def test_grey_and_channels_last_and_channels_first_images_are_the_same_images():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 256, (4, 3, 8, 6), dtype=np.uint8)
    labels = np.array([0, 1, 0, 1])
    assert np.array_equal(saved(X=first, y=labels).inputs, first)
    assert np.array_equal(saved(X=first.transpose(0, 2, 3, 1), y=labels).inputs, first)
    assert np.array_equal(saved(X=first[:, 0], y=labels).inputs, first[:, :1])


def test_labels_alone_are_given_labels_whose_truth_nobody_knows():
    source = saved(X=np.zeros((3, 2)), y=np.array([0.0, 2.0, 1.0]))
    assert source.labels.tolist() == [0, 2, 1]
    assert source.labels.dtype == np.int64
    assert source.true is None
    assert source.test_inputs is None
    assert source.test_labels is None
    assert source.class_names == ("0", "1", "2")


def test_truth_test_set_and_names_come_along():
    source = saved(
        X=np.zeros((4, 2)),
        y=[0, 1, 1, 0],
        y_true=[0, 1, 2, 0],
        X_test=np.ones((2, 2)),
        y_test=[2, 0],
        class_names=["cat", "dog", "cow"],
    )
    assert source.true.tolist() == [0, 1, 2, 0]
    assert source.test_labels.tolist() == [2, 0]
    assert source.test_inputs.tolist() == [[1, 1], [1, 1]]
    assert source.class_names == ("cat", "dog", "cow")


def test_a_class_that_only_the_truth_or_the_test_set_has_is_counted():
    known = {"X": np.zeros((4, 2)), "y": [0, 1, 1, 0]}
    assert len(saved(**known, y_true=[0, 1, 2, 0]).class_names) == 3
    assert len(saved(**known, X_test=np.zeros((1, 2)), y_test=[3]).class_names) == 4


def test_names_may_be_bytes_or_numbers():
    known = {"X": np.zeros((4, 2)), "y": [0, 1, 1, 0]}
    assert saved(**known, class_names=np.array([b"cat", b"dog"])).class_names == ("cat", "dog")
    assert saved(**known, class_names=np.array([10, 20])).class_names == ("10", "20")


def test_labels_may_be_text():
    source = saved(
        X=np.zeros((4, 2)),
        y=["dog", "cat", "cat", "dog"],
        y_true=["dog", "cat", "cow", "dog"],
        X_test=np.zeros((1, 2)),
        y_test=[b"ant"],
    )
    assert source.class_names == ("ant", "cat", "cow", "dog")
    assert source.labels.tolist() == [3, 1, 1, 3]
    assert source.true.tolist() == [3, 1, 2, 3]
    assert source.test_labels.tolist() == [0]


def test_text_that_is_numbers_is_sorted_as_numbers_and_names_keep_their_order():
    known = {"X": np.zeros((4, 2))}
    assert saved(**known, y=["10", "9", "9", "10"]).class_names == ("9", "10")
    named = saved(**known, y=["a", "b", "a", "b"], class_names=["b", "a", "none"])
    assert (named.class_names, named.labels.tolist()) == (("b", "a", "none"), [1, 0, 1, 0])


def test_ids_and_checked_labels_come_along():
    source = saved(
        X=np.zeros((3, 2)), y=[0, 1, 0], ids=np.array([30, 10, 20]), verified=[True, False, True]
    )
    assert source.ids == ("30", "10", "20")
    assert source.verified.tolist() == [True, False, True]


@pytest.mark.parametrize("option", [{"label": "y"}, {"size": 32}, {"skip_broken": True}])
def test_an_option_that_a_source_has_not_is_refused(option):
    (name,) = option
    with pytest.raises(InputError, match=f"'fashion' has no option '{name}'; drop it"):
        load_source(DataSpec(source="fashion", **option))


GOOD = {"X": np.zeros((4, 2)), "y": [0, 1, 1, 0]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [0, 1, 1]}, "4 inputs but 3 labels; give one label for each input"),
        ({"y": [0, 1, -1, 0]}, "row 2 has label -1, outside 0 to 1"),
        ({"y": [0, 1, 999, 0]}, "row 2 has label 999, but there are only 4 examples"),
        ({"y": [0, 1, 10**15, 0]}, "number the classes from 0"),
        ({"y": [0, 1, 2, 0], "class_names": ["a", "b"]}, "row 2 has label 2, outside 0 to 1"),
        ({"y": [0, 1, 0.5, 0]}, "y: row 2 is 0.5; give labels as whole numbers"),
        ({"y": [0, 1, np.nan, 0]}, "y: row 2 is nan; give labels as whole numbers"),
        ({"y": ["a", "b", "", "b"]}, "y: row 2 is empty; fill it"),
        ({"y": [["a"], ["b"], ["a"], ["b"]]}, r"y has shape \(4, 1\); give one for each row"),
        ({"y": [b"a", b"b", b"a", b"\xff"]}, "y is not text in UTF-8"),
        ({"y": ["a", "b", "a", "b"], "y_true": [0, 1, 0, 1]}, "y_true has type int64, but other"),
        ({"y": ["a", "b", "a", "c"], "class_names": ["a", "b"]}, "'c' is not among class_names"),
        ({"ids": ["a", "b"]}, "2 ids for 4 rows; give one for each"),
        ({"ids": [["a"], ["b"], ["c"], ["d"]]}, r"ids has shape \(4, 1\)"),
        ({"ids": ["a", "b", "", "d"]}, "ids: row 2 is empty"),
        ({"verified": [True]}, "1 verified for 4 rows"),
        ({"verified": [0, 1, 2, 0]}, "verified should be true or false"),
        ({"verified": ["a", "b", "c", "d"]}, "verified should be true or false"),
        ({"y": [0, 1j, 0, 1]}, "type complex128; give one label per row"),
        ({"y": [[0], [1], [1], [0]]}, r"y has shape \(4, 1\)"),
        ({"y": 0}, r"y has shape \(\)"),
        ({"y": [1, 1, 1, 1]}, "all labels are the same class; give at least two"),
        ({"y": []}, "4 inputs but 0 labels"),
        ({"X": np.zeros((4, 2, 2))}, r"shape \(4, 2, 2\); give vectors"),
        ({"X": np.zeros(4)}, r"shape \(4,\); give vectors"),
        ({"X": np.zeros((0, 2)), "y": []}, r"shape \(0, 2\); give vectors"),
        ({"X": np.zeros((4, 0))}, r"shape \(4, 0\); give vectors"),
        ({"X": np.zeros((4, 1, 2, 2))}, "images of type float64; give them as uint8"),
        ({"X": np.full((4, 2), "a")}, "X has type <U1; give numbers"),
        ({"X": np.full((4, 2), 1j)}, "X has type complex128; give numbers"),
        ({"X": [[0, 0], [0, np.nan], [0, 0], [0, 0]]}, "row 1, column 1 is nan; fill or remove"),
        ({"X": [[0, 0], [0, 0], [-np.inf, 0], [0, 0]]}, "row 2, column 0 is -inf"),
        ({"X": [[0, 0], [0, 0], [0, 0], [1e300, 0]]}, "row 3, column 0 is inf"),
        ({"y_true": [0, 1, 1]}, "3 true labels for 4 rows"),
        ({"y_true": [0, 1, 1, -2]}, "true labels: row 3 has label -2"),
        ({"X_test": np.zeros((1, 2))}, "no array 'y_test' in it; save"),
        ({"y_test": [0]}, "no array 'X_test' in it; save"),
        ({"X_test": np.zeros((1, 3)), "y_test": [0]}, r"shape \(3,\), training inputs \(2,\)"),
        ({"X_test": np.zeros((1, 2)), "y_test": [0, 1]}, "1 test inputs but 2 test labels"),
        ({"X_test": [[np.nan, 0]], "y_test": [0]}, "test inputs: row 0, column 0 is nan"),
        ({"class_names": "cat"}, r"class_names have shape \(\); give a list"),
    ],
)
def test_arrays_that_cannot_be_learned_from_are_refused_by_name(change, message):
    with pytest.raises(InputError, match=message):
        saved(**GOOD | change)


@pytest.mark.parametrize("missing", ["X", "y"])
def test_a_file_without_inputs_or_labels_is_refused(missing):
    with pytest.raises(InputError, match=f"data.npz: no array '{missing}' in it"):
        saved(**{name: value for name, value in GOOD.items() if name != missing})


def test_vectors_are_checked_where_no_file_was_read():
    with pytest.raises(InputError, match="vectors of type object"):
        Source("mine", np.full((2, 2), None), np.array([0, 1]), ("a", "b"))


@pytest.mark.parametrize("name", [name for name, reader in SOURCES.items() if reader.path])
def test_a_source_that_needs_a_path_says_so(name):
    with pytest.raises(InputError, match=f"'{name}' needs a path: the"):
        load_source(DataSpec(source=name))


def test_an_unknown_source_is_told_the_known_ones():
    with pytest.raises(InputError, match="unknown data source 'mnist'; known: fashion, cifar10"):
        load_source(DataSpec(source="mnist"))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(2), r"labels have shape \(2,\), type float64; give a whole number per row"),
        (np.zeros((2, 1), int), r"labels have shape \(2, 1\), type int64; give a whole number"),
        (np.array([0, 3]), "labels: row 1 has label 3, outside 0 to 1; correct it"),
    ],
)
def test_labels_are_checked_where_no_file_was_read(labels, message):
    with pytest.raises(InputError, match=message):
        Source("mine", np.zeros((2, 2), np.float32), labels, ("a", "b"))


def test_the_path_of_test_data_is_remembered_whole(tmp_path):
    """So that the spec of a run also holds in another folder."""
    spec = data_spec("train.csv", {"test": "test.csv", "label": None})
    assert (spec.source, spec.label) == ("table", None)
    assert (spec.path, spec.test) == (str(tmp_path / "train.csv"), str(tmp_path / "test.csv"))
