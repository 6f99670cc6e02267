"""Poor pictures are those that cleanvision finds; without it a sentence says how to get it."""

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageFilter
from sklearn.datasets import load_sample_images

from ulc.auditing import poor_pictures
from ulc.auditing.poor_pictures import poor_picture_entry
from ulc.config import DataSpec
from ulc.data.sources import load_source
from ulc.data.sources.source import Source


class StubLab:
    """Calls a picture dark or light by its mean, and its outline odd by its width."""

    def __init__(self, hf_dataset, image_key, verbose):
        assert not verbose
        assert image_key in hf_dataset.features
        self.rows = [hf_dataset[row]["image"] for row in range(len(hf_dataset))]

    def find_issues(self, kinds, n_jobs, verbose):
        sys.stdout.write("noise of the library")
        sys.stderr.write("a progress bar")
        measure = {
            "dark": lambda image: np.asarray(image).mean() / 255,
            "light": lambda image: 1 - np.asarray(image).mean() / 255,
            "odd_size": lambda image: 1 / image.size[0],
        }
        columns = {}
        for kind in kinds:
            score = np.array([measure.get(kind, lambda _: 1.0)(each) for each in self.rows])
            columns |= {f"{kind}_score": score, f"is_{kind}_issue": score < 0.2}
        self.issues = pd.DataFrame(columns)


@pytest.fixture
def stub(monkeypatch):
    monkeypatch.setitem(sys.modules, "cleanvision", SimpleNamespace(Imagelab=StubLab))
    monkeypatch.setattr(poor_pictures, "find_spec", lambda _: True)
    monkeypatch.setattr(poor_pictures, "version", lambda _: "0.0")


LEVELS = (100, 20, 250, 10)
GREY = np.stack([np.full((1, 4, 4), level, np.uint8) for level in LEVELS])


def entry(images=GREY, ids=None):
    source = Source("data", images, np.array([0, 1, 0, 1]), ("cat", "dog"), ids=ids)
    return poor_picture_entry(source)


def rows_by_kind(found):
    return {each["kind"]: [row["id"] for row in each["listed"]] for each in found["kinds"]}


@pytest.mark.parametrize("chunk", [3, 1000])
def test_each_kind_has_its_pictures_the_worst_first(stub, capsys, monkeypatch, chunk):
    monkeypatch.setattr(poor_pictures, "CHUNK", chunk)
    found = entry(ids=tuple("abcd"))
    assert found["found_by"] == "cleanvision 0.0"
    assert rows_by_kind(found) == {
        "dark": ["d", "b"],
        "light": ["c"],
        "blurry": [],
        "low_information": [],
    }
    dark = found["kinds"][0]
    assert dark["rows"] == 2
    assert dark["listed"][0] == {"id": "d", "label": "dog", "score": 0.0392}
    assert capsys.readouterr() == ("", "")  # the library's own words are not for our screen


def test_files_are_looked_at_as_a_whole_and_in_their_own_size(stub, tmp_path):
    """A broad picture, black at its sides, is cropped to its white middle before it is learned."""
    for name, size in {"a/1.png": (4, 4), "a/2.png": (90, 3), "b/1.png": (400, 80)}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        image = Image.new("RGB", size)
        image.paste("grey" if size[0] < 400 else "white", (size[0] // 2 - 2, 0, size[0], size[1]))
        image.paste("black", (size[0] // 2 + 2, 0, size[0], size[1]))
        image.save(path)
    (tmp_path / "b" / "2.png").write_text("no image")
    data = DataSpec(source="folder", path=str(tmp_path), skip_broken=True)
    found = rows_by_kind(poor_picture_entry(load_source(data)))
    assert found["dark"] == [str(tmp_path / "b/1.png"), str(tmp_path / "a/2.png")]
    assert found["odd_size"] == [str(tmp_path / "b/1.png"), str(tmp_path / "a/2.png")]
    assert list(found)[-2:] == ["odd_aspect_ratio", "odd_size"]


def test_colour_pictures_are_handed_over_in_colour(stub):
    colour = np.zeros((4, 3, 2, 2), np.uint8)
    colour[:, 0] = 150
    colour[2] = 250
    assert rows_by_kind(entry(colour))["dark"] == [0, 1, 3]


def test_long_lists_are_cut_and_counted(stub, monkeypatch):
    monkeypatch.setattr(poor_pictures, "LISTED", 1)
    dark = entry()["kinds"][0]
    assert (dark["rows"], len(dark["listed"])) == (2, 1)


def test_without_the_library_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(poor_pictures, "find_spec", lambda _: None)
    found = entry()
    assert list(found) == ["note"]
    assert "pip install 'ulc[pictures]'" in found["note"]


def test_a_failure_of_the_library_is_a_note_and_ends_nothing(stub, monkeypatch):
    def fail(*_, **__):
        raise KeyError("no such thing")

    monkeypatch.setattr(StubLab, "find_issues", fail)
    assert entry() == {"note": "cleanvision failed ('no such thing'); it found no poor pictures."}


def test_other_channels_are_not_looked_at(stub):
    assert "grey and colour images only" in entry(np.zeros((4, 2, 4, 4), np.uint8))["note"]


@pytest.mark.slow
def test_the_real_library_finds_a_dark_a_blurred_a_flat_and_two_odd_pictures(tmp_path):
    pytest.importorskip("cleanvision")
    photo = Image.fromarray(load_sample_images().images[0])
    crops = [photo.crop((20 * i, 150, 20 * i + 240, 330)) for i in range(16)]
    crops[1] = crops[1].point(lambda value: value // 8)
    crops[2] = crops[2].filter(ImageFilter.GaussianBlur(20))
    crops[3] = Image.new("RGB", (240, 180), (252, 252, 252))
    crops[4] = crops[4].resize((1600, 1200))
    crops[5] = crops[5].crop((0, 0, 240, 40))
    for number, crop in enumerate(crops):
        path = tmp_path / "ab"[number % 2] / f"{number:02}.png"
        path.parent.mkdir(exist_ok=True)
        crop.save(path)
    source = load_source(DataSpec(source="folder", path=str(tmp_path)))
    found = rows_by_kind(poor_picture_entry(source))
    names = {kind: sorted(path[-6:-4] for path in paths) for kind, paths in found.items()}
    assert names == {
        "dark": ["01"],
        "blurry": ["02"],
        "light": ["03"],
        "low_information": ["03"],
        "odd_size": ["04", "05"],
        "odd_aspect_ratio": ["05"],
    }
