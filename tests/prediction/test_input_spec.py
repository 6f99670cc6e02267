"""Images in the size and the channels that a model takes."""

import numpy as np
import pytest
from PIL import Image, ImageOps

from stub_sentences import make_messages
from ulc.config import DataSpec
from ulc.data.text.encoding import TextEncoding
from ulc.errors import InputError
from ulc.prediction.input_spec import ModelInput, resize_to_model
from ulc.prediction.new_labels import class_numbers, read_npz_labels


def taking(*image):
    return ModelInput(("a", "b"), DataSpec(), image or None)


def images(*shape):
    return np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)


def test_what_fits_is_left_alone():
    some = images(3, 1, 5, 7)
    assert resize_to_model(some, taking(1, 5, 7), "x") is some
    assert resize_to_model(some, taking(0, 5, 7), "x") is some


def test_grey_becomes_colour_and_back_to_the_bit():
    grey = images(4, 1, 6, 6)
    colour = resize_to_model(grey, taking(3, 6, 6), "x")
    assert colour.shape == (4, 3, 6, 6)
    np.testing.assert_array_equal(resize_to_model(colour, taking(1, 6, 6), "x"), grey)


def test_colour_becomes_grey_as_pillow_does_it():
    colour = images(2, 3, 6, 6)
    wanted = [Image.fromarray(each.transpose(1, 2, 0)).convert("L") for each in colour]
    found = resize_to_model(colour, taking(1, 6, 6), "x")
    np.testing.assert_array_equal(found[:, 0], [np.asarray(each) for each in wanted])


def test_another_size_is_met_as_files_of_images_are():
    colour = images(2, 3, 20, 9)
    whole = [Image.fromarray(each.transpose(1, 2, 0)) for each in colour]
    wanted = [ImageOps.fit(each, (8, 6), Image.Resampling.BICUBIC) for each in whole]
    found = resize_to_model(colour, taking(3, 6, 8), "x")
    assert found.shape == (2, 3, 6, 8)
    np.testing.assert_array_equal(
        found.transpose(0, 2, 3, 1), [np.asarray(each) for each in wanted]
    )


@pytest.mark.parametrize(
    ("channels", "wanted"), [(0, r"1 \(grey\) or 3"), (1, "1"), (3, "3"), (4, "4")]
)
def test_other_channels_are_refused(channels, wanted):
    with pytest.raises(InputError, match=rf"x: images have 2 channels; give {wanted}"):
        resize_to_model(images(1, 2, 6, 6), taking(channels, 6, 6), "x")


def test_images_are_refused_where_none_are_taken():
    with pytest.raises(InputError, match="x: images, but the run learned from vectors of"):
        resize_to_model(images(1, 3, 6, 6), taking(), "x")


def test_labels_are_found_by_name_and_whole_numbers_without_their_decimals():
    assert class_numbers(["b", None, "c", "a"], ("a", "b")).tolist() == [1, -1, -1, 0]
    assert class_numbers(["3.0", "3", "4", "3.5"], ("3", "4")).tolist() == [0, 0, 1, -1]
    assert class_numbers(["3.0", "3"], ("3", "3.0")).tolist() == [1, 0]


def test_numbers_of_a_file_without_names_are_positions_unless_classes_are_called_by_numbers():
    arrays = {"y": np.array([0, 2, -1, 7])}
    named = read_npz_labels(arrays, ("cat", "dog", "tea"), "x.npz")
    assert named == ["cat", "tea", None, "7"]
    assert read_npz_labels(arrays, ("2", "7"), "x.npz") == ["0", "2", None, "7"]
    own = arrays | {"class_names": np.array(["a", "b", "c"])}
    assert read_npz_labels(own, ("cat", "dog", "tea"), "x.npz") == ["a", "c", None, "7"]
    assert read_npz_labels({}, ("cat", "dog"), "x.npz") is None


def test_a_column_of_sentences_holds_no_labels():
    """A model of sentences knows one column, whatever it is called."""
    text = TextEncoding.fit(make_messages(60), "message", None, "x")
    model_input = ModelInput(("a", "b"), DataSpec(), text=text)
    assert model_input.columns == {"message"}
    assert str(model_input) == "sentences; give a table with them in a column 'message'"
